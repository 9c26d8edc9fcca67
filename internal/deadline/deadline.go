// Package deadline ends contexts after a time that can be paused: time spent waiting for
// a person counts in no timeout.
//
// All deadlines of a context and of its parents are paused together, whichever package
// has set them, so the timeouts of a tool, of a client, of a bridge and of an HTTP
// request nest.
package deadline

import (
	"context"
	"sync"
	"time"
)

// With returns a context that is cancelled with the cause once timeout has passed, not
// counting pauses. Each [Activity] of ctx extends it. A timeout that is not positive has
// passed already. The context reports no Deadline, since pauses move it; use [Has]. Call
// cancel when the work is done.
func With(ctx context.Context, timeout time.Duration, cause error) (_ context.Context, cancel context.CancelFunc) {
	d := &deadline{timeout: timeout, left: timeout, cause: cause, activity: activityOf(ctx)}
	d.outer, _ = ctx.Value(key{}).(*deadline)
	d.Context, d.end = context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.start()
	return d, d.cancel
}

// Pause stops the clocks of all deadlines of ctx, until resume is called. Of several
// pauses at a time the last one that ends counts. Calling resume again has no effect.
func Pause(ctx context.Context) (resume func()) {
	innermost, _ := ctx.Value(key{}).(*deadline)
	if innermost == nil {
		return func() {}
	}
	for d := innermost; d != nil; d = d.outer {
		d.pause()
	}
	return sync.OnceFunc(func() {
		for d := innermost; d != nil; d = d.outer {
			d.resume()
		}
	})
}

// Has reports whether ctx ends at some time by itself.
func Has(ctx context.Context) bool {
	if _, ok := ctx.Deadline(); ok {
		return true
	}
	return ctx.Value(key{}) != nil
}

// Paused reports whether the deadlines of ctx are paused.
func Paused(ctx context.Context) bool {
	d, _ := ctx.Value(key{}).(*deadline)
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pauses > 0
}

type key struct{}

// A deadline is the context that it ends.
type deadline struct {
	context.Context
	outer    *deadline // of a parent context
	timeout  time.Duration
	activity *activeContext
	end      context.CancelCauseFunc
	cause    error

	mu      sync.Mutex
	left    time.Duration // when started was set
	started time.Time
	timer   *time.Timer
	pauses  int
}

// Value returns the deadline itself for the key of deadlines.
func (d *deadline) Value(k any) any {
	if k == (key{}) {
		return d
	}
	return d.Context.Value(k)
}

func (d *deadline) cancel() {
	d.pause()
	d.end(context.Canceled)
}

// start is called with mu held.
func (d *deadline) start() {
	d.started = time.Now()
	if d.left <= 0 {
		d.end(d.cause)
		return
	}
	d.timer = time.AfterFunc(d.left, d.lapse)
}

// lapse ends the context, unless an activity has extended it.
func (d *deadline) lapse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pauses > 0 {
		return
	}
	if d.left = d.activity.left(d.timeout); d.left > 0 {
		d.start()
		return
	}
	d.end(d.cause)
}

func (d *deadline) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pauses++; d.pauses > 1 {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.left = max(d.left-time.Since(d.started), d.activity.left(d.timeout))
}

func (d *deadline) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pauses--; d.pauses == 0 {
		d.start()
	}
}
