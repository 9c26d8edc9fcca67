package store

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A queue remembers the id of a job for DuplicateWindow.
func TestMemoryDuplicateWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, nil)
		push := func() {
			t.Helper()
			if err := m.Push(t.Context(), "queue", "id", nil); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 2 {
			push()
			pass(DuplicateWindow - 1)
			push()
			if jobs := len(m.queues.queues["queue"].jobs); jobs != round+1 {
				t.Errorf("the queue has %d jobs, want %d", jobs, round+1)
			}
			pass(1)
		}
	})
}

// A job is delivered again when its lease has expired.
func TestLimitLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, &MemoryOptions{Limits: Limits{Lease: time.Second}})
		if err := m.Push(t.Context(), "queue", "id", nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		first, err := m.Pull(t.Context(), "queue")
		if err != nil {
			t.Fatal(err)
		}
		second, err := m.Pull(t.Context(), "queue")
		if err != nil || second.Attempt != 2 || time.Since(began) != time.Second {
			t.Errorf("the second delivery: %+v, %v after %v", second, err, time.Since(began))
		}
		if err := m.Extend(t.Context(), first); !errors.Is(err, ErrLost) {
			t.Errorf("the first lease is extended: %v", err)
		}
	})
}

// Each of many workers that wait gets a job when one is due.
func TestMemoryQueueWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 20
		m := open(t, nil)
		got := make(chan *Job, workers)
		for range workers {
			go func() {
				if job, err := m.Pull(t.Context(), "queue"); err == nil {
					got <- job
				}
			}()
		}
		synctest.Wait()
		for i := range workers / 2 {
			if err := m.Push(t.Context(), "queue", fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(got) != workers/2 {
			t.Fatalf("%d workers have a job, want %d", len(got), workers/2)
		}
		if err := m.Nak(t.Context(), <-got, time.Minute/4); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute/4 - 1)
		synctest.Wait()
		if len(got) != workers/2-1 {
			t.Fatalf("%d workers have a job before the delay", len(got))
		}
		pass(1)
		synctest.Wait()
		if len(got) != workers/2 {
			t.Fatalf("%d workers have a job after the delay", len(got))
		}
		pass(defaultLease) // all leases expire
		synctest.Wait()
		if len(got) != workers-1 {
			t.Fatalf("%d workers have a job after the leases, want %d, all but the one that returned it", len(got), workers-1)
		}
	})
}
