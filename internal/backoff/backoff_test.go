package backoff_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const ms = time.Millisecond

func pauses(b *backoff.Backoff, n int) []time.Duration {
	var all []time.Duration
	for range n {
		all = append(all, b.Next())
	}
	return all
}

func fixed(r float64) func() float64 { return func() float64 { return r } }

func TestNext(t *testing.T) {
	almostOne := math.Nextafter(1, 0)
	for _, test := range []struct {
		name string
		b    backoff.Backoff
		want []time.Duration
	}{
		{"default, shortest", backoff.Backoff{Random: fixed(0)},
			[]time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 15000 * ms, 15000 * ms}},
		{"default, middle", backoff.Backoff{Random: fixed(0.5)},
			[]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 21400 * ms, 22500 * ms, 22500 * ms}},
		{"default, longest", backoff.Backoff{Random: fixed(almostOne)},
			[]time.Duration{150 * ms, 300 * ms, 600 * ms, 1200 * ms, 2400 * ms, 4800 * ms, 9600 * ms, 19200 * ms, 30000 * ms, 30000 * ms, 30000 * ms}},
		{"own limits", backoff.Backoff{Min: 4 * ms, Max: 10 * ms, Random: fixed(0)}, []time.Duration{2 * ms, 4 * ms, 5 * ms, 5 * ms}},
		{"min above max", backoff.Backoff{Min: time.Second, Max: 10 * ms, Random: fixed(0)}, []time.Duration{5 * ms, 5 * ms}},
		{"negative", backoff.Backoff{Min: -1, Max: -1, Random: fixed(0)}, []time.Duration{50 * ms, 100 * ms}},
		{"huge", backoff.Backoff{Min: math.MaxInt64/2 + 1, Max: math.MaxInt64, Random: fixed(0)},
			[]time.Duration{math.MaxInt64 / 4, math.MaxInt64 / 2, math.MaxInt64 / 2}},
	} {
		got := pauses(&test.b, len(test.want))
		if !slices.EqualFunc(got, test.want, near) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// near allows for the rounding of floating-point numbers.
func near(a, b time.Duration) bool { return (a - b).Abs() <= time.Microsecond }

func TestNextIsSpread(t *testing.T) {
	var b backoff.Backoff
	seen := make(map[time.Duration]bool)
	for range 1000 {
		pause := b.Next()
		if pause < 50*ms*2/2 || pause > 30*time.Second {
			t.Fatalf("a pause of %v", pause)
		}
		seen[pause] = true
	}
	if len(seen) < 900 {
		t.Errorf("only %d different pauses in 1000", len(seen))
	}
}

func TestReset(t *testing.T) {
	b := backoff.Backoff{Random: fixed(0.5)}
	first := pauses(&b, 5)
	b.Reset()
	if again := pauses(&b, 5); !slices.Equal(first, again) {
		t.Errorf("after Reset %v, want %v", again, first)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{Random: fixed(0.5)}
		start := time.Now()
		for range 3 {
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(start); !near(waited, 700*ms) {
			t.Errorf("waited %v, want 700ms", waited)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{Min: time.Hour, Max: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v, want DeadlineExceeded", err)
		}
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait of an ended context = %v, want DeadlineExceeded", err)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v, want 1s", waited)
		}
	})
}
