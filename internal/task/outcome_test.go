package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
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

func (r *rig) hooked(h *hooked, logs *bytes.Buffer, run func(ctx context.Context, run *task.Run) task.Outcome) *task.Engine {
	h.Store = r.memory
	log := slog.New(slog.DiscardHandler)
	if logs != nil {
		log = slog.New(slog.NewTextHandler(logs, nil))
	}
	e := task.New(task.Config{Store: h, Key: state.FixedKey(r.ring), Run: run, Max: r.max, Logger: log})
	r.t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		e.Stop(ended)
	})
	return e
}

func (r *rig) createAt(e *task.Engine, call json.RawMessage) string {
	r.t.Helper()
	if call == nil {
		call = json.RawMessage(`{}`)
	}
	created, err := e.Create(r.t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: 24 * time.Hour}, Call: call, State: json.RawMessage(`{}`)})
	if err != nil {
		r.t.Fatal(err)
	}
	return created.TaskID
}

// The update that stores questions takes effect but returns an error; the client answers before it is tried again.
func TestAmbiguousQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var e *task.Engine
		var id string
		asked := 0
		n := 0
		var armed atomic.Bool
		h.update = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			rev, err := do()
			if armed.Load() {
				if n++; n == 1 {
					return 0, errors.New("timeout") // it has taken effect
				}
			}
			return rev, err
		}
		e = r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			if len(run.Answers) == 0 {
				asked++
				_ = run.Begin(ctx, 0)
				armed.Store(asked == 1)
				return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
			}
			return result("done")
		})
		id = r.createAt(e, nil)
		synctest.Wait()
		// answered by another replica that runs nothing; its job is delivered a little later.
		other := r.replica(done)
		other.Drain()
		if err := other.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
		got, err := other.Get(t.Context(), id, ann)
		t.Log("after the answer:", got.Status, err)
		<-time.After(5 * time.Minute)
		got, _ = other.Get(t.Context(), id, ann)
		if got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, questions %v", got.Status, got.InputRequests)
		}
	})
}

// The same while the next round waits (all workers busy).
func TestAmbiguousQuestionsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 1
		h := &hooked{}
		var armed atomic.Bool
		h.update = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			rev, err := do()
			if armed.CompareAndSwap(true, false) {
				return 0, errors.New("timeout") // it has taken effect
			}
			return rev, err
		}
		first := true
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			if len(run.Answers) == 0 {
				_ = run.Begin(ctx, 0)
				armed.Store(first)
				first = false
				return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
			}
			return result("done")
		})
		id := r.createAt(e, nil)
		synctest.Wait()
		other := r.replica(done)
		other.Drain()
		if err := other.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Minute)
		got, _ := other.Get(t.Context(), id, ann)
		if got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, questions %v", got.Status, got.InputRequests)
		}
	})
}

// A task that was handed back once; later, the job of its answers is lost.
func TestLostJobAfterHandBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		runs := 0
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			runs++
			switch {
			case runs == 1:
				return task.Outcome{HandedBack: true}
			case len(run.Answers) == 0:
				return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
			}
			return result("done")
		})
		id := r.createAt(e, nil)
		<-time.After(time.Minute)
		h.push = func(func() error) error { return errors.New("away") }
		err := e.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)})
		t.Log("answer:", err)
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

// A cancelled run replaces "may have been executed", and the error stays.
func TestCancelledAfterUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			return untilEnd(ctx, run)
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		e.kill()
		other := r.replica(done)
		other.Drain()
		e.link.silent.Store(true)
		// the message of the cancellation is lost
		lost := &hooked{}
		canceller := r.hooked(lost, nil, done)
		canceller.Drain()
		bus := r.replica(done)
		bus.link.silent.Store(true)
		bus.Drain()
		if err := bus.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		worker := r.replica(done)
		worker.Start()
		<-time.After(3 * store.DefaultLease)
		r.expect(other, id, mcp.TaskFailed)
		e.link.cut.Store(false)
		<-time.After(time.Minute)
		got := r.get(other, id)
		t.Logf("%s %q error %s", got.Status, got.StatusMessage, got.Error)
		if got.Status != mcp.TaskFailed && got.Error != nil {
			t.Errorf("the task is %s and has the error %s", got.Status, got.Error)
		}
	})
}

// The progress and state of a run that was cut off, in the record of the task that has failed.
func TestProgressAfterUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		back := make(chan struct{})
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			<-back
			run.Report("half done", nil)
			run.Save(ctx, json.RawMessage(`"`+strings.Repeat("x", 300<<10)+`"`))
			return untilEnd(ctx, run)
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		e.kill()
		worker := r.replica(done)
		worker.Start()
		<-time.After(3 * store.DefaultLease)
		r.expect(worker, id, mcp.TaskFailed)
		e.link.cut.Store(false)
		close(back)
		<-time.After(time.Minute)
		got := r.expect(worker, id, mcp.TaskFailed)
		if !strings.Contains(got.StatusMessage, "may have") {
			t.Errorf("the message of the failed task is %q", got.StatusMessage)
		}
		if keys, size := r.stored(); keys != 1 {
			t.Errorf("the store has %d values with %d bytes", keys, size)
		}
	})
}

// Questions of a run whose task has failed leave their state in the store.
func TestQuestionsAfterUnknownLeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		back := make(chan struct{})
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			<-back
			return task.Outcome{Questions: question("a"), State: json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)}
		})
		id := r.create(e, task.Spec{})
		synctest.Wait()
		e.kill()
		worker := r.replica(done)
		worker.Start()
		<-time.After(3 * store.DefaultLease)
		r.expect(worker, id, mcp.TaskFailed)
		e.link.cut.Store(false)
		close(back)
		<-time.After(time.Minute)
		r.expect(worker, id, mcp.TaskFailed)
		if keys, size := r.stored(); keys != 1 {
			t.Errorf("the store has %d values with %d bytes", keys, size)
		}
	})
}

// Each try of an outcome whose record cannot be written leaves its chunks.
func TestRetriesLeaveChunks(t *testing.T) {
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
				e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
					_ = run.Begin(ctx, 0)
					armed.Store(true)
					return result(strings.Repeat("x", 300<<10))
				})
				r.createAt(e, nil)
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

// The outcome takes effect, but returns an error: the task counts among those of its principal until its TTL.
func TestAmbiguousOutcomeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 2 // each principal has one task
		h := &hooked{}
		var armed atomic.Bool
		h.update = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			rev, err := do()
			if armed.CompareAndSwap(true, false) {
				return 0, errors.New("timeout")
			}
			return rev, err
		}
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			armed.Store(true)
			return result("done")
		})
		id := r.createAt(e, nil)
		<-time.After(10 * time.Minute)
		if got, err := e.Get(t.Context(), id, ann); err != nil || got.Status != mcp.TaskCompleted {
			t.Fatal(got, err)
		}
		if _, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)}); err != nil {
			t.Errorf("the next task: %v", err)
		}
	})
}

// A message or error that is larger than the values of the store.
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
				e := r.hooked(h, nil, run)
				id := r.createAt(e, nil)
				<-time.After(30 * time.Minute)
				if got, err := e.Get(t.Context(), id, ann); err != nil || !got.Status.Ended() {
					t.Errorf("the task is %s, %v", got.Status, err)
				}
			})
		})
	}
}

// A small outcome in a store that is full.
func TestFullStoreSmallError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		memory, err := store.NewMemory(&store.MemoryOptions{Bytes: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		r.memory = memory
		h := &hooked{}
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
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
		id := r.createAt(e, nil)
		<-time.After(time.Hour)
		if got, err := e.Get(t.Context(), id, ann); err != nil || !got.Status.Ended() {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// Questions at the shutdown.
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

// A run that hands back after its function has begun runs again without a pause.
func TestRestartWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var naks []time.Duration
		h := &hooked{nak: func(d time.Duration) { naks = append(naks, d) }}
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 3)
			return task.Outcome{HandedBack: true}
		})
		_, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if len(naks) == 0 || slices.Contains(naks, 0) {
			t.Errorf("the pauses are %v", naks)
		}
	})
}

// Begin hangs while the store hangs.
func TestBeginHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var hang atomic.Bool
		h.create = func(key string, _ []byte, do func() (uint64, error)) (uint64, error) { return do() }
		h.all = func(ctx context.Context) error {
			if hang.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		runs := 0
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			if runs++; runs == 1 {
				hang.Store(true)
			}
			if err := run.Begin(ctx, 3); err != nil {
				return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
			}
			return result("done")
		})
		id := r.createAt(e, nil)
		<-time.After(time.Minute)
		hang.Store(false)
		<-time.After(10 * time.Minute)
		if got, err := e.Get(t.Context(), id, ann); err != nil || got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// A cancelled task whose function has not begun: Begin.
func TestBeginOfCancelledTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		approved := make(chan struct{})
		began := false
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			<-approved
			if err := run.Begin(ctx, 0); err != nil {
				return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
			}
			began = true
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
		if began {
			t.Errorf("the function has begun after the cancellation was stored; the task is %s", got.Status)
		}
	})
}

// The room is used while the store refuses deletes once.
func TestRoomThatCannotBeFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		var full atomic.Bool
		room := ""
		deleted, fails := false, 1
		h.create = func(key string, value []byte, do func() (uint64, error)) (uint64, error) {
			if strings.Count(key, "/") > 1 {
				room = key
			}
			return do()
		}
		h.del = func(key string, do func() error) error {
			if key == room && fails > 0 {
				fails--
				return errors.New("away")
			}
			deleted = deleted || key == room
			return do()
		}
		h.update = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			if full.Load() && !deleted {
				return 0, store.ErrFull
			}
			return do()
		}
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			full.Store(true)
			return result("done")
		})
		id := r.createAt(e, nil)
		<-time.After(time.Hour)
		if got, err := e.Get(t.Context(), id, ann); err != nil || got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// The error of an outcome that finds no room has its size.
func TestFullMessageHasSize(t *testing.T) {
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
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			full.Store(true)
			return result(strings.Repeat("x", 204800))
		})
		id := r.createAt(e, nil)
		got := r.expect(&replica{e, nil}, id, mcp.TaskFailed)
		if !strings.Contains(got.StatusMessage, "2048") {
			t.Errorf("the message is %s", got.StatusMessage)
		}
	})
}

// Each update of a task takes effect but returns an error, one after the other. The task completes, each round runs once,
// and nothing that its record names is lost.
func TestAmbiguousEverything(t *testing.T) {
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
					e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
						if err := run.Begin(ctx, restarts); err != nil {
							return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
						}
						if len(run.Answers) == 0 {
							runs.Add(1)
							run.Save(ctx, json.RawMessage(`"`+strings.Repeat("x", 300<<10)+`"`))
							return task.Outcome{Questions: question("a"), State: json.RawMessage(`"` + strings.Repeat("y", 300<<10) + `"`)}
						}
						runs.Add(1)
						run.Save(ctx, json.RawMessage(`"`+strings.Repeat("z", 300<<10)+`"`))
						return result(strings.Repeat("x", 300<<10))
					})
					created, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)})
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

// A large result, and a store that needs 100 ms for each value.
func TestSlowStoreLargeResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		h.create = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			<-time.After(100 * time.Millisecond)
			return do()
		}
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			_ = run.Begin(ctx, 0)
			return result(strings.Repeat("x", 15<<20))
		})
		id := r.createAt(e, nil)
		<-time.After(5 * time.Minute)
		got, err := e.Get(t.Context(), id, ann)
		if err != nil || got.Status != mcp.TaskCompleted {
			t.Errorf("the task is %s, %v", got.Status, err)
		}
	})
}

// Questions, of a task whose cancellation is stored and not known to its run, leave their state.
func TestCancelledQuestionsLeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		back := make(chan struct{})
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			<-back
			return task.Outcome{Questions: question("a"), State: json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)}
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

// Begin that is called again after an error, with a context that has not ended, fails again: the task is handed back.
func TestBeginAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := &hooked{}
		fails := 0
		h.create = func(_ string, _ []byte, do func() (uint64, error)) (uint64, error) {
			if fails > 0 {
				fails--
				return 0, errors.New("away")
			}
			return do()
		}
		executed, attempts := 0, 0
		e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
			if attempts++; attempts == 1 {
				fails = 1
			}
			err := run.Begin(context.WithoutCancel(ctx), 0)
			if err != nil {
				err = run.Begin(context.WithoutCancel(ctx), 0)
			}
			if err != nil {
				return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
			}
			executed++
			return result("done")
		})
		id := r.createAt(e, nil)
		<-time.After(10 * time.Minute)
		got, err := e.Get(t.Context(), id, ann)
		if err != nil || executed != 1 || got.Status != mcp.TaskCompleted {
			t.Errorf("executed %d times; %s %s %v", executed, got.Status, got.StatusMessage, err)
		}
	})
}

// Stop at each moment (operation n of the store hangs from then on): Stop returns within
// 5 s, and its runs end within 30 s after that.
func TestStopEverywhere(t *testing.T) {
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
					e := r.hooked(h, nil, func(ctx context.Context, run *task.Run) task.Outcome {
						if err := run.Begin(ctx, 0); err != nil {
							return task.Outcome{Error: &jsonrpc.Error{Message: err.Error()}}
						}
						run.Report("x", nil)
						run.Save(ctx, json.RawMessage(`"`+strings.Repeat("x", 300<<10)+`"`))
						select {
						case <-ctx.Done():
						case <-time.After(5 * time.Second):
						}
						return result(strings.Repeat("x", 300<<10))
					})
					if _, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)}); err != nil {
						t.Skip(err)
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
