package deadline

import (
	"context"
	"sync"
	"time"
)

// An Activity extends deadlines: one that is set in a context of [Activity.Context] passes
// when its timeout has passed since the last [Activity.Renew]. The zero value is ready for
// use. Its methods may be called concurrently.
type Activity struct {
	mu     sync.Mutex
	at     time.Time
	pauses int
}

// Renew notes that the work goes on.
func (a *Activity) Renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Now()
}

// Pause notes that the work waits for somebody else, until resume is called once.
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
// there was none in that time.
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

// Context returns a context in which the activity extends deadlines. It extends none that
// ctx has already.
func (a *Activity) Context(ctx context.Context) context.Context {
	return &activeContext{ctx, a, activityOf(ctx)}
}

// Left returns how much of a timeout is left since the last activity of ctx. It is for
// those who have a timer of their own, once that has fired.
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

// left returns the most that is left by any activity.
func (c *activeContext) left(timeout time.Duration) (most time.Duration) {
	for ; c != nil; c = c.outer {
		most = max(most, c.activity.Left(timeout))
	}
	return most
}
