package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

func TestExecutionsInMemory(t *testing.T) {
	tasktest.RunVirtual(t, 10*time.Second, func(t *testing.T, limits store.Limits) store.Store {
		memory, err := store.NewMemory(&store.MemoryOptions{Limits: limits, Bytes: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { memory.Close() })
		return memory
	})
}

// A task fails if eleven replicas, one after the other, end before its function begins. The function never begins.
func TestReplicasThatEndBeforeTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var attempts atomic.Int32
		poisoned := func() *replica {
			var e *replica
			e = r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
				attempts.Add(1)
				e.kill()
				if err := run.Begin(ctx, 0); err == nil {
					t.Error("the function has begun")
				}
				return task.Outcome{Error: &jsonrpc.Error{Message: "killed"}}
			})
			return e
		}
		id := r.create(poisoned(), task.Spec{})
		reader := r.replica(done)
		for range 20 {
			poisoned().Start()
			<-time.After(3 * 30 * time.Second)
		}
		if got := r.expect(reader, id, mcp.TaskFailed); attempts.Load() != 11 || !strings.Contains(string(got.Error), "was not executed") {
			t.Errorf("%d attempts, the error is %s", attempts.Load(), got.Error)
		}
	})
}

// The tasks of one principal take half of the workers of a replica, wherever they were created.
func TestShareOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 4
		var running, most atomic.Int32
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			if string(run.Call) == `"bob"` {
				return result("bob")
			}
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(time.Minute)
			running.Add(-1)
			return result("ann")
		})
		var ids []string
		for range 3 { // creators accept two tasks each
			creator := r.replica(done)
			creator.Drain() // it takes no jobs
			ids = append(ids, r.create(creator, task.Spec{}), r.create(creator, task.Spec{}))
		}
		e.Start()
		synctest.Wait()
		other, err := e.Create(t.Context(), task.Spec{Principal: bob, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`"bob"`), State: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := e.Get(t.Context(), other.TaskID, bob); err != nil || got.Status != mcp.TaskCompleted {
			t.Errorf("the task of another principal is %+v, %v", got, err)
		}
		<-time.After(10 * time.Minute)
		for _, id := range ids {
			r.expect(e, id, mcp.TaskCompleted)
		}
		if n := most.Load(); n != 2 {
			t.Errorf("%d tasks of one principal ran at the same time, want 2", n)
		}
	})
}

// A function that does not end with its context keeps its worker for a minute only.
func TestFunctionThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 1
		release := make(chan struct{})
		defer close(release)
		var stalled atomic.Bool
		e := r.replica(func(context.Context, *task.Run) task.Outcome {
			if !stalled.Swap(true) {
				<-release
			}
			return result("done")
		})
		stuck := r.create(e, task.Spec{TaskRequest: mcp.TaskRequest{TTL: time.Hour}})
		<-time.After(time.Hour + time.Second)
		if _, err := e.Get(t.Context(), stuck, ann); !errors.Is(err, task.ErrUnknown) {
			t.Errorf("the task that has expired gives %v", err)
		}
		next := r.create(e, task.Spec{})
		r.expect(e, next, mcp.TaskWorking)
		<-time.After(time.Minute)
		r.expect(e, next, mcp.TaskCompleted)
	})
}

// A task that has ended keeps its outcome in the store, and nothing that its run has needed.
func TestEndedTaskKeepsItsOutcomeOnly(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)
	for name, run := range map[string]func(ctx context.Context, run *task.Run) task.Outcome{
		"completed": done,
		"failed": func(context.Context, *task.Run) task.Outcome {
			return task.Outcome{Error: &jsonrpc.Error{Message: "no"}}
		},
		"cancelled": untilEnd,
		"answered": func(_ context.Context, run *task.Run) task.Outcome {
			if len(run.Answers) == 0 {
				return task.Outcome{Questions: question("a"), State: large}
			}
			return result("done")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				e := r.replica(func(ctx context.Context, r *task.Run) task.Outcome {
					if err := r.Begin(ctx, 0); err != nil {
						t.Error(err)
					}
					r.Save(ctx, large)
					return run(ctx, r)
				})
				id := r.create(e, task.Spec{Call: large})
				synctest.Wait()
				if name == "answered" {
					if err := e.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": large}); err != nil {
						t.Fatal(err)
					}
				}
				if name == "cancelled" {
					if err := e.Cancel(t.Context(), id, ann); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if got := r.get(e, id); !got.Status.Ended() {
					t.Fatalf("the task is %s", got.Status)
				}
				keys, size := r.stored()
				if keys != 1 || size > 2<<10 {
					t.Errorf("the store has %d values with %d bytes", keys, size)
				}
			})
		})
	}
}

// stored returns how many values of tasks are in the store, and their size.
func (r *rig) stored() (values, size int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
	defer cancel()
	for item, err := range r.memory.Watch(ctx, "task") {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			r.t.Fatal(err)
		}
		values++
		size += len(item.Value)
	}
	return values, size
}

// If another run has begun the task of a run that was cut off, the first run ends when it saves a value. The rest of
// its function is not executed.
func TestLostRunEndsWhenItSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		back, saved := make(chan struct{}), make(chan error)
		first := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			<-back
			run.Save(ctx, json.RawMessage(`{}`))
			saved <- context.Cause(ctx)
			return untilEnd(ctx, run)
		})
		id := r.create(first, task.Spec{})
		synctest.Wait()
		first.kill()
		second := r.replica(done)
		second.Start()
		<-time.After(2 * 30 * time.Second)
		r.expect(second, id, mcp.TaskCompleted)
		first.link.cut.Store(false)
		close(back)
		if err := <-saved; err == nil {
			t.Error("the run goes on")
		}
	})
}

// A task is reported as not created only if its call is not executed, and as created if a worker has begun it.
func TestTaskThatCannotBeCreated(t *testing.T) {
	for name, test := range map[string]struct {
		away       bool // the store, from the beginning
		pushed     bool // the failing Push has taken effect
		kept       bool // the record cannot be deleted
		runs       bool // a worker takes the job immediately
		executions int32
		want       error
	}{
		"store away":                          {away: true, want: task.ErrNotCreated},
		"job lost":                            {want: task.ErrNotCreated},
		"job stored":                          {pushed: true, want: task.ErrNotCreated},
		"job stored and begun":                {pushed: true, runs: true, executions: 1},
		"job lost, record kept":               {kept: true, want: task.ErrMayBeCreated},
		"job stored, record kept":             {pushed: true, kept: true, executions: 1, want: task.ErrMayBeCreated},
		"job begun, record cannot be deleted": {pushed: true, kept: true, runs: true, executions: 1, want: task.ErrMayBeCreated},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var executions atomic.Int32
				count := func(context.Context, *task.Run) task.Outcome {
					executions.Add(1)
					return result("done")
				}
				creator := r.hooked(&hooked{
					push: func(do func() error) error {
						if test.pushed {
							if err := do(); err != nil {
								return err
							}
							synctest.Wait()
						}
						return errCut
					},
					del: func(_ string, do func() error) error {
						if test.kept {
							return errCut
						}
						return do()
					},
				}, count)
				creator.Drain() // it takes no jobs
				creator.link.cut.Store(test.away)
				worker := r.replica(count)
				if test.runs {
					worker.Start()
				}
				created, err := creator.Create(t.Context(), spec)
				if !errors.Is(err, test.want) {
					t.Errorf("the error is %v, want %v", err, test.want)
				}
				worker.Start()
				<-time.After(time.Minute)
				if err == nil {
					r.expect(worker, created.TaskID, mcp.TaskCompleted)
				}
				if n := executions.Load(); n != test.executions {
					t.Errorf("%d executions, want %d", n, test.executions)
				}
			})
		})
	}
}

// If the store loses its data while a function runs, the task does not exist any more. The run ends when it saves a value,
// and the function does not begin again.
func TestEmptiedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		emptied := make(chan struct{})
		var executions atomic.Int32
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			if err := run.Begin(ctx, 3); err != nil {
				t.Error(err)
			}
			executions.Add(1)
			<-emptied
			if ctx.Err() != nil {
				t.Errorf("the run has ended before it saves a value: %v", context.Cause(ctx))
			}
			run.Save(ctx, json.RawMessage(`{}`))
			if ctx.Err() == nil {
				t.Error("the run goes on")
			}
			return result("lost")
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		for item, err := range r.memory.Watch(t.Context(), "task") {
			if err != nil {
				t.Fatal(err)
			}
			if err := r.memory.Delete(t.Context(), item.Key, 0); err != nil {
				t.Fatal(err)
			}
			if item.Key == "task/"+id {
				break
			}
		}
		close(emptied)
		<-time.After(time.Hour)
		if _, err := e.Get(t.Context(), id, ann); !errors.Is(err, task.ErrUnknown) {
			t.Errorf("the task gives %v", err)
		}
		if n := executions.Load(); n != 1 {
			t.Errorf("%d executions", n)
		}
	})
}
