package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	ann = "ann"
	bob = "bob"
)

// A replica is an engine on a store that can be cut off, as if the process had been killed.
type replica struct {
	*task.Engine
	link *link
}

// A link is a connection to a store. After it is cut, all operations fail.
type link struct {
	store.Store
	cut       atomic.Bool
	failParts atomic.Int32 // how many reads of the parts of records fail
	reads     atomic.Int32 // of records
	silent    atomic.Bool  // messages cannot be published
	deaf      atomic.Bool  // messages cannot be subscribed to
}

var errCut = errors.New("the replica is dead")

func (l *link) err() error {
	if l.cut.Load() {
		return errCut
	}
	return nil
}

func (l *link) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := l.err(); err != nil {
		return 0, err
	}
	return l.Store.Update(ctx, key, value, revision, ttl)
}

func (l *link) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := l.err(); err != nil {
		return 0, err
	}
	return l.Store.Create(ctx, key, value, ttl)
}

func (l *link) Get(ctx context.Context, key string) (store.Item, error) {
	if err := l.err(); err != nil {
		return store.Item{}, err
	}
	isPart := strings.Count(key, "/") > 1
	if isPart && l.failParts.Add(-1) >= 0 {
		return store.Item{}, errCut
	}
	if !isPart {
		l.reads.Add(1)
	}
	return l.Store.Get(ctx, key)
}

func (l *link) Publish(ctx context.Context, subject string, data []byte) error {
	if l.silent.Load() {
		return errCut
	}
	return l.Store.Publish(ctx, subject, data)
}

func (l *link) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	if l.deaf.Load() {
		return nil, errCut
	}
	return l.Store.Subscribe(ctx, subject, handle)
}

func (l *link) Push(ctx context.Context, queue, id string, data []byte) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Store.Push(ctx, queue, id, data)
}

func (l *link) Extend(ctx context.Context, job *store.Job) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Store.Extend(ctx, job)
}

func (l *link) Ack(ctx context.Context, job *store.Job) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Store.Ack(ctx, job)
}

func (l *link) Nak(ctx context.Context, job *store.Job, delay time.Duration) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Store.Nak(ctx, job, delay)
}

// A rig has the store of the replicas of a test.
type rig struct {
	t      *testing.T
	memory store.Store
	ring   *token.Ring
	max    int

	retained *quota.Retained // may be nil
}

func newRig(t *testing.T) *rig {
	t.Helper()
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := token.NewRing()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return &rig{t: t, memory: memory, ring: ring, max: 100}
}

// replica starts an engine that runs calls with run.
func (r *rig) replica(run func(ctx context.Context, run *task.Run) task.Outcome) *replica {
	return r.replicaWith(r.ring, run)
}

// replicaWith starts an engine with other keys.
func (r *rig) replicaWith(ring *token.Ring, run func(ctx context.Context, run *task.Run) task.Outcome) *replica {
	connection := &link{Store: r.memory}
	e := task.New(task.Config{
		Store: connection, Key: state.FixedKey(ring),
		Run: run, Retained: r.retained, Shared: true, Max: r.max, Logger: slog.New(slog.DiscardHandler),
	})
	r.t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		e.Stop(ended)
	})
	return &replica{e, connection}
}

// kill cuts off the replica.
func (r *replica) kill() {
	r.link.cut.Store(true)
	r.Drain()
}

func (r *rig) create(e *replica, spec task.Spec) string {
	r.t.Helper()
	if spec.Principal == "" {
		spec.Principal = ann
	}
	if spec.Call == nil {
		spec.Call = json.RawMessage(`{}`)
	}
	if spec.TTL == 0 {
		spec.TTL = 24 * time.Hour
	}
	spec.State = json.RawMessage(`{}`)
	created, err := e.Create(r.t.Context(), spec)
	if err != nil {
		r.t.Fatal(err)
	}
	return created.TaskID
}

// get returns the state of a task of ann when nothing runs any more.
func (r *rig) get(e *replica, id string) *mcp.Task {
	r.t.Helper()
	synctest.Wait()
	got, err := e.Get(r.t.Context(), id, ann)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r *rig) expect(e *replica, id string, want mcp.TaskStatus) *mcp.Task {
	r.t.Helper()
	got := r.get(e, id)
	if got.Status != want {
		r.t.Fatalf("the task is %s (%s), want %s", got.Status, got.StatusMessage, want)
	}
	return got
}

func result(text string) task.Outcome { return task.Outcome{Result: json.RawMessage(`"` + text + `"`)} }

func done(context.Context, *task.Run) task.Outcome { return result("done") }

// untilEnd waits until the run is cancelled.
func untilEnd(ctx context.Context, _ *task.Run) task.Outcome {
	<-ctx.Done()
	return task.Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "interrupted"}}
}

func question(key string) map[string]mcp.InputRequest {
	return map[string]mcp.InputRequest{key: {Method: mcp.MethodElicit, Params: json.RawMessage(`{}`)}}
}

func TestTaskCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(done)
		id := r.create(e, task.Spec{TaskRequest: mcp.TaskRequest{TTL: time.Hour}})
		got := r.expect(e, id, mcp.TaskCompleted)
		if string(got.Result) != `"done"` || *got.TTLMs != 3_600_000 || got.PollIntervalMs <= 0 || len(id) < 26 {
			t.Errorf("the task is %+v", got)
		}
	})
}

// A run reads its record when it claims the task, and then knows it.
func TestRunReadsItsRecordOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			if err := run.Begin(ctx, 0); err != nil {
				t.Error(err)
			}
			run.Save(ctx, json.RawMessage(`{"half":true}`))
			<-time.After(time.Second) // else the state and the outcome may be written at the same time
			return result("done")
		})
		e.Start()
		synctest.Wait() // else the subscription to messages may make the run write its record once more
		id := r.create(e, task.Spec{})
		<-time.After(2 * time.Second)
		if n := e.link.reads.Load(); n != 1 {
			t.Errorf("the record was read %d times, want once", n)
		}
		r.expect(e, id, mcp.TaskCompleted)
	})
}

// TestTaskIsFoundImmediately reads each task at another replica, which has not run it.
func TestTaskIsFoundImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e, other := r.replica(untilEnd), r.replica(untilEnd)
		id := r.create(e, task.Spec{})
		if got, err := other.Get(t.Context(), id, ann); err != nil || got.TaskID != id || got.Status != mcp.TaskWorking {
			t.Errorf("Get = %+v, %v", got, err)
		}
	})
}

func TestTaskBelongsToItsPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(func(context.Context, *task.Run) task.Outcome {
			return task.Outcome{Questions: question("name"), State: json.RawMessage(`{}`)}
		})
		id := r.create(e, task.Spec{})
		r.expect(e, id, mcp.TaskInputRequired)
		for name, op := range map[string]func(id, principal string) error{
			"get":    func(id, p string) error { _, err := e.Get(t.Context(), id, p); return err },
			"cancel": func(id, p string) error { return e.Cancel(t.Context(), id, p) },
			"answer": func(id, p string) error {
				return e.Answer(t.Context(), id, p, map[string]json.RawMessage{"name": json.RawMessage(`{}`)})
			},
			"watch": func(id, p string) error { _, err := e.Watch(t.Context(), id, p, func() {}); return err },
		} {
			for _, wrong := range [][2]string{{id, bob}, {id, ""}, {"no-such-task", ann}, {"", ann}, {"../" + id, ann}, {id + "/state", ann}, {strings.Repeat("a", 1000), ann}} {
				if err := op(wrong[0], wrong[1]); !errors.Is(err, task.ErrUnknown) {
					t.Errorf("%s of %.40q by %q: %v, want ErrUnknown", name, wrong[0], wrong[1], err)
				}
			}
		}
		r.expect(e, id, mcp.TaskInputRequired)
	})
}

// TestTaskGoesOnAtAnotherReplica kills the replica that runs a task. Another one begins it again when the
// lease has ended, with the state that was saved.
func TestTaskGoesOnAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		dead := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			run.Save(ctx, json.RawMessage(`{"paid":true}`))
			return untilEnd(ctx, run)
		})
		id := r.create(dead, task.Spec{})
		synctest.Wait()
		dead.kill()
		alive := r.replica(func(_ context.Context, run *task.Run) task.Outcome { return task.Outcome{Result: run.State} })
		alive.Start()
		r.expect(alive, id, mcp.TaskWorking)
		<-time.After(2 * 30 * time.Second)
		if got := r.expect(alive, id, mcp.TaskCompleted); string(got.Result) != `{"paid":true}` {
			t.Errorf("the second run has the state %s", got.Result)
		}
	})
}

// TestTaskThatWasNotExecuted begins a task again that must not run twice, since its first run, or the
// reading of its call, has not executed anything.
func TestTaskThatWasNotExecuted(t *testing.T) {
	for name, unreadable := range map[string]bool{"stopping": false, "unreadable": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var runs atomic.Int32
				e := r.replica(func(context.Context, *task.Run) task.Outcome {
					if runs.Add(1) == 1 && !unreadable {
						return task.Outcome{HandedBack: true}
					}
					return result("done")
				})
				if unreadable {
					e.link.failParts.Store(1)
				}
				id := r.create(e, task.Spec{Call: json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)})
				<-time.After(time.Minute)
				r.expect(e, id, mcp.TaskCompleted)
			})
		})
	}
}

// TestTaskHasOneOutcome lets a worker complete a task that another worker has taken over, and completed.
func TestTaskHasOneOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release := make(chan struct{})
		slow := r.replica(func(context.Context, *task.Run) task.Outcome {
			<-release
			return result("slow")
		})
		id := r.create(slow, task.Spec{})
		synctest.Wait()
		slow.kill() // its lease ends
		fast := r.replica(func(context.Context, *task.Run) task.Outcome { return result("fast") })
		fast.Start()
		<-time.After(2 * 30 * time.Second)
		r.expect(fast, id, mcp.TaskCompleted)
		slow.link.cut.Store(false)
		close(release)
		if got := r.expect(fast, id, mcp.TaskCompleted); string(got.Result) != `"fast"` {
			t.Errorf("the outcome has changed to %s", got.Result)
		}
	})
}

func TestLongTaskKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var runs atomic.Int32
		run := func(context.Context, *task.Run) task.Outcome {
			runs.Add(1)
			<-time.After(10 * 30 * time.Second)
			return result("long")
		}
		e, other := r.replica(run), r.replica(run)
		other.Start()
		id := r.create(e, task.Spec{})
		<-time.After(11 * 30 * time.Second)
		r.expect(e, id, mcp.TaskCompleted)
		if n := runs.Load(); n != 1 {
			t.Errorf("the task has run %d times", n)
		}
	})
}

func TestCancelledTask(t *testing.T) {
	tests := map[string]struct {
		max  int
		run  func(ctx context.Context, run *task.Run) task.Outcome
		want mcp.TaskStatus
	}{
		"running": {1, untilEnd, mcp.TaskCancelled},
		"failure of the tool": {1, func(ctx context.Context, _ *task.Run) task.Outcome {
			<-ctx.Done()
			return task.Outcome{Result: json.RawMessage(`{}`), Failed: true}
		}, mcp.TaskCancelled},
		"question at the end": {1, func(ctx context.Context, _ *task.Run) task.Outcome {
			<-ctx.Done()
			return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
		}, mcp.TaskCancelled},
		"result in spite of it": {1, func(ctx context.Context, _ *task.Run) task.Outcome { <-ctx.Done(); return result("kept") }, mcp.TaskCompleted},
		"waiting for input": {1, func(context.Context, *task.Run) task.Outcome {
			return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
		}, mcp.TaskCancelled},
		"complete already":       {1, done, mcp.TaskCompleted},
		"running, other replica": {1, untilEnd, mcp.TaskCancelled},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				e := r.replica(test.run)
				at := e
				if strings.Contains(name, "other replica") {
					at = r.replica(test.run)
				}
				id := r.create(e, task.Spec{})
				synctest.Wait()
				at.Drain() // it runs nothing
				for range 2 {
					if err := at.Cancel(t.Context(), id, ann); err != nil {
						t.Fatal(err)
					}
				}
				r.expect(e, id, test.want)
			})
		})
	}
}

// TestCancelledTaskWithTwoJobs adds the job of a task a second time, while it waits for a worker. The
// second job has nothing to run, and the run of the first one is still cancelled.
func TestCancelledTaskWithTwoJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 2
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			var seconds int
			if json.Unmarshal(run.Call, &seconds) == nil {
				<-time.After(time.Duration(seconds) * time.Second)
				return result("")
			}
			return untilEnd(ctx, run)
		})
		r.create(e, task.Spec{Principal: bob, Call: json.RawMessage(`180`)})
		r.create(e, task.Spec{Principal: "cid", Call: json.RawMessage(`200`)})
		id := r.create(e, task.Spec{})
		<-time.After(150 * time.Second)
		r.get(e, id) // adds the job again
		<-time.After(time.Minute)
		r.expect(e, id, mcp.TaskWorking)
		began := time.Now()
		if err := e.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		r.expect(e, id, mcp.TaskCancelled)
		if passed := time.Since(began); passed > 0 {
			t.Errorf("the run was cancelled after %v", passed)
		}
	})
}

// TestCancellationWithoutMessage cancels a task at a replica that cannot publish messages.
func TestCancellationWithoutMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(untilEnd)
		id := r.create(e, task.Spec{})
		synctest.Wait()
		silent := r.replica(untilEnd)
		silent.link.silent.Store(true)
		if err := silent.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		r.expect(e, id, mcp.TaskWorking)
		<-time.After(30 * time.Second / 2)
		r.expect(e, id, mcp.TaskCancelled)
	})
}

// TestCancellationBeforeSubscription cancels a task while its replica cannot subscribe to messages. The run
// is cancelled, and watchers are notified, as soon as it can.
func TestCancellationBeforeSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e, other := r.replica(untilEnd), r.replica(untilEnd)
		e.link.deaf.Store(true)
		id, waiting := r.create(e, task.Spec{}), r.create(e, task.Spec{})
		changed := make(chan struct{}, 10)
		stop, err := e.Watch(t.Context(), waiting, ann, func() { changed <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		synctest.Wait()
		if err := other.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		e.link.deaf.Store(false)
		<-time.After(2 * time.Second)
		r.expect(e, id, mcp.TaskCancelled)
		if len(changed) == 0 {
			t.Error("the watcher is not notified")
		}
	})
}

// TestProgressIsStoredLater reports progress while the store fails.
func TestProgressIsStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var e *replica
		e = r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			e.link.cut.Store(true)
			run.Report("half", nil)
			return untilEnd(ctx, run)
		})
		id := r.create(e, task.Spec{})
		<-time.After(time.Second)
		e.link.cut.Store(false)
		<-time.After(time.Second)
		if got := r.expect(e, id, mcp.TaskWorking); got.StatusMessage != "half" {
			t.Errorf("the message is %q", got.StatusMessage)
		}
	})
}

// TestQueuedTaskIsCancelled cancels a task that no worker has begun.
func TestQueuedTaskIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 1
		e := r.replica(untilEnd)
		first := r.create(e, task.Spec{Principal: bob})
		synctest.Wait()
		id := r.create(e, task.Spec{})
		synctest.Wait()
		if err := e.Cancel(t.Context(), id, ann); err != nil {
			t.Fatal(err)
		}
		r.expect(e, id, mcp.TaskCancelled)
		if err := e.Cancel(t.Context(), first, bob); err != nil {
			t.Fatal(err)
		}
		r.expect(e, id, mcp.TaskCancelled)
	})
}

func TestQuestionsOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var runs atomic.Int32
		run := func(_ context.Context, run *task.Run) task.Outcome {
			if runs.Add(1); len(run.Answers) == 0 {
				questions := question("a")
				maps.Copy(questions, question("b"))
				return task.Outcome{Questions: questions, State: json.RawMessage(`{"n":1}`)}
			}
			return task.Outcome{Result: json.RawMessage(fmt.Sprintf("[%s,%s,%s]", run.State, run.Answers["a"], run.Answers["b"]))}
		}
		e, other := r.replica(run), r.replica(run)
		other.Start()
		id := r.create(e, task.Spec{})
		if got := r.expect(e, id, mcp.TaskInputRequired); len(got.InputRequests) != 2 {
			t.Fatalf("the questions are %v", got.InputRequests)
		}
		answer := func(at *replica, key, value string) {
			t.Helper()
			if err := at.Answer(t.Context(), id, ann, map[string]json.RawMessage{key: json.RawMessage(value)}); err != nil {
				t.Fatal(err)
			}
		}
		answer(e, "unknown", `0`)
		answer(other, "a", `1`)
		answer(e, "a", `2`) // ignored: it has an answer
		if got := r.expect(e, id, mcp.TaskInputRequired); !slices.Equal(slices.Collect(maps.Keys(got.InputRequests)), []string{"b"}) {
			t.Fatalf("the open questions are %v", got.InputRequests)
		}
		answer(other, "b", `3`)
		if got := r.expect(e, id, mcp.TaskCompleted); string(got.Result) != `[{"n":1},1,3]` {
			t.Errorf("the result is %s", got.Result)
		}
		answer(e, "b", `4`)
		r.expect(e, id, mcp.TaskCompleted)
		if n := runs.Load(); n != 2 {
			t.Errorf("the task has run %d times, want 2", n)
		}
	})
}

// TestAnsweredTaskWithoutJob lets the replica end that has stored the last answer, before it adds the job.
func TestAnsweredTaskWithoutJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(func(_ context.Context, run *task.Run) task.Outcome {
			if len(run.Answers) == 0 {
				return task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}
			}
			return result("answered")
		})
		id := r.create(e, task.Spec{})
		r.expect(e, id, mcp.TaskInputRequired)
		dying := r.replica(done)
		dying.link.Store = noPush{dying.link.Store}
		if err := dying.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{}`)}); !errors.Is(err, errCut) {
			t.Fatalf("Answer: %v", err)
		}
		r.expect(e, id, mcp.TaskWorking)
		<-time.After(3 * time.Second)
		r.get(e, id) // adds the job
		r.expect(e, id, mcp.TaskCompleted)
	})
}

type noPush struct{ store.Store }

func (noPush) Push(context.Context, string, string, []byte) error { return errCut }

func TestLargeTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		large := json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
		e := r.replica(func(_ context.Context, run *task.Run) task.Outcome { return task.Outcome{Result: run.Call} })
		id := r.create(e, task.Spec{Call: large})
		if got := r.expect(e, id, mcp.TaskCompleted); !bytes.Equal(got.Result, large) {
			t.Errorf("the result has %d bytes, want %d", len(got.Result), len(large))
		}
	})
}

func TestLimitsOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.max = 7 // 3 of each principal
		huge := json.RawMessage(`"` + strings.Repeat("x", 17<<20) + `"`)
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			if string(run.Call) == `"huge"` {
				return task.Outcome{Result: huge}
			}
			return untilEnd(ctx, run)
		})
		var size *task.SizeError
		if _, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: huge, State: json.RawMessage(`{}`)}); !errors.As(err, &size) {
			t.Errorf("a huge call: %v", err)
		}
		id := r.create(e, task.Spec{Call: json.RawMessage(`"huge"`)})
		if got := r.expect(e, id, mcp.TaskFailed); !strings.Contains(string(got.Error), "at most") {
			t.Errorf("a huge result: %s", got.Error)
		}
		for _, ttl := range []time.Duration{-1, 0, task.MaxTTL + 1} {
			if _, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: ttl}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)}); err == nil {
				t.Errorf("a task with the time to live %v was created", ttl)
			}
		}
		for range 3 {
			r.create(e, task.Spec{Principal: bob})
		}
		var ids []string
		for range 3 {
			ids = append(ids, r.create(e, task.Spec{}))
		}
		_, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, State: json.RawMessage(`{}`), Call: json.RawMessage(`{}`)})
		if busy, ok := errors.AsType[*jsonrpc.Error](err); !ok || busy.Code != jsonrpc.Busy {
			t.Errorf("one task too many: %v", err)
		}
		short := r.create(e, task.Spec{Principal: "cid", Call: json.RawMessage(`"huge"`)}) // finds a free worker
		synctest.Wait()
		if got, err := e.Get(t.Context(), short, "cid"); err != nil || got.Status != mcp.TaskFailed {
			t.Errorf("the task of another principal is %+v, %v", got, err)
		}
		if err := e.Cancel(t.Context(), ids[0], ann); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.create(e, task.Spec{})
	})
}

func TestTaskExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(untilEnd)
		id := r.create(e, task.Spec{TaskRequest: mcp.TaskRequest{TTL: time.Minute}})
		<-time.After(59 * time.Second)
		r.expect(e, id, mcp.TaskWorking)
		<-time.After(time.Second)
		synctest.Wait()
		if _, err := e.Get(t.Context(), id, ann); !errors.Is(err, task.ErrUnknown) {
			t.Errorf("after its time to live: %v", err)
		}
	})
}

func TestProgressOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.replica(func(_ context.Context, run *task.Run) task.Outcome {
			for i := range 100 {
				run.Report(fmt.Sprint("step ", i), &task.Progress{Progress: float64(i), Total: 100})
				<-time.After(100 * time.Millisecond)
			}
			return result("done")
		})
		watcher := r.replica(done)
		watcher.Drain()
		id := r.create(e, task.Spec{})
		var changes atomic.Int32
		stop, err := e.Watch(t.Context(), id, ann, func() { changes.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		<-time.After(5*time.Second + 50*time.Millisecond)
		got := r.expect(e, id, mcp.TaskWorking)
		if step := strings.TrimPrefix(got.StatusMessage, "step "); step < "45" || step > "50" || got.Meta.Get(mcp.MetaTaskProgress) == nil {
			t.Errorf("after 5 s the task is %+v", got)
		}
		<-time.After(5 * time.Second)
		r.expect(e, id, mcp.TaskCompleted)
		if n := changes.Load(); n < 10 || n > 30 {
			t.Errorf("%d changes in 10 s, want about 20", n)
		}
	})
}

// TestStoreFailsForAWhile completes a task although the store fails when the outcome is stored.
func TestStoreFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var e *replica
		e = r.replica(func(context.Context, *task.Run) task.Outcome {
			e.link.cut.Store(true)
			time.AfterFunc(3*time.Second, func() { e.link.cut.Store(false) })
			return result("late")
		})
		id := r.create(e, task.Spec{})
		<-time.After(20 * time.Second)
		r.expect(e, id, mcp.TaskCompleted)
	})
}

// TestStopInterruptsTasks: a task that still runs when the replica stops goes on at another one
// immediately.
func TestStopInterruptsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := r.replica(untilEnd)
		id := r.create(first, task.Spec{})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := first.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		second := r.replica(done)
		second.Start()
		r.expect(second, id, mcp.TaskCompleted)
	})
}

// TestStopGivesUpWaitingTasks: a task that waits for a person is interrupted when the replica stops, or when
// it begins to wait after that. A function that works gets the time that Stop has.
func TestStopGivesUpWaitingTasks(t *testing.T) {
	asks := func(ctx context.Context, run *task.Run) task.Outcome {
		defer deadline.Pause(ctx)()
		return untilEnd(ctx, run)
	}
	for name, test := range map[string]struct {
		run   func(ctx context.Context, run *task.Run) task.Outcome
		takes time.Duration // how long Stop takes
		want  string        // the result, after another replica has done what is left
	}{
		"waits": {asks, 0, "other"},
		"works and then waits": {func(ctx context.Context, run *task.Run) task.Outcome {
			<-time.After(time.Minute)
			return asks(ctx, run)
		}, time.Minute, "other"},
		"has waited and works": {func(ctx context.Context, _ *task.Run) task.Outcome {
			deadline.Pause(ctx)()
			<-time.After(time.Minute)
			if ctx.Err() != nil {
				return task.Outcome{HandedBack: true}
			}
			return result("first")
		}, time.Minute, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				first := r.replica(test.run)
				id := r.create(first, task.Spec{})
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				if err := first.Stop(ctx); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != test.takes {
					t.Errorf("Stop took %v, want %v", took, test.takes)
				}
				second := r.replica(func(context.Context, *task.Run) task.Outcome { return result("other") })
				second.Start()
				if got := r.expect(second, id, mcp.TaskCompleted); string(got.Result) != `"`+test.want+`"` {
					t.Errorf("the result is %s, want %s", got.Result, test.want)
				}
			})
		})
	}
}

// TestTaskWithoutAReader: a task ends at its time to live although its client never got its id, and frees its
// place among the tasks of its principal. Until then, the other places are free, and other principals create
// tasks.
func TestTaskWithoutAReader(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, run *task.Run) task.Outcome{
		"works": untilEnd,
		"asks": func(context.Context, *task.Run) task.Outcome {
			return task.Outcome{Questions: question("name"), State: json.RawMessage(`{}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.max = 4 // 2 of each principal
				e := r.replica(run)
				spec := task.Spec{TaskRequest: mcp.TaskRequest{TTL: time.Hour}}
				lost := r.create(e, spec)
				<-time.After(time.Minute)
				r.create(e, spec)
				refused := func() bool {
					_, err := e.Create(t.Context(), task.Spec{Principal: ann, TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)})
					failed, ok := errors.AsType[*jsonrpc.Error](err)
					return ok && failed.Code == jsonrpc.Busy
				}
				if !refused() {
					t.Error("a third task of the principal was accepted")
				}
				r.create(e, task.Spec{Principal: bob, TaskRequest: spec.TaskRequest})
				<-time.After(59*time.Minute + time.Second)
				if _, err := e.Get(t.Context(), lost, ann); !errors.Is(err, task.ErrUnknown) {
					t.Errorf("after its time, the task gives %v", err)
				}
				if refused() {
					t.Error("the task keeps its place after its time")
				}
			})
		})
	}
}

// TestKeysChange replaces the key of the replicas while a task waits for an answer. Its call is large, so
// that it is stored in chunks.
func TestKeysChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ringOf := func(keys ...byte) *token.Ring {
			var all [][]byte
			for _, key := range keys {
				all = append(all, bytes.Repeat([]byte{key}, token.MinKey))
			}
			ring, err := token.NewRing(all...)
			if err != nil {
				t.Fatal(err)
			}
			return ring
		}
		large := json.RawMessage(`"` + strings.Repeat("a", 300_000) + `"`)
		run := func(_ context.Context, run *task.Run) task.Outcome {
			if len(run.Answers) == 0 {
				return task.Outcome{Questions: question("name"), State: json.RawMessage(`{}`)}
			}
			return task.Outcome{Result: run.Call}
		}
		first := r.replicaWith(ringOf(1), run)
		id := r.create(first, task.Spec{Call: large})
		r.expect(first, id, mcp.TaskInputRequired)
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := r.replicaWith(ringOf(2, 1), run)
		second.Start()
		r.expect(second, id, mcp.TaskInputRequired)
		if err := second.Answer(t.Context(), id, ann, map[string]json.RawMessage{"name": json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
		r.expect(second, id, mcp.TaskCompleted)
		if got := r.expect(r.replicaWith(ringOf(2), run), id, mcp.TaskCompleted); string(got.Result) != string(large) {
			t.Errorf("the result has %d bytes, want %d", len(got.Result), len(large))
		}
	})
}

// TestReplicaWithOtherKeys: a replica that cannot open a task leaves it to another one, although the replica
// has taken its job or has begun it.
func TestReplicaWithOtherKeys(t *testing.T) {
	for _, begun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			ring, err := token.NewRing()
			if err != nil {
				t.Fatal(err)
			}
			release := make(chan struct{})
			wrong := r.replicaWith(ring, func(context.Context, *task.Run) task.Outcome {
				<-release
				return result("wrong")
			})
			var id string
			if begun {
				id = r.create(wrong, task.Spec{})
				synctest.Wait()
				r.reseal(id, ring)
				close(release)
			} else {
				wrong.Start()
				creator := r.replica(done)
				creator.Drain() // it takes no jobs
				id = r.create(creator, task.Spec{})
				r.expect(creator, id, mcp.TaskWorking)
			}
			synctest.Wait()
			right := r.replica(done)
			right.Start()
			for range 30 { // the other replica may take the job again and again, each time after a minute at most
				if <-time.After(time.Minute); r.get(right, id).Status.Ended() {
					break
				}
			}
			r.expect(right, id, mcp.TaskCompleted)
		})
	}
}

// reseal seals the record of a task, which was sealed with the keys of ring, with the keys of the rig.
func (r *rig) reseal(id string, ring *token.Ring) {
	r.t.Helper()
	key := "task/" + id
	item, err := r.memory.Get(r.t.Context(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	record, err := ring.OpenBytes(item.Value, token.Binding("record", key))
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.memory.Update(r.t.Context(), key, r.ring.SealBytes(record, token.Binding("record", key)), item.Revision, time.Hour); err != nil {
		r.t.Fatal(err)
	}
}

// TestStoreHasNoPlainText looks for secrets in everything that reaches the store.
func TestStoreHasNoPlainText(t *testing.T) {
	const secret = "swordfish"
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		spy := &spy{Store: r.memory}
		run := func(ctx context.Context, run *task.Run) task.Outcome {
			run.Report(secret, &task.Progress{Progress: 1})
			run.Save(ctx, json.RawMessage(`{"a":"`+secret+`"}`))
			if len(run.Answers) == 0 {
				return task.Outcome{
					Questions: map[string]mcp.InputRequest{"a": {Method: mcp.MethodElicit, Params: json.RawMessage(`{"message":"` + secret + `"}`)}},
					State:     json.RawMessage(`{"b":"` + secret + `"}`),
				}
			}
			return result(secret + strings.Repeat(secret, 100_000))
		}
		e := r.replica(run)
		e.link.Store = spy
		id := r.create(e, task.Spec{Principal: ann, Call: json.RawMessage(`{"arguments":"` + secret + `"}`)})
		r.expect(e, id, mcp.TaskInputRequired)
		if err := e.Answer(t.Context(), id, ann, map[string]json.RawMessage{"a": json.RawMessage(`{"c":"` + secret + `"}`)}); err != nil {
			t.Fatal(err)
		}
		r.expect(e, id, mcp.TaskCompleted)
		spy.mu.Lock()
		defer spy.mu.Unlock()
		if spy.written < 8 {
			t.Fatalf("only %d values were written", spy.written)
		}
		for _, word := range []string{secret, "principal", "arguments"} {
			if bytes.Contains(spy.all, []byte(word)) {
				t.Errorf("the store has %q in plain text", word)
			}
		}
	})
}

// A spy records what is written to a store.
type spy struct {
	store.Store
	mu      sync.Mutex
	all     []byte
	written int
}

func (s *spy) add(value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, value...)
	s.written++
}

func (s *spy) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	s.add(value)
	return s.Store.Create(ctx, key, value, ttl)
}

func (s *spy) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	s.add(value)
	return s.Store.Update(ctx, key, value, revision, ttl)
}

func (s *spy) Publish(ctx context.Context, subject string, data []byte) error {
	s.add(data)
	return s.Store.Publish(ctx, subject, data)
}

func (s *spy) Push(ctx context.Context, queue, id string, data []byte) error {
	s.add(data)
	return s.Store.Push(ctx, queue, id, data)
}
