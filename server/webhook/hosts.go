package webhook

import (
	"context"
	"sync"
	"time"
)

// hosts bounds the deliveries to each host, and its verifications.
type hosts struct {
	perHost int

	mu    sync.Mutex
	slots map[string]*hostSlots // of hosts with deliveries in progress

	minute        time.Time // when verifications was emptied
	verifications map[string]int
}

// hostSlots are the slots of one host.
type hostSlots struct {
	free  chan struct{} // has a value for each delivery in progress
	users int           // that hold a slot or wait for one
}

func newHosts(perHost int) *hosts {
	return &hosts{perHost: perHost, slots: map[string]*hostSlots{}, verifications: map[string]int{}}
}

// acquire waits for a slot of a host until ctx ends. If ok, the caller must call release.
func (h *hosts) acquire(ctx context.Context, host string) (release func(), ok bool) {
	h.mu.Lock()
	slots := h.slots[host]
	if slots == nil {
		slots = &hostSlots{free: make(chan struct{}, h.perHost)}
		h.slots[host] = slots
	}
	slots.users++
	h.mu.Unlock()
	leave := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if slots.users--; slots.users == 0 {
			delete(h.slots, host)
		}
	}
	select {
	case slots.free <- struct{}{}:
		return func() { <-slots.free; leave() }, true
	case <-ctx.Done():
		leave()
		return nil, false
	}
}

const (
	// verificationsPerMinute is how often this replica may verify URLs of one host in a minute.
	verificationsPerMinute = 30
	// maxVerifiedHosts is how many hosts may be verified in a minute.
	maxVerifiedHosts = 1000
)

// mayVerify reports whether a URL of a host may be verified now, and counts it.
func (h *hosts) mayVerify(host string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.minute) >= time.Minute {
		h.minute = now
		clear(h.verifications)
	}
	if h.verifications[host] >= verificationsPerMinute || len(h.verifications) >= maxVerifiedHosts && h.verifications[host] == 0 {
		return false
	}
	h.verifications[host]++
	return true
}
