package oauth

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// One goroutine at a time has the lock of a key, and the set is empty when none has one or waits.
func TestKeyedMutexConcurrently(t *testing.T) {
	var m keyedMutex
	const rounds = 200
	counts := map[string]*int{"a": new(int), "b": new(int)}
	lock := func(key string) func(int) {
		return func(int) {
			unlock, err := m.lock(context.Background(), key)
			if err != nil {
				t.Error(err)
				return
			}
			*counts[key]++
			unlock()
		}
	}
	racetest.Together(rounds, lock("a"), lock("b"), lock("a"), lock("b"))
	for key, n := range counts {
		if *n != 2*rounds {
			t.Errorf("%s was locked %d times, want %d", key, *n, 2*rounds)
		}
	}
	unlock, err := m.lock(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.lock(ctx, "a"); err == nil {
		t.Error("a lock was taken twice")
	}
	unlock()
	if len(m.locks) != 0 {
		t.Errorf("%d locks are left", len(m.locks))
	}
}
