package approval

import (
	"context"
	"sync"
	"time"
)

// WithBudget returns a context that ends, with the cause context.DeadlineExceeded, once so
// much time has been spent: while a [Gate] waits for a person the clock stands still, and
// so it does between [Pause] and its end. A deadline that ctx itself has stays. A budget
// that is not positive is spent at once. The returned function releases what belongs to
// the context; call it when the work is over.
func WithBudget(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &clock{left: budget, spent: func() { cancel(context.DeadlineExceeded) }}
	b.outer, _ = ctx.Value(clockKey{}).(*clock)
	b.start()
	return context.WithValue(ctx, clockKey{}, b), func() {
		b.pause()
		cancel(context.Canceled)
	}
}

// Pause stops the clock of each [WithBudget] that ctx is of. The returned function starts
// it again; it may be called more than once. Of several pauses the last end counts.
func Pause(ctx context.Context) (resume func()) {
	b, _ := ctx.Value(clockKey{}).(*clock)
	if b == nil {
		return func() {}
	}
	for c := b; c != nil; c = c.outer {
		c.pause()
	}
	return sync.OnceFunc(func() {
		for c := b; c != nil; c = c.outer {
			c.resume()
		}
	})
}

type clockKey struct{}

// A clock counts what is left of a budget.
type clock struct {
	outer *clock
	spent func()

	mu      sync.Mutex
	left    time.Duration
	started time.Time
	timer   *time.Timer
	pauses  int
}

// start is called with mu held, or before anybody else has the clock.
func (c *clock) start() {
	c.started = time.Now()
	if c.left <= 0 {
		c.spent()
		return
	}
	c.timer = time.AfterFunc(c.left, c.spent)
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses++; c.pauses > 1 {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.left -= time.Since(c.started)
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses == 0 {
		c.start()
	}
}
