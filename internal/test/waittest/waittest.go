package waittest

import (
	"context"
	"testing"
	"time"
)

// Timeout is the limit of each wait. It is far more than any event takes on a busy machine.
const Timeout = 30 * time.Second

// Receive returns the next value of events, or the zero value if events is closed. It fails
// the test after [Timeout]. Only the goroutine of the test may call it.
func Receive[T any](t testing.TB, what string, events <-chan T) T {
	t.Helper()
	select {
	case value := <-events:
		return value
	case <-time.After(Timeout):
		t.Fatalf("waited %v for %s", Timeout, what)
	}
	panic("unreachable")
}

// Return calls fn in another goroutine and waits until it returns. It fails the test after
// [Timeout]. Only the goroutine of the test may call it.
func Return(t testing.TB, what string, fn func()) {
	t.Helper()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		fn()
	}()
	Receive(t, what, returned)
}

// Until calls happened every few milliseconds until it returns true. It fails the test after
// [Timeout]. Only the goroutine of the test may call it.
func Until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Timeout); !happened(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", Timeout, what)
		}
	}
}

// Within calls fn with a context that ends after [Timeout], and fails the test if fn returns
// only then. Use it for calls that may wait for the end of their context.
func Within(t testing.TB, what string, fn func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	fn(ctx)
	if ctx.Err() != nil {
		t.Errorf("waited %v for %s", Timeout, what)
	}
}
