package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// hooked is a store with hooks.
type hooked struct {
	store.Store
	update func(key string, value []byte, do func() (uint64, error)) (uint64, error)
	create func(key string, value []byte, do func() (uint64, error)) (uint64, error)
	push   func(do func() error) error
	del    func(key string, do func() error) error
	nak    func(d time.Duration)
	all    func(ctx context.Context) error
}

func (h *hooked) Get(ctx context.Context, key string) (store.Item, error) {
	if h.all != nil {
		if err := h.all(ctx); err != nil {
			return store.Item{}, err
		}
	}
	return h.Store.Get(ctx, key)
}

func (h *hooked) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if h.all != nil {
		if err := h.all(ctx); err != nil {
			return 0, err
		}
	}
	do := func() (uint64, error) { return h.Store.Update(ctx, key, value, revision, ttl) }
	if h.update != nil {
		return h.update(key, value, do)
	}
	return do()
}

func (h *hooked) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if h.all != nil {
		if err := h.all(ctx); err != nil {
			return 0, err
		}
	}
	do := func() (uint64, error) { return h.Store.Create(ctx, key, value, ttl) }
	if h.create != nil {
		return h.create(key, value, do)
	}
	return do()
}

func (h *hooked) Push(ctx context.Context, q, id string, data []byte) error {
	do := func() error { return h.Store.Push(ctx, q, id, data) }
	if h.push != nil {
		return h.push(do)
	}
	return do()
}

func (h *hooked) Delete(ctx context.Context, key string, rev uint64) error {
	do := func() error { return h.Store.Delete(ctx, key, rev) }
	if h.del != nil {
		return h.del(key, do)
	}
	return do()
}

func (h *hooked) Nak(ctx context.Context, job *store.Job, d time.Duration) error {
	if h.nak != nil {
		h.nak(d)
	}
	return h.Store.Nak(ctx, job, d)
}

// hooked starts an engine with the hooks.
func (r *rig) hooked(h *hooked, run func(ctx context.Context, run *task.Run) task.Outcome) *replica {
	h.Store = r.memory
	e := r.replica(run)
	e.link.Store = h
	return e
}

// spec is a task without arguments.
var spec = task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)}

// large is a value that is stored in chunks.
var large = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)

// cutOff lets a function run at a replica that is cut off until its task has failed. Then the replica is back, and
// function goes on.
func (r *rig) cutOff(function func(ctx context.Context, run *task.Run) task.Outcome) (e *replica, id string) {
	r.t.Helper()
	back := make(chan struct{})
	first := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
		if err := run.Begin(ctx, 0); err != nil {
			r.t.Error(err)
		}
		<-back
		return function(ctx, run)
	})
	id = r.create(first, task.Spec{})
	synctest.Wait()
	first.kill()
	e = r.replica(done)
	e.Start()
	<-time.After(3 * 30 * time.Second)
	r.expect(e, id, mcp.TaskFailed)
	first.link.cut.Store(false)
	close(back)
	<-time.After(time.Minute)
	return e, id
}

// onlyOutcome checks that the store has the record of a task, and no chunks.
func (r *rig) onlyOutcome() {
	r.t.Helper()
	if values, size := r.stored(); values != 1 {
		r.t.Errorf("the store has %d values with %d bytes", values, size)
	}
}

// timeoutOnce returns a hook: when it is armed, the next Update takes effect and returns an error.
func timeoutOnce(armed *atomic.Bool) func(string, []byte, func() (uint64, error)) (uint64, error) {
	return func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
		revision, err := do()
		if armed.CompareAndSwap(true, false) {
			return 0, errors.New("timeout")
		}
		return revision, err
	}
}

// Questions that were stored with an error are stored once: the answers are not lost, whether the next round begins
// immediately or waits for a worker.
func TestQuestionsAreStoredOnce(t *testing.T) {
	for name, workers := range map[string]int{"begins": 100, "waits": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.max = workers
				var armed atomic.Bool
				var asked atomic.Bool
				e := r.hooked(&hooked{update: timeoutOnce(&armed)}, func(ctx context.Context, run *task.Run) task.Outcome {
					if len(run.Answers) > 0 {
						return result("done")
					}
					if err := run.Begin(ctx, 0); err != nil {
						t.Error(err)
					}
					armed.Store(!asked.Swap(true))
					return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
				})
				id := r.create(e, task.Spec{})
				synctest.Wait()
				other := r.replica(done)
				other.Drain() // it takes no jobs
				if err := other.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)}); err != nil {
					t.Fatal(err)
				}
				<-time.After(5 * time.Minute)
				r.expect(other, id, mcp.TaskCompleted)
			})
		})
	}
}

// A task that was handed back once goes on although the job of its answers is lost.
func TestLostJobAfterHandBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var runs atomic.Int32
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			switch {
			case runs.Add(1) == 1:
				return task.Outcome{HandedBack: true}
			case len(run.Answers) == 0:
				return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
			}
			return result("done")
		})
		id := r.create(e, task.Spec{})
		<-time.After(time.Minute)
		h.push = func(func() error) error { return errors.New("away") }
		if err := e.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)}); err == nil {
			t.Error("the job was not lost")
		}
		h.push = nil
		for range 100 {
			<-time.After(time.Minute)
			if err := e.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
			if got, err := e.Get(t.Context(), id, ann); err != nil {
				t.Fatal(err)
			} else if got.Status == mcp.TaskCompleted {
				return
			}
		}
		t.Error("the task is stuck")
	})
}

// A run that was cut off, and comes back after its task has failed, may replace the failure by its outcome. Nothing else
// of it is stored.
func TestRunComesBackAfterItsTaskHasFailed(t *testing.T) {
	for name, test := range map[string]struct {
		function func(ctx context.Context, run *task.Run) task.Outcome
		status   mcp.TaskStatus
		message  string
	}{
		"result": {done, mcp.TaskCompleted, ""},
		"progress and a value": {func(ctx context.Context, run *task.Run) task.Outcome {
			run.Report("half done", nil)
			run.Save(ctx, large)
			return untilEnd(ctx, run)
		}, mcp.TaskFailed, "may have been executed"},
		"questions": {func(context.Context, *task.Run) task.Outcome {
			return task.Outcome{Questions: question("a"), State: large}
		}, mcp.TaskFailed, "may have been executed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				e, id := r.cutOff(test.function)
				if got := r.expect(e, id, test.status); !strings.Contains(got.StatusMessage, test.message) {
					t.Errorf("the message is %q", got.StatusMessage)
				}
				r.onlyOutcome()
			})
		})
	}
}

// A run that was cancelled while it was cut off ends its failed task as cancelled, without the error of the failure.
func TestCancelledRunComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			if err := run.Begin(ctx, 0); err != nil {
				t.Error(err)
			}
			return untilEnd(ctx, run)
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		e.kill()
		other := r.replica(done)
		other.link.silent.Store(true) // the message of the cancellation is lost
		if err := other.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		other.Start()
		<-time.After(3 * 30 * time.Second)
		r.expect(other, id, mcp.TaskFailed)
		e.link.cut.Store(false)
		<-time.After(time.Minute)
		if got := r.expect(other, id, mcp.TaskCancelled); got.Error != nil {
			t.Errorf("the cancelled task has the error %s", got.Error)
		}
	})
}

// The chunks of an outcome are stored once, however often its record cannot be written.
func TestOutcomeIsWrittenOnce(t *testing.T) {
	for name, fail := range map[string]error{"full": store.ErrFull, "away": errors.New("away")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				h := &hooked{}
				var armed atomic.Bool
				h.update = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
					if armed.Load() {
						return 0, fail
					}
					return do()
				}
				e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
					_ = run.Begin(ctx, 0)
					armed.Store(true)
					return result(strings.Repeat("x", 300<<10))
				})
				r.create(e, task.Spec{})
				<-time.After(10 * time.Minute)
				keys, size := r.stored()
				armed.Store(false)
				<-time.After(time.Minute)
				after, sizeAfter := r.stored()
				if keys > 6 || after > 3 {
					t.Errorf("the store has %d values with %d bytes; after the outcome was stored, %d with %d", keys, size, after, sizeAfter)
				}
			})
		})
	}
}

// A task ends for its principal although its outcome was stored with an error.
func TestOutcomeWithAnErrorFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 2 // each principal has one task
		var armed atomic.Bool
		h := &hooked{update: timeoutOnce(&armed)}
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			armed.Store(true)
			return result("done")
		})
		id := r.create(e, task.Spec{})
		<-time.After(10 * time.Minute)
		if got, err := e.Get(t.Context(), id, ann); err != nil || got.Status != mcp.TaskCompleted {
			t.Fatal(got, err)
		}
		if _, err := e.Create(t.Context(), spec); err != nil {
			t.Errorf("the next task: %v", err)
		}
	})
}

// A task ends although its message or its error is larger than the values of the store.
func TestLargeMessage(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, run *task.Run) task.Outcome{
		"message": func(_ context.Context, run *task.Run) task.Outcome {
			run.Report(strings.Repeat("x", 600<<10), nil)
			return result("done")
		},
		"error": func(context.Context, *task.Run) task.Outcome {
			return task.Outcome{Error: &jsonrpc.Error{Message: strings.Repeat("\x01", 60<<10)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				h := &hooked{}
				h.update = func(_ string, value []byte, do func() (uint64, error)) (uint64, error) {
					if len(value) > store.MaxValue+1024 {
						return 0, store.ErrTooLarge
					}
					return do()
				}
				e := r.hooked(h, run)
				id := r.create(e, task.Spec{})
				<-time.After(30 * time.Minute)
				if got, err := e.Get(t.Context(), id, ann); err != nil || !got.Status.Ended() {
					t.Errorf("the task is %s, %v", got.Status, err)
				}
			})
		})
	}
}

// A task ends although its error is larger than the room in the full store.
func TestErrorInAFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		memory, err := store.NewMemory(&store.MemoryOptions{Bytes: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		r.memory = memory
		h := &hooked{}
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			if err := run.Begin(ctx, 0); err != nil {
				t.Error(err)
			}
			for size := 1 << 20; size > 8; size /= 2 { // fill the store
				for i := 0; ; i++ {
					if _, err := memory.Create(context.Background(), fmt.Sprintf("fill/%d/%d", size, i), make([]byte, size), 0); err != nil {
						break
					}
				}
			}
			return task.Outcome{Error: &jsonrpc.Error{Message: strings.Repeat("x", 50<<10)}}
		})
		id := r.create(e, task.Spec{})
		<-time.After(time.Hour)
		if got, err := e.Get(t.Context(), id, ann); err != nil || !got.Status.Ended() {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// Questions that a function returns at the shutdown are asked.
func TestQuestionsAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			<-ctx.Done()
			return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := e.Stop(ended); err != nil {
			t.Error(err)
		}
		other := r.replica(done)
		got := r.get(other, id)
		if got.Status != mcp.TaskInputRequired {
			t.Errorf("the task is %s: %s", got.Status, got.StatusMessage)
		}
	})
}

// A run that is handed back after its function has begun runs again after a pause.
func TestPauseBeforeRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var naks []time.Duration
		h := &hooked{nak: func(d time.Duration) { naks = append(naks, d) }}
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 3)
			return task.Outcome{HandedBack: true}
		})
		_, err := e.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if len(naks) == 0 || slices.Contains(naks, 0) {
			t.Errorf("the pauses are %v", naks)
		}
	})
}

// Watchers are notified of the end of a task that was handed back after its function has begun.
func TestEndWithoutAnOutcomeIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		watched := make(chan struct{})
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			if err := run.Begin(ctx, 0); err != nil {
				t.Error(err)
			}
			<-watched
			return task.Outcome{HandedBack: true}
		})
		id := r.create(e, task.Spec{})
		var changes atomic.Int32
		stop, err := e.Watch(t.Context(), id, ann, func() { changes.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		synctest.Wait()
		before := changes.Load()
		close(watched)
		synctest.Wait()
		r.expect(e, id, mcp.TaskFailed)
		if changes.Load() == before {
			t.Error("the watcher does not know that the task has failed")
		}
	})
}

// A task whose Begin hangs with the store completes after the store is back.
func TestBeginWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var hang atomic.Bool
		h.all = func(ctx context.Context) error {
			if hang.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		var runs atomic.Int32
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			if runs.Add(1) == 1 {
				hang.Store(true)
			}
			if err := run.Begin(ctx, 3); err != nil {
				return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
			}
			return result("done")
		})
		id := r.create(e, task.Spec{})
		<-time.After(time.Minute)
		hang.Store(false)
		<-time.After(10 * time.Minute)
		if got, err := e.Get(t.Context(), id, ann); err != nil || got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// The function of a task does not begin if its cancellation is stored, although its message is lost.
func TestBeginOfCancelledTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		approved := make(chan struct{})
		var began atomic.Bool
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			<-approved
			if err := run.Begin(ctx, 0); err != nil {
				return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
			}
			began.Store(true)
			return result("done")
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		other := r.replica(done)
		other.link.silent.Store(true)
		other.Drain()
		if err := other.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		close(approved)
		got := r.get(other, id)
		if began.Load() {
			t.Errorf("the function has begun after the cancellation was stored; the task is %s", got.Status)
		}
	})
}

// The room for an outcome is freed again if the first Delete fails.
func TestRoomIsFreedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var full atomic.Bool
		var room atomic.Value
		var deleted, failed atomic.Bool
		h.create = func(key string, value []byte, do func() (uint64, error)) (uint64, error) {
			if strings.Count(key, "/") > 1 {
				room.Store(key)
			}
			return do()
		}
		h.del = func(key string, do func() error) error {
			if key == room.Load() && !failed.Swap(true) {
				return errors.New("away")
			}
			if key == room.Load() {
				deleted.Store(true)
			}
			return do()
		}
		h.update = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			if full.Load() && !deleted.Load() {
				return 0, store.ErrFull
			}
			return do()
		}
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			full.Store(true)
			return result("done")
		})
		id := r.create(e, task.Spec{})
		<-time.After(time.Hour)
		if got, err := e.Get(t.Context(), id, ann); err != nil || got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// The error of an outcome that finds no room has its size.
func TestErrorHasTheSizeOfTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var full atomic.Bool
		h.create = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			if full.Load() {
				return 0, store.ErrFull
			}
			return do()
		}
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			full.Store(true)
			return result(strings.Repeat("x", 204800))
		})
		id := r.create(e, task.Spec{})
		got := r.expect(e, id, mcp.TaskFailed)
		if !strings.Contains(got.StatusMessage, "2048") {
			t.Errorf("the message is %s", got.StatusMessage)
		}
	})
}

// Each update of a task takes effect but returns an error, one after the other. The task completes, each round runs once,
// and nothing that its record names is lost.
func TestEachUpdateReturnsAnError(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for _, restarts := range []int{0, 1} {
			t.Run(fmt.Sprint(n, " ", restarts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					h := &hooked{}
					var count atomic.Int32
					h.update = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
						rev, err := do()
						if count.Add(1) == int32(n) {
							return 0, errors.New("timeout")
						}
						return rev, err
					}
					var runs atomic.Int32
					e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
						if err := run.Begin(ctx, restarts); err != nil {
							return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
						}
						if len(run.Answers) == 0 {
							runs.Add(1)
							run.Save(ctx, large)
							return task.Outcome{Questions: question("a"), State: json.RawMessage(`"` + strings.Repeat("y", 300<<10) + `"`)}
						}
						runs.Add(1)
						run.Save(ctx, json.RawMessage(`"`+strings.Repeat("z", 300<<10)+`"`))
						return result(strings.Repeat("x", 300<<10))
					})
					created, err := e.Create(t.Context(), spec)
					if err != nil {
						t.Fatal(err)
					}
					var got *mcp.Task
					for range 20 {
						<-time.After(2 * time.Minute)
						got, err = e.Get(t.Context(), created.TaskID, ann)
						if err != nil {
							t.Fatal(err)
						}
						if got.Status == mcp.TaskInputRequired {
							_ = e.Answer(t.Context(), created.TaskID, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)})
						}
						if got.Status.Ended() {
							break
						}
					}
					if got.Status != mcp.TaskCompleted || runs.Load() != 2 {
						t.Errorf("%s %q after %d runs", got.Status, got.StatusMessage, runs.Load())
					}
				})
			})
		}
	}
}

// A large result is stored although the store needs 100 ms for each value.
func TestLargeResultInASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		h.create = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			<-time.After(100 * time.Millisecond)
			return do()
		}
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			return result(strings.Repeat("x", 15<<20))
		})
		id := r.create(e, task.Spec{})
		<-time.After(5 * time.Minute)
		got, err := e.Get(t.Context(), id, ann)
		if err != nil || got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// The questions of a cancelled run leave nothing in the store, although the message of the cancellation is lost.
func TestQuestionsOfACancelledRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		back := make(chan struct{})
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			<-back
			return task.Outcome{Questions: question("a"), State: large}
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		other := r.replica(done)
		other.link.silent.Store(true)
		other.Drain()
		if err := other.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		close(back)
		r.expect(other, id, mcp.TaskCancelled)
		if keys, size := r.stored(); keys != 1 {
			t.Errorf("the store has %d values with %d bytes", keys, size)
		}
	})
}

// If Begin has failed, it fails again, also with a context that has not ended. The task is handed back.
func TestBeginAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var fails atomic.Bool
		h.create = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			if fails.Swap(false) {
				return 0, errors.New("away")
			}
			return do()
		}
		var executed, attempts atomic.Int32
		e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
			fails.Store(attempts.Add(1) == 1)
			err := run.Begin(context.WithoutCancel(ctx), 0)
			if err != nil {
				err = run.Begin(context.WithoutCancel(ctx), 0)
			}
			if err != nil {
				return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
			}
			executed.Add(1)
			return result("done")
		})
		id := r.create(e, task.Spec{})
		<-time.After(10 * time.Minute)
		got, err := e.Get(t.Context(), id, ann)
		if err != nil || executed.Load() != 1 || got.Status != mcp.TaskCompleted {
			t.Errorf("executed %d times; %s %s %v", executed.Load(), got.Status, got.StatusMessage, err)
		}
	})
}

// From operation n on, the store hangs or is away: Stop returns within 5 s, and the runs end within 30 s after that.
func TestStopAtEachMoment(t *testing.T) {
	for _, mode := range []string{"hangs", "away"} {
		for n := 1; n <= 14; n++ {
			t.Run(fmt.Sprint(mode, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					h := &hooked{}
					var ops atomic.Int32
					h.all = func(ctx context.Context) error {
						if ops.Add(1) < int32(n)+3 { // after creation
							return nil
						}
						if mode == "away" {
							return errors.New("away")
						}
						<-ctx.Done()
						return ctx.Err()
					}
					e := r.hooked(h, func(ctx context.Context, run *task.Run) task.Outcome {
						if err := run.Begin(ctx, 0); err != nil {
							return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
						}
						run.Report("x", nil)
						run.Save(ctx, large)
						select {
						case <-ctx.Done():
						case <-time.After(5 * time.Second):
						}
						return result(strings.Repeat("x", 300<<10))
					})
					if _, err := e.Create(t.Context(), spec); err != nil {
						t.Fatal(err)
					}
					<-time.After(7 * time.Second)
					begun := time.Now()
					ended, cancel := context.WithCancel(context.Background())
					cancel()
					err := e.Stop(ended)
					took := time.Since(begun)
					<-time.After(30 * time.Second)
					again := e.Stop(ended)
					if took > 5*time.Second || mode == "away" && err != nil || again != nil {
						t.Errorf("Stop = %v after %v, and later %v", err, took, again)
					}
				})
			})
		}
	}
}
