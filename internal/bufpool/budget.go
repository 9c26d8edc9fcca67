package bufpool

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Small is the length in bytes up to which messages do not count toward a [Budget].
	Small = smallSize
	// minWait and maxWait bound how long a charge waits for room. The time is random, so that
	// messages that wait for each other's memory do not all fail at the same moment.
	minWait = 500 * time.Millisecond
	maxWait = 2 * time.Second
)

// ErrFull is the error of a charge beyond the limit of a [Budget].
var ErrFull = errors.New("busy: too many large messages are being read or handled")

// A Budget limits the bytes of large messages that are held at a time. Its methods may be called
// concurrently. A nil Budget has no limit.
type Budget struct {
	max int64

	mu      sync.Mutex
	used    int64
	waiting []*waiter // in order of arrival
}

// A waiter is a charge that waits for room.
type waiter struct {
	more    int64
	granted chan struct{} // closed when the bytes are charged
}

// NewBudget returns an unused budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{max: limit} }

// Usage returns how many bytes are charged, of how many.
func (b *Budget) Usage() (used, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.max
}

// Grow charges a message whose buffer gets size bytes. charge is nil for a message that is not
// charged yet, and the result is nil for a small one. Grow waits for room, at most 2 seconds or
// until ctx ends; then it returns [ErrFull] and leaves the charge as it is.
func (b *Budget) Grow(ctx context.Context, charge *Charge, size int) (*Charge, error) {
	if b == nil || size <= Small {
		return charge, nil
	}
	have := int64(0)
	if charge != nil {
		have = charge.size
	}
	more := int64(size) - have
	if more <= 0 {
		return charge, nil
	}
	if err := b.acquire(ctx, more, int64(size)); err != nil {
		return charge, err
	}
	if charge == nil {
		charge = &Charge{budget: b}
		charge.users.Store(1)
	}
	charge.size = int64(size)
	return charge, nil
}

// acquire charges more bytes of a message that needs total.
func (b *Budget) acquire(ctx context.Context, more, total int64) error {
	if total > b.max {
		return ErrFull // waiting is useless
	}
	b.mu.Lock()
	if len(b.waiting) == 0 && b.used+more <= b.max {
		b.used += more
		b.mu.Unlock()
		return nil
	}
	w := &waiter{more, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-time.After(minWait + rand.N(maxWait-minWait)): //nolint:gosec // it need not be a secret
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return nil // granted in the meantime
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.grant() // the next one may need less
	return ErrFull
}

func (b *Budget) release(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= size
	b.grant()
}

// grant charges waiting messages, in order, while there is room.
func (b *Budget) grant() {
	for len(b.waiting) > 0 && b.used+b.waiting[0].more <= b.max {
		b.used += b.waiting[0].more
		close(b.waiting[0].granted)
		b.waiting = slices.Delete(b.waiting, 0, 1)
	}
}

// A Charge is the bytes of one large message. It has one user at first. A small message has a nil Charge, and its
// methods have no effect.
type Charge struct {
	budget *Budget
	size   int64
	users  atomic.Int32
}

// Retain adds a user of the message.
func (c *Charge) Retain() {
	if c != nil {
		c.users.Add(1)
	}
}

// Release removes a user of the message. The last one gives the bytes back.
func (c *Charge) Release() {
	if c != nil && c.users.Add(-1) == 0 {
		c.budget.release(c.size)
	}
}
