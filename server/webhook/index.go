package webhook

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// An index contains the subscriptions of all replicas, as far as this one knows them.
type index struct {
	mu         sync.Mutex
	byID       map[string]*delivery.Subscription
	byEvent    map[string]map[string]*delivery.Subscription
	principals map[string]int                      // how many subscriptions each has
	pending    map[*delivery.Subscription]struct{} // that this replica is adding
	retained   *quota.Retained
}

// subscriptionMemory is the memory in bytes of a subscription, in addition to its key, with its records in the store.
const subscriptionMemory = 4 << 10

// sizeOf returns the size of a subscription in the index and in the store.
func sizeOf(key *delivery.Key) int64 {
	return subscriptionMemory + 2*int64(len(key.URL)+len(key.Event)+len(key.Arguments))
}

func holderOf(key *delivery.Key) quota.Holder { return quota.HolderOf(key.Principal, "") }

func newIndex() *index {
	return &index{
		byID: map[string]*delivery.Subscription{}, byEvent: map[string]map[string]*delivery.Subscription{},
		principals: map[string]int{}, pending: map[*delivery.Subscription]struct{}{},
	}
}

// add adds or replaces a subscription.
func (x *index) add(sub *delivery.Subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeLocked(sub.ID)
	x.byID[sub.ID] = sub
	if x.byEvent[sub.Event] == nil {
		x.byEvent[sub.Event] = map[string]*delivery.Subscription{}
	}
	x.byEvent[sub.Event][sub.ID] = sub
	x.principals[sub.Principal]++
	x.retained.Add(holderOf(&sub.Key), sizeOf(&sub.Key))
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
	x.retained.Return(holderOf(&sub.Key), sizeOf(&sub.Key))
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
func (x *index) of(event string, now time.Time) []*delivery.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live(x.byEvent[event], now)
}

// all returns the live subscriptions.
func (x *index) all(now time.Time) []*delivery.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live(x.byID, now)
}

// live returns the subscriptions of a map that have not expired, and removes the others.
func (x *index) live(in map[string]*delivery.Subscription, now time.Time) []*delivery.Subscription {
	list := make([]*delivery.Subscription, 0, len(in))
	for _, sub := range slices.Collect(maps.Values(in)) {
		if !sub.Expires.IsZero() && !now.Before(sub.Expires) {
			x.removeLocked(sub.ID)
			continue
		}
		list = append(list, sub)
	}
	return list
}

// reserve makes room for a subscription that is being added, and counts it until release is called. The error is a
// [delivery.LimitError].
func (x *index) reserve(sub *delivery.Subscription, maxOwn, maxAll int, now time.Time) (release func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	all, own := x.count(sub.Principal)
	if all >= maxAll || own >= maxOwn {
		x.live(x.byID, now) // removes what has expired
		all, own = x.count(sub.Principal)
	}
	switch {
	case own >= maxOwn:
		return nil, &delivery.LimitError{Limit: "subscriptions", Max: maxOwn}
	case all >= maxAll:
		return nil, &delivery.LimitError{Limit: "subscriptions", Max: maxAll}
	}
	x.pending[sub] = struct{}{}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.pending, sub)
	}, nil
}

// count returns the number of subscriptions, and of those of a principal, with those that are being added. x.mu is held.
func (x *index) count(principal string) (all, own int) {
	all, own = len(x.byID), x.principals[principal]
	for adding := range x.pending {
		if x.byID[adding.ID] != nil { // it is counted already
			continue
		}
		if all++; adding.Principal == principal {
			own++
		}
	}
	return all, own
}
