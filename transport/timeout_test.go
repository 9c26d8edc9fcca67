package transport_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/transport"
)

var errLate = errors.New("late")

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := transport.WithTimeout(t.Context(), time.Minute, errLate)
		defer cancel()
		<-ctx.Done()
		if got := time.Since(began); got != time.Minute || context.Cause(ctx) != errLate {
			t.Errorf("it ended after %v with %v", got, context.Cause(ctx))
		}
		transport.Pause(ctx)() // changes nothing any more
		if _, ok := ctx.Deadline(); ok {
			t.Error("it has a deadline")
		}
	})
}

// While it is paused, by however many, no time passes: neither of the context's own nor
// of those that it lies in. Deadlines of another kind are kept.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		outer, cancelOuter := transport.WithTimeout(t.Context(), 2*time.Minute, errors.New("outer"))
		defer cancelOuter()
		between, cancelBetween := context.WithTimeout(outer, 24*time.Hour)
		defer cancelBetween()
		inner, cancelInner := transport.WithTimeout(between, time.Minute, errLate)
		defer cancelInner()
		<-time.After(30 * time.Second)
		first := transport.Pause(inner)
		<-time.After(time.Hour)
		second := transport.Pause(inner)
		first()
		<-time.After(time.Hour)
		second()
		<-inner.Done()
		if got := time.Since(began); got != 2*time.Hour+time.Minute || context.Cause(inner) != errLate {
			t.Errorf("it ended after %v with %v", got, context.Cause(inner))
		}
		<-outer.Done()
		if got := time.Since(began); got != 2*time.Hour+2*time.Minute {
			t.Errorf("the outer one ended after %v", got)
		}
		transport.Pause(t.Context())() // nothing to pause
	})
}

func TestTimeoutThatIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := transport.WithTimeout(t.Context(), time.Minute, errLate)
		resume := transport.Pause(ctx)
		cancel()
		resume()
		<-time.After(time.Hour)
		if context.Cause(ctx) != context.Canceled {
			t.Errorf("it ended with %v", context.Cause(ctx))
		}
	})
}
