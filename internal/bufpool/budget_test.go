package bufpool_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
)

// A charge that grows is one charge, and its last user gives back everything.
func TestBudget(t *testing.T) {
	b := bufpool.NewBudget(1 << 20)
	ctx := t.Context()
	if c, err := b.Grow(ctx, nil, bufpool.Small); c != nil || err != nil {
		t.Errorf("a small message: %v, %v", c, err)
	}
	c, err := b.Grow(ctx, nil, 600<<10)
	if c == nil || err != nil {
		t.Fatalf("a large message: %v", err)
	}
	if c, err = b.Grow(ctx, c, 1<<20); err != nil {
		t.Fatalf("growing: %v", err)
	}
	if c, err = b.Grow(ctx, c, 700<<10); err != nil {
		t.Errorf("shrinking: %v", err)
	}
	c.Retain()
	c.Release()
	c.Release()
	if c, err = b.Grow(ctx, nil, 1<<20); err != nil {
		t.Errorf("after the release: %v", err)
	}
	c.Release()
	var none *bufpool.Charge
	none.Retain()
	none.Release()
	var unlimited *bufpool.Budget
	if c, err := unlimited.Grow(ctx, nil, 1<<30); c != nil || err != nil {
		t.Errorf("without a budget: %v, %v", c, err)
	}
}

// A message that is larger than the budget does not wait for room.
func TestBudgetRefusesWhatNeverFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bufpool.NewBudget(1 << 20)
		start := time.Now()
		if _, err := b.Grow(t.Context(), nil, 1<<20+1); !errors.Is(err, bufpool.ErrFull) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A charge waits for room, at most 2 seconds and as long as its context lasts. Charges get room in
// the order in which they came, and one that gives up does not delay the next.
func TestBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bufpool.NewBudget(1 << 20)
		first, _ := b.Grow(t.Context(), nil, 900<<10)
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan string, 3)
		grow := func(name string, ctx context.Context, size int) {
			go func() {
				c, err := b.Grow(ctx, nil, size)
				if err != nil {
					name += " refused"
				}
				results <- name
				c.Release()
			}()
			synctest.Wait()
		}
		grow("large", ctx, 1<<20)
		grow("medium", t.Context(), 100<<10) // fits, and yet waits for its turn
		cancel()
		if got := <-results + ", " + <-results; got != "large refused, medium" && got != "medium, large refused" {
			t.Errorf("got %s", got)
		}
		start := time.Now()
		grow("second", t.Context(), 500<<10)
		time.AfterFunc(100*time.Millisecond, first.Release)
		if got := <-results; got != "second" || time.Since(start) != 100*time.Millisecond {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		first, _ = b.Grow(t.Context(), nil, 900<<10)
		start = time.Now()
		grow("third", t.Context(), 500<<10)
		if got := <-results; got != "third refused" || time.Since(start) < 500*time.Millisecond || time.Since(start) > 2*time.Second {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		first.Release()
	})
}

// Concurrent charges never exceed the limit, and leave nothing.
func TestBudgetConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // waiting takes no time
		b := bufpool.NewBudget(1 << 20)
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				for n := range 50 {
					c, err := b.Grow(t.Context(), nil, (i+n)%8<<17+1)
					if err == nil {
						c, _ = b.Grow(t.Context(), c, (i+n)%8<<17+1<<10)
					}
					c.Release()
				}
			})
		}
		all.Wait()
		if c, err := b.Grow(t.Context(), nil, 1<<20); err != nil {
			t.Errorf("bytes are left: %v", err)
		} else {
			c.Release()
		}
	})
}
