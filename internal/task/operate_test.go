package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/mcp"
)

// The numbers of a replica say what it has done: also for tasks that a killed replica has left.
func TestStats(t *testing.T) {
	for _, tc := range []struct {
		name        string
		maxRestarts int
		begins      bool
		want        task.Stats // of the replica that finds the task
	}{
		{"before its function has begun", 0, false, task.Stats{Attempts: 1, Repeated: 1, Lapsed: 1}},
		{"a function that may begin again", 1, true, task.Stats{Attempts: 1, Repeated: 1, Lapsed: 1}},
		{"a function that may not", 0, true, task.Stats{Lapsed: 1, Abandoned: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				dead := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
					if tc.begins {
						if err := run.Begin(ctx, tc.maxRestarts); err != nil {
							t.Error(err)
						}
					}
					return untilEnd(ctx, run)
				})
				r.create(dead, task.Spec{})
				synctest.Wait()
				if got := dead.Stats(); got.Running != 1 || got.MaxRunning != int64(r.max) || got.Attempts != 1 || got.Repeated != 0 {
					t.Errorf("the replica that runs the task has %+v", got)
				}
				dead.kill()
				alive := r.replica(done)
				alive.Start()
				<-time.After(2 * 30 * time.Second)
				synctest.Wait()
				got := alive.Stats()
				got.Running, got.MaxRunning, got.Kept, got.MaxKept = 0, 0, 0, 0
				if got != tc.want {
					t.Errorf("the other replica has %+v, want %+v", got, tc.want)
				}
			})
		})
	}
}

// A call that is only passed on has no function that begins: a later attempt finds out that it was made, and that its outcome is lost.
func TestStatsOfLostOutcomes(t *testing.T) {
	lost := func(ctx context.Context, _ *task.Run) task.Outcome {
		task.OutcomeLost(ctx)
		return task.Outcome{Result: json.RawMessage(`{"isError":true}`), Failed: true}
	}
	for _, tc := range []struct {
		name string
		run  func(ctx context.Context, run *task.Run) task.Outcome // of the replica that finds the task
		want uint64
	}{
		{"the call fails", lost, 1},
		{"the call goes on without it", func(ctx context.Context, run *task.Run) task.Outcome {
			task.OutcomeLost(ctx)
			return done(ctx, run)
		}, 0},
		{"the call fails for another reason", func(context.Context, *task.Run) task.Outcome {
			return task.Outcome{Result: json.RawMessage(`{"isError":true}`), Failed: true}
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				dead := r.replica(untilEnd)
				r.create(dead, task.Spec{})
				synctest.Wait()
				dead.kill()
				alive := r.replica(tc.run)
				alive.Start()
				<-time.After(2 * 30 * time.Second)
				synctest.Wait()
				if got := alive.Stats(); got.Abandoned != tc.want || got.Repeated != 1 {
					t.Errorf("the other replica has %+v, want %d abandoned", got, tc.want)
				}
			})
		})
	}
	t.Run("the first attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := newRig(t).replica(lost)
			if _, err := e.Create(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := e.Stats(); got.Abandoned != 0 || got.Attempts != 1 {
				t.Errorf("the replica has %+v", got)
			}
		})
	})
}

// An operator sees the tasks of all clients and replicas, and cancels and retries them.
func TestOperate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 1
		first, second := r.replica(untilEnd), r.replica(untilEnd)
		second.Start()
		synctest.Wait()
		ctx := t.Context()
		var ids []string
		for _, principal := range []string{"a", "b", "c"} {
			ids = append(ids, r.create(first, task.Spec{Principal: principal}))
			<-time.After(time.Second)
		}
		for _, e := range []*replica{first, second} {
			states, err := e.States(ctx, true, 10)
			if err != nil || len(states) != 3 {
				t.Fatalf("the states are %+v %v", states, err)
			}
			for i, s := range states {
				if s.ID != ids[i] || s.Principal != string("abc"[i]) || s.Waits != (i == 2) || s.Status != mcp.TaskWorking || string(s.Call) != `{}` {
					t.Errorf("the state of task %d is %+v", i, s)
				}
			}
			if states, err := e.States(ctx, true, 2); err != nil || len(states) != 2 {
				t.Errorf("of two tasks the states are %+v %v", states, err)
			}
		}
		if err := second.Retry(ctx, ids[0]); !errors.Is(err, task.ErrNotWaiting) {
			t.Errorf("a task that runs is retried: %v", err)
		}
		for range 3 {
			if err := second.Retry(ctx, ids[2]); err != nil {
				t.Errorf("a task that waits is not retried: %v", err)
			}
		}
		for _, id := range []string{"no-such-task", "", "../" + ids[0]} {
			if err := second.Retry(ctx, id); !errors.Is(err, task.ErrUnknown) {
				t.Errorf("retrying %q: %v", id, err)
			}
			if err := second.CancelAny(ctx, id); !errors.Is(err, task.ErrUnknown) {
				t.Errorf("cancelling %q: %v", id, err)
			}
		}
		if err := second.CancelAny(ctx, ids[0]); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if got := first.Stats().Attempts + second.Stats().Attempts; got != 3 {
			t.Errorf("%d attempts were begun, want one of each task", got)
		}
		if err := first.CancelAny(ctx, ids[2]); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		open, err := second.States(ctx, true, 10)
		if err != nil || len(open) != 1 || open[0].ID != ids[1] {
			t.Errorf("open are %+v %v", open, err)
		}
		all, err := second.States(ctx, false, 10)
		if err != nil || len(all) != 3 || !slices.ContainsFunc(all, func(s task.State) bool { return s.ID == ids[0] && s.Status == mcp.TaskCancelled }) {
			t.Errorf("the states of all are %+v %v", all, err)
		}
		first.link.cut.Store(true)
		if _, err := first.States(ctx, true, 10); !errors.Is(err, errCut) {
			t.Errorf("without the store, the error is %v", err)
		}
	})
}

// The job of a task that waits may be lost: a retry makes the task run.
func TestRetryOfLostJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 1
		e := r.replica(untilEnd)
		r.create(e, task.Spec{Principal: "b"})
		synctest.Wait()
		id := r.create(e, task.Spec{})
		e.kill()
		lost, err := r.memory.Pull(t.Context(), "tasks") // the one of id
		if err != nil {
			t.Fatal(err)
		}
		if err := r.memory.Ack(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		alive := r.replica(done)
		alive.Start()
		<-time.After(time.Second)
		r.expect(alive, id, mcp.TaskWorking)
		if err := alive.Retry(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		r.expect(alive, id, mcp.TaskCompleted)
	})
}
