package deadline

import (
	"context"
	"sync"
	"time"
)

// With returns a context that is cancelled with cause when timeout has passed, not counting
// pauses. Each [Activity] of ctx extends the timeout. A timeout that is not positive cancels
// the context immediately. The context reports no Deadline, since pauses move it; use [Has].
// The caller must call cancel when the work is done.
func With(ctx context.Context, timeout time.Duration, cause error) (_ context.Context, cancel context.CancelFunc) {
	d := &deadline{timeout: timeout, left: timeout, cause: cause, activity: activityOf(ctx)}
	d.outer, _ = ctx.Value(key{}).(*deadline)
	d.Context, d.end = context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.start()
	return d, d.cancel
}

// Pause pauses all deadlines of ctx until resume is called, because the work waits for a person. If they
// are paused several times, they continue when the last pause ends. Calling resume again has no effect.
func Pause(ctx context.Context) (resume func()) { return pause(ctx, true) }

// PauseWork is like [Pause] for work that may not wait for a person itself. [EndPaused] does not end it.
func PauseWork(ctx context.Context) (resume func()) { return pause(ctx, false) }

func pause(ctx context.Context, waits bool) (resume func()) {
	innermost, _ := ctx.Value(key{}).(*deadline)
	if innermost == nil {
		return func() {}
	}
	for d := innermost; d != nil; d = d.outer {
		d.pause(waits)
	}
	return sync.OnceFunc(func() {
		for d := innermost; d != nil; d = d.outer {
			d.resume(waits)
		}
	})
}

// Has reports whether ctx has a deadline, of this package or of package context.
func Has(ctx context.Context) bool {
	if _, ok := ctx.Deadline(); ok {
		return true
	}
	return ctx.Value(key{}) != nil
}

// Paused reports whether the deadlines of ctx are paused.
func Paused(ctx context.Context) bool { return WhilePaused(ctx, func() {}) }

// WhilePaused calls f if the deadlines of ctx are paused, and reports whether they are. The pause
// does not end before f returns. f must not block, nor pause the deadlines of ctx.
func WhilePaused(ctx context.Context, f func()) bool {
	d, _ := ctx.Value(key{}).(*deadline)
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pauses > 0 {
		f()
	}
	return d.pauses > 0
}

// EndPaused ends ctx, which [With] has returned, with cause if its work waits for a person, and otherwise
// when it begins to wait: at the next [Pause].
func EndPaused(ctx context.Context, cause error) {
	d, _ := ctx.Value(key{}).(*deadline)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pauseCause = cause
	if d.waits > 0 {
		d.end(cause)
	}
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
	left    time.Duration // what was left at started
	started time.Time
	timer   *time.Timer
	pauses  int

	waits      int   // those pauses in which the work waits for a person
	pauseCause error // the cause with which such a pause ends the context; nil if it does not
}

// Value returns the deadline itself for the key of deadlines.
func (d *deadline) Value(k any) any {
	if k == (key{}) {
		return d
	}
	return d.Context.Value(k)
}

func (d *deadline) cancel() {
	d.end(context.Canceled)
	d.pause(false)
}

// start starts the timer. It is called with mu held.
func (d *deadline) start() {
	d.started = time.Now()
	if d.left <= 0 {
		d.end(d.cause)
		return
	}
	d.timer = time.AfterFunc(d.left, d.expire)
}

// expire ends the context, unless an activity has extended it.
func (d *deadline) expire() {
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

func (d *deadline) pause(waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waits {
		d.waits++
		if d.pauseCause != nil {
			d.end(d.pauseCause)
		}
	}
	if d.pauses++; d.pauses > 1 {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.left = max(d.left-time.Since(d.started), d.activity.left(d.timeout))
}

func (d *deadline) resume(waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waits {
		d.waits--
	}
	if d.pauses--; d.pauses == 0 {
		d.start()
	}
}

// An Activity extends the deadlines that are set in a context of [Activity.Context]: their
// timeouts count from the last [Activity.Renew]. The zero value is ready for use. Its methods
// may be called concurrently.
type Activity struct {
	mu     sync.Mutex
	at     time.Time
	pauses int
}

// Renew records that the work makes progress.
func (a *Activity) Renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Now()
}

// Pause pauses the timeouts until resume is called. resume must be called once.
func (a *Activity) Pause() (resume func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pauses++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.pauses--
		a.at = time.Now()
	}
}

// Left returns how much of a timeout is left since the last Renew. It is not positive if
// there was no Renew within the timeout.
func (a *Activity) Left(timeout time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.pauses > 0:
		return timeout
	case a.at.IsZero():
		return 0
	default:
		return timeout - time.Since(a.at)
	}
}

// Context returns a context in which the activity extends deadlines. It does not extend the deadlines that ctx already
// has.
func (a *Activity) Context(ctx context.Context) context.Context {
	return &activeContext{ctx, a, activityOf(ctx)}
}

// Left returns how much of a timeout is left since the last activity of ctx. It is for code
// with a timer of its own, when that has fired.
func Left(ctx context.Context, timeout time.Duration) time.Duration {
	return activityOf(ctx).left(timeout)
}

// An activeContext has an activity.
type activeContext struct {
	context.Context
	activity *Activity
	outer    *activeContext
}

type activityKey struct{}

// Value returns the context itself for the key of activities.
func (c *activeContext) Value(key any) any {
	if key == (activityKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func activityOf(ctx context.Context) *activeContext {
	c, _ := ctx.Value(activityKey{}).(*activeContext)
	return c
}

// left returns how much is left since the last of all activities.
func (c *activeContext) left(timeout time.Duration) (most time.Duration) {
	for ; c != nil; c = c.outer {
		most = max(most, c.activity.Left(timeout))
	}
	return most
}
