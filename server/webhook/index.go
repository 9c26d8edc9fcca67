package webhook

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/webhook"
)

// An index contains the subscriptions of all replicas, as far as this one knows them.
type index struct {
	mu         sync.Mutex
	byID       map[string]*webhook.Subscription
	byEvent    map[string]map[string]*webhook.Subscription
	principals map[string]int // how many subscriptions each has
}

func newIndex() *index {
	return &index{
		byID: map[string]*webhook.Subscription{}, byEvent: map[string]map[string]*webhook.Subscription{},
		principals: map[string]int{},
	}
}

// add adds or replaces a subscription.
func (x *index) add(sub *webhook.Subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeLocked(sub.ID)
	x.byID[sub.ID] = sub
	if x.byEvent[sub.Event] == nil {
		x.byEvent[sub.Event] = map[string]*webhook.Subscription{}
	}
	x.byEvent[sub.Event][sub.ID] = sub
	x.principals[sub.Principal]++
}

func (x *index) remove(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeLocked(id)
}

func (x *index) removeLocked(id string) {
	sub := x.byID[id]
	if sub == nil {
		return
	}
	delete(x.byID, id)
	delete(x.byEvent[sub.Event], id)
	if len(x.byEvent[sub.Event]) == 0 {
		delete(x.byEvent, sub.Event)
	}
	if x.principals[sub.Principal]--; x.principals[sub.Principal] == 0 {
		delete(x.principals, sub.Principal)
	}
}

// of returns the live subscriptions to an event.
func (x *index) of(event string, now time.Time) []*webhook.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live(x.byEvent[event], now)
}

// all returns the live subscriptions.
func (x *index) all(now time.Time) []*webhook.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live(x.byID, now)
}

// live returns the subscriptions of a map that have not expired, and removes the others.
func (x *index) live(in map[string]*webhook.Subscription, now time.Time) []*webhook.Subscription {
	list := make([]*webhook.Subscription, 0, len(in))
	for _, sub := range slices.Collect(maps.Values(in)) {
		if !sub.Expires.IsZero() && !now.Before(sub.Expires) {
			x.removeLocked(sub.ID)
			continue
		}
		list = append(list, sub)
	}
	return list
}

// count returns the number of live subscriptions, and that of a principal.
func (x *index) count(principal string, now time.Time) (all, own int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.live(x.byID, now)), x.principals[principal]
}

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
	default:
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

// verify reports whether a URL of a host may be verified now.
func (h *hosts) verify(host string, now time.Time) bool {
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
