package webhook

import (
	"context"
	"sync"
	"time"
)

// limiter bounds the deliveries and verifications of each key, which is a host or a principal.
type limiter struct {
	maxDeliveries int // of a key

	mu    sync.Mutex
	slots map[string]*slots // of keys with deliveries in progress

	minute        time.Time // when verifications was emptied
	verifications map[string]int
}

// slots are the slots of one key.
type slots struct {
	free  chan struct{} // has a value for each delivery in progress
	users int           // that hold a slot or wait for one
}

func newLimiter(maxDeliveries int) *limiter {
	return &limiter{maxDeliveries: maxDeliveries, slots: map[string]*slots{}, verifications: map[string]int{}}
}

// acquire waits for a slot of a key until ctx ends. If ok, the caller must call release.
func (l *limiter) acquire(ctx context.Context, key string) (release func(), ok bool) {
	l.mu.Lock()
	s := l.slots[key]
	if s == nil {
		s = &slots{free: make(chan struct{}, l.maxDeliveries)}
		l.slots[key] = s
	}
	s.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(l.slots, key)
		}
	}
	select {
	case s.free <- struct{}{}:
		return func() { <-s.free; leave() }, true
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
func (l *limiter) mayVerify(host string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.minute) >= time.Minute {
		l.minute = now
		clear(l.verifications)
	}
	if l.verifications[host] >= verificationsPerMinute || len(l.verifications) >= maxVerifiedHosts && l.verifications[host] == 0 {
		return false
	}
	l.verifications[host]++
	return true
}
