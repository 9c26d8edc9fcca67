package webhook

import (
	"context"
	"sync"
	"time"
)

// limiter bounds the deliveries and verifications of each key, which is a host or a principal.
type limiter struct {
	maxDeliveries    int // of a key
	maxVerifications int // of a key in a minute

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

func newLimiter(maxDeliveries, maxVerifications int) *limiter {
	return &limiter{
		maxDeliveries: maxDeliveries, maxVerifications: maxVerifications,
		slots: map[string]*slots{}, verifications: map[string]int{},
	}
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
	// hostVerifications is how often this replica may verify URLs of one host in a minute.
	hostVerifications = 30
	// sharedVerifications is how many of them one principal may cause: half.
	sharedVerifications = 15
	// principalVerifications is how often this replica may verify URLs of one principal in a minute.
	principalVerifications = 100
	// maxVerifiedKeys is how many hosts, how many principals, and how many pairs of both, may have verifications in a
	// minute.
	maxVerifiedKeys = 1000
)

// mayVerify reports whether a URL of a key may be verified now, and counts it.
func (l *limiter) mayVerify(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.minute) >= time.Minute {
		l.minute = now
		clear(l.verifications)
	}
	if l.verifications[key] >= l.maxVerifications || len(l.verifications) >= maxVerifiedKeys && l.verifications[key] == 0 {
		return false
	}
	l.verifications[key]++
	return true
}
