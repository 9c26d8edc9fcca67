package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

// operations collects the operations of a store.
type operations struct {
	mu  sync.Mutex
	all []store.Operation
}

func (o *operations) observe(_ context.Context, done store.Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, done)
}

// take returns the collected operations with how each has failed.
func (o *operations) take() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, done := range o.all {
		names = append(names, done.Name+" "+done.Failure())
	}
	o.all = nil
	return names
}

// An observed store does what its inner store does.
func TestObservedIsAStore(t *testing.T) {
	storetest.RunVirtual(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		m := store.Observed(newMemory(t, &store.MemoryOptions{Limits: limits}), func(context.Context, store.Operation) {})
		return storetest.Engine{Connect: func() store.Store { return m }}
	})
}

// Each operation is reported once with its time, whether it succeeds or fails. Those that wait are reported when they fail.
func TestObservedOperations(t *testing.T) {
	var seen operations
	inner := newMemory(t, nil)
	s := store.Observed(inner, seen.observe)
	ctx := t.Context()
	var job *store.Job
	all := []struct {
		name  string
		waits bool
		run   func() error
	}{
		{"create", false, func() error { _, err := s.Create(ctx, "a", nil, 0); return err }},
		{"get", false, func() error { _, err := s.Get(ctx, "a"); return err }},
		{"update", false, func() error { _, err := s.Update(ctx, "a", nil, 1<<40, 0); return err }},
		{"delete", false, func() error { return s.Delete(ctx, "a", 0) }},
		{"append", false, func() error { _, err := s.Append(ctx, "a", nil); return err }},
		{"read", false, func() error { return lastError(s.Read(ctx, "a", 0)) }},
		{"drop", false, func() error { return s.Drop(ctx, "a") }},
		{"push", false, func() error { return s.Push(ctx, "a", "1", nil) }},
		{"pull", true, func() error {
			pulled, err := s.Pull(ctx, "a")
			if err == nil {
				job = pulled
			}
			return err
		}},
		{"extend", false, func() error { return s.Extend(ctx, job) }},
		{"nak", false, func() error { return s.Nak(ctx, job, time.Hour) }},
		{"ack", false, func() error { return s.Ack(ctx, job) }},
		{"publish", false, func() error { return s.Publish(ctx, "a", nil) }},
		{"request", false, func() error { _, err := s.Request(ctx, "a", nil); return err }},
		{"subscribe", false, func() error {
			stop, err := s.Subscribe(ctx, "a", func(context.Context, store.Message) {})
			if err == nil {
				stop()
			}
			return err
		}},
		{"watch", true, func() error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return lastError(s.Watch(ctx, "a"))
		}},
		{"follow", true, func() error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return lastError(s.Follow(ctx, "a", 0))
		}},
	}
	for _, operation := range all {
		_ = operation.run() // some answer with an error, which is no failure
		want := []string{operation.name + " "}
		if operation.waits {
			want = nil
		}
		if got := seen.take(); !slices.Equal(got, want) {
			t.Errorf("%s: %q were reported", operation.name, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, operation := range all {
		err := operation.run()
		if got := seen.take(); errors.Is(err, store.ErrClosed) && !slices.Equal(got, []string{operation.name + " closed"}) {
			t.Errorf("after Close, %s: %q were reported", operation.name, got)
		}
	}
}

// lastError returns the last error of an iterator.
func lastError[T any](all func(func(T, error) bool)) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

// The time of the loop's body is not a time of Read.
func TestObservedReadTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var took time.Duration
		s := store.Observed(m, func(_ context.Context, o store.Operation) { took = o.Took })
		if _, err := m.Append(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		for range s.Read(t.Context(), "a", 0) {
			<-time.After(time.Hour)
		}
		if took != 0 {
			t.Errorf("Read took %v", took)
		}
	})
}

// An answer of a store is no failure, and an unknown error is the engine's.
func TestOperationFailure(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {store.ErrNotFound, ""}, {store.ErrExists, ""}, {store.ErrConflict, ""}, {store.ErrPurged, ""}, {store.ErrLost, ""},
		{store.ErrNoResponder, ""}, {store.ErrTooLarge, ""}, {context.Canceled, ""},
		{store.ErrFull, "full"}, {store.ErrForged, "forged"}, {store.ErrClosed, "closed"}, {context.DeadlineExceeded, "timeout"},
		{errors.New("connection refused"), "unreachable"},
	} {
		if tc.err != nil {
			tc.err = fmt.Errorf("wrapped: %w", tc.err)
		}
		if got := (&store.Operation{Err: tc.err}).Failure(); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
}
