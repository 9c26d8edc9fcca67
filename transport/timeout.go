package transport

import (
	"context"
	"sync"
	"time"
)

// WithTimeout is like [context.WithTimeoutCause], but its time stands still while a person
// is waited for: see [Pause]. So the context has no deadline to tell, and is cancelled,
// with the cause, when its time is up.
func WithTimeout(ctx context.Context, timeout time.Duration, cause error) (context.Context, context.CancelFunc) {
	t := &timeLimit{left: timeout}
	t.outer, _ = ctx.Value(timeLimitKey{}).(*timeLimit)
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, timeLimitKey{}, t))
	t.began = time.Now()
	t.timer = time.AfterFunc(timeout, func() { cancel(cause) })
	return ctx, func() {
		t.end()
		cancel(context.Canceled)
	}
}

// Pause stops the time of every [WithTimeout] that a context lies in, until resume is
// called. It has no effect on those whose time is up, and on deadlines.
func Pause(ctx context.Context) (resume func()) {
	innermost, _ := ctx.Value(timeLimitKey{}).(*timeLimit)
	for t := innermost; t != nil; t = t.outer {
		t.pause()
	}
	return func() {
		for t := innermost; t != nil; t = t.outer {
			t.resume()
		}
	}
}

type timeLimitKey struct{}

// A timeLimit is what is left of a context's time.
type timeLimit struct {
	outer *timeLimit
	timer *time.Timer

	mu     sync.Mutex
	left   time.Duration // when it began to run the last time
	began  time.Time
	paused int
}

// end is when nobody needs it any more.
func (t *timeLimit) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	t.left = 0
}

func (t *timeLimit) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused++
	if t.paused == 1 && t.timer.Stop() {
		t.left -= time.Since(t.began)
	} else if t.paused == 1 {
		t.left = 0 // its time is up
	}
}

func (t *timeLimit) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused--
	if t.paused == 0 && t.left > 0 {
		t.began = time.Now()
		t.timer.Reset(t.left)
	}
}
