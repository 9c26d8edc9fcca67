package deadline_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var errLate = errors.New("late")

func pass(d time.Duration) { <-time.After(d) }

// wantEnd waits until ctx ends, and checks when and why it did.
func wantEnd(ctx context.Context, t *testing.T, began time.Time, after time.Duration, cause error) {
	t.Helper()
	<-ctx.Done()
	if got := time.Since(began); got != after || context.Cause(ctx) != cause {
		t.Errorf("the context ended after %v with %v, want %v and %v", got, context.Cause(ctx), after, cause)
	}
}

func TestDeadlineEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, timeout := range []time.Duration{time.Minute, 0, -time.Second} {
			began := time.Now()
			ctx, cancel := deadline.With(t.Context(), timeout, errLate)
			wantEnd(ctx, t, began, max(timeout, 0), errLate)
			deadline.Pause(ctx)() // has no effect any more
			if _, ok := ctx.Deadline(); ok {
				t.Error("the context reports a deadline, which a pause would move")
			}
			cancel()
		}
	})
}

func TestPausesOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := deadline.With(t.Context(), 10*time.Second, errLate)
		defer cancel()
		pass(4 * time.Second)
		first := deadline.Pause(ctx)
		pass(time.Hour)
		second := deadline.Pause(ctx)
		first()
		first()
		pass(time.Hour)
		second()
		wantEnd(ctx, t, began, 2*time.Hour+10*time.Second, errLate)
	})
}

func TestPauseStopsOuterDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, errOuter := time.Now(), errors.New("outer")
		outer, cancelOuter := deadline.With(t.Context(), 2*time.Minute, errOuter)
		defer cancelOuter()
		between, cancelBetween := context.WithTimeout(outer, 24*time.Hour)
		defer cancelBetween()
		inner, cancelInner := deadline.With(between, time.Minute, errLate)
		defer cancelInner()
		pass(30 * time.Second)
		resume := deadline.Pause(inner)
		pass(time.Hour)
		resume()
		wantEnd(inner, t, began, time.Hour+time.Minute, errLate)
		wantEnd(outer, t, began, time.Hour+2*time.Minute, errOuter)
		deadline.Pause(t.Context())() // nothing to pause
	})
}

func TestPauseStopsAnOuterDeadlineThatIsNearer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		outer, cancelOuter := deadline.With(t.Context(), 10*time.Second, errLate)
		defer cancelOuter()
		inner, cancelInner := deadline.With(outer, time.Minute, errors.New("inner"))
		defer cancelInner()
		resume := deadline.Pause(inner)
		pass(time.Hour)
		resume()
		wantEnd(inner, t, began, time.Hour+10*time.Second, errLate)
	})
}

func TestCancelledDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := deadline.With(t.Context(), time.Minute, errLate)
		resume := deadline.Pause(ctx)
		cancel()
		resume()
		pass(time.Hour)
		if context.Cause(ctx) != context.Canceled {
			t.Errorf("the context ended with %v", context.Cause(ctx))
		}
	})
}

func TestHas(t *testing.T) {
	pausable, cancel := deadline.With(t.Context(), time.Minute, errLate)
	defer cancel()
	fixed, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for want, contexts := range map[bool][]context.Context{
		true:  {pausable, fixed, context.WithValue(pausable, errLate, 1)},
		false: {t.Context(), context.Background()},
	} {
		for _, ctx := range contexts {
			if deadline.Has(ctx) != want {
				t.Errorf("Has(%v) is %t", ctx, !want)
			}
		}
	}
}

// An activity extends the deadlines that are set within it, and none outside.
func TestActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, errOuter := time.Now(), errors.New("outer")
		outer, cancel := deadline.With(t.Context(), 2*time.Minute, errOuter)
		defer cancel()
		var first, second deadline.Activity
		between := second.Context(first.Context(outer))
		inner, cancel := deadline.With(between, time.Minute, errLate)
		defer cancel()
		pass(50 * time.Second)
		first.Renew()
		pass(20 * time.Second)
		second.Renew()
		if left := deadline.Left(between, time.Minute); left != time.Minute {
			t.Errorf("%v are left of a minute", left)
		}
		if left := deadline.Left(outer, time.Minute); left != 0 {
			t.Errorf("%v are left without any activity", left)
		}
		wantEnd(outer, t, began, 2*time.Minute, errOuter)
		wantEnd(inner, t, began, 2*time.Minute, errOuter)

		began = time.Now()
		alone, cancel := deadline.With(first.Context(t.Context()), time.Minute, errLate)
		defer cancel()
		for range 10 {
			pass(50 * time.Second)
			first.Renew()
		}
		wantEnd(alone, t, began, 560*time.Second, errLate)
	})
}

// Neither an activity that waits nor a paused deadline counts time, and together they do not
// shorten it.
func TestActivityPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var a deadline.Activity
		ctx, cancel := deadline.With(a.Context(t.Context()), time.Minute, errLate)
		defer cancel()
		pass(50 * time.Second)
		one, other := a.Pause(), a.Pause()
		pass(time.Hour)
		one()
		pass(time.Hour)
		other()
		pass(50 * time.Second)
		a.Renew()
		pass(5 * time.Second)
		resume := deadline.Pause(ctx)
		pass(time.Hour)
		resume()
		wantEnd(ctx, t, began, 3*time.Hour+50*time.Second+50*time.Second+time.Minute, errLate)
	})
}

func TestPaused(t *testing.T) {
	outer, cancel := deadline.With(t.Context(), time.Minute, errLate)
	defer cancel()
	inner, cancel := deadline.With(outer, time.Minute, errLate)
	defer cancel()
	wants := func(want bool) {
		t.Helper()
		for _, ctx := range []context.Context{outer, inner} {
			if deadline.Paused(ctx) != want {
				t.Errorf("Paused(%v) is %t", ctx, !want)
			}
		}
	}
	wants(false)
	first, second := deadline.Pause(inner), deadline.Pause(inner)
	first()
	wants(true)
	second()
	wants(false)
	if deadline.Paused(t.Context()) {
		t.Error("a context without a deadline is paused")
	}
}

// A pause does not end while the function of WhilePaused runs.
func TestWhilePaused(t *testing.T) {
	ctx, cancel := deadline.With(t.Context(), time.Minute, errLate)
	defer cancel()
	unexpected := func() { t.Error("the function is called without a pause") }
	if deadline.WhilePaused(ctx, unexpected) || deadline.WhilePaused(t.Context(), unexpected) {
		t.Error("there is a pause")
	}
	resume := deadline.Pause(ctx)
	var ended, called atomic.Bool
	resumed := make(chan struct{})
	if !deadline.WhilePaused(ctx, func() {
		go func() {
			defer close(resumed)
			resume()
			ended.Store(true)
		}()
		for range 1000 {
			runtime.Gosched()
		}
		if called.Store(true); ended.Load() {
			t.Error("the pause has ended")
		}
	}) || !called.Load() {
		t.Error("there is no pause")
	}
	<-resumed
	if deadline.Paused(ctx) {
		t.Error("the pause has not ended")
	}
}

// EndPaused ends the context of work that waits for a person, now or later, and no other one.
func TestEndPaused(t *testing.T) {
	errStop := errors.New("stop")
	for name, test := range map[string]struct {
		pause         func(context.Context) (resume func())
		before, after bool // whether it is paused before or after EndPaused
		want          error
	}{
		"waits":       {pause: deadline.Pause, before: true, want: errStop},
		"waits later": {pause: deadline.Pause, after: true, want: errStop},
		"has waited":  {pause: deadline.Pause},
		"works":       {pause: deadline.PauseWork, before: true, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := deadline.With(t.Context(), time.Hour, errLate)
			defer cancel()
			inner, end := deadline.With(ctx, time.Hour, errLate)
			defer end()
			resume := test.pause(inner)
			if !test.before {
				resume()
			}
			deadline.EndPaused(ctx, errStop)
			resume()
			if test.after {
				test.pause(inner)()
			}
			if got := context.Cause(inner); got != test.want {
				t.Errorf("the context has ended with %v, want %v", got, test.want)
			}
			cancel()
			if got := context.Cause(ctx); test.want == nil && got != context.Canceled {
				t.Errorf("the cancelled context has ended with %v", got)
			}
		})
	}
	deadline.EndPaused(t.Context(), errStop) // has no deadline
}

// Pauses, activities and timers that fire at the same time leave the deadline as it was.
func TestDeadlinesAreConcurrent(t *testing.T) {
	var activity deadline.Activity
	defer activity.Pause()() // keeps the context open
	ctx, cancel := deadline.With(activity.Context(t.Context()), time.Microsecond, errLate)
	defer cancel()
	var group sync.WaitGroup
	for _, work := range []func(){
		func() { deadline.Pause(ctx)() },
		func() { deadline.PauseWork(ctx)() },
		func() { deadline.Paused(ctx) },
		func() { deadline.Left(ctx, time.Minute) },
		func() { activity.Pause()() },
		func() { activity.Renew() },
		func() {
			_, cancel := deadline.With(ctx, time.Microsecond, errLate)
			cancel()
		},
	} {
		group.Go(func() {
			for range 200 {
				work()
			}
		})
	}
	group.Wait()
	if deadline.Paused(ctx) || ctx.Err() != nil || activity.Left(time.Minute) != time.Minute {
		t.Errorf("paused: %t, ended: %v, left of the activity: %v", deadline.Paused(ctx), context.Cause(ctx), activity.Left(time.Minute))
	}
}

// A pause that begins while the pauses of a context are ended ends it, whichever is first.
func TestEndPausedIsConcurrent(t *testing.T) {
	for range 200 {
		ctx, cancel := deadline.With(t.Context(), time.Hour, errLate)
		var group sync.WaitGroup
		group.Go(func() { deadline.EndPaused(ctx, errors.New("ended")) })
		group.Go(func() { deadline.Pause(ctx) })
		group.Wait()
		if ctx.Err() == nil {
			t.Error("the context is open")
		}
		cancel()
	}
}
