package tasktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Run lets the store of a replica fail, and the replica itself, at each moment of a task. It compares the ledger, in
// which the function of the task writes each of its executions, with what the task allows, and the outcome with what
// the client must get. open returns a store with a lease. All failures happen at the same time, whatever the flag
// -test.parallel says: nearly all of the time is spent waiting. Failures of all replicas happen in virtual time only:
// what follows depends on which replica is faster when they end.
func Run(t *testing.T, lease time.Duration, open func(t *testing.T, limits store.Limits) store.Store) {
	var running sync.WaitGroup
	for _, s := range scenarios() {
		if s.all {
			continue
		}
		running.Go(func() {
			t.Run(s.name, func(t *testing.T) { s.run(t, false, lease, open(t, store.Limits{Lease: lease})) })
		})
	}
	running.Wait()
}

// RunVirtual is like Run, but each subtest has its own virtual time, see [synctest.Test].
func RunVirtual(t *testing.T, lease time.Duration, open func(t *testing.T, limits store.Limits) store.Store) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { s.run(t, true, lease, open(t, store.Limits{Lease: lease})) })
		})
	}
}

// A scenario is one failure. It happens to the replica that runs the task first, or to all. Two others start
// then.
type scenario struct {
	name        string
	all         bool
	maxRestarts int
	// function is what the first replica runs, and the others too unless other is set. Before it, the execution
	// is in the ledger.
	function func(ctx context.Context, f *failing, run *task.Run) task.Outcome
	other    func(ctx context.Context, f *failing, run *task.Run) task.Outcome
	// before happens before the function begins.
	before func(f *failing)

	executions int
	status     mcp.TaskStatus
	outcome    string // part of the result, or of the error
}

const mayHave = "may have been executed"

// wasExecuted is what the error of a task says whose function has returned an outcome that cannot be stored.
const wasExecuted = "the call was executed, but its outcome"

func scenarios() []scenario {
	answer := func(size int) task.Outcome {
		return task.Outcome{Result: json.RawMessage(`"done` + strings.Repeat("x", size) + `"`)}
	}
	ends := func(ctx context.Context, f *failing, _ *task.Run) task.Outcome { return answer(0) }
	// fails returns a function during which the store fails for some leases. The function ends in the meantime.
	fails := func(mode failure, leases float64, size int) func(ctx context.Context, f *failing, run *task.Run) task.Outcome {
		return func(ctx context.Context, f *failing, _ *task.Run) task.Outcome {
			f.failFor(mode, leases)
			if mode == stopped { // and with it the function
				_ = f.fail(ctx)
			}
			return answer(size)
		}
	}
	killed := func(ctx context.Context, f *failing, _ *task.Run) task.Outcome {
		f.kill()
		<-ctx.Done()
		return task.Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "killed"}}
	}
	unkept := func(ctx context.Context, _ *failing, run *task.Run) task.Outcome {
		run.Save(ctx, make([]byte, 17<<20))
		if ctx.Err() != nil {
			return task.Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: context.Cause(ctx).Error()}}
		}
		return answer(0)
	}
	saves := func(ctx context.Context, f *failing, run *task.Run) task.Outcome {
		f.failFor(away, 0.5)
		run.Save(ctx, json.RawMessage(`{}`))
		if ctx.Err() != nil {
			return task.Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: context.Cause(ctx).Error()}}
		}
		return answer(0)
	}
	// worksOn goes on after the failure.
	worksOn := func(mode failure, outcome task.Outcome) func(ctx context.Context, f *failing, run *task.Run) task.Outcome {
		return func(ctx context.Context, f *failing, _ *task.Run) task.Outcome {
			f.failFor(mode, 6)
			select {
			case <-time.After(7 * f.lease):
			case <-ctx.Done():
			}
			return outcome
		}
	}
	question := task.Outcome{Questions: map[string]mcp.InputRequest{"a": {Method: mcp.MethodElicit, Params: json.RawMessage(`{}`)}}, State: json.RawMessage(`{}`)}
	// asksLate asks when its task has failed.
	asksLate := func(ctx context.Context, f *failing, _ *task.Run) task.Outcome {
		f.failFor(away, 6)
		select {
		case <-f.seen:
		case <-ctx.Done():
		}
		return question
	}
	asks := func(_ context.Context, _ *failing, run *task.Run) task.Outcome {
		if len(run.Answers) == 0 {
			return question
		}
		return answer(0)
	}
	return []scenario{
		{name: "NoFailure", function: ends, executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreAway", function: fails(away, 0.5, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreHangs", function: fails(hangs, 0.5, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreSlow", function: fails(slow, 2, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreAwayForLongerThanTheLease", function: fails(away, 6, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreHangsForLongerThanTheLease", function: fails(hangs, 6, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreAwayForAll", all: true, maxRestarts: 3, function: fails(away, 6, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreHangsForAll", all: true, maxRestarts: 3, function: fails(hangs, 6, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreAwayForAllWhileTheFunctionRuns", all: true, maxRestarts: 3, function: worksOn(away, answer(0)), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "AsksWhenItsTaskHasFailed", function: asksLate, executions: 1, status: mcp.TaskFailed, outcome: mayHave},
		{name: "StoreAwayBeforeTheFunction", before: func(f *failing) { f.failFor(away, 0.3) }, function: ends, executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreAwayWhileAValueIsKept", function: saves, executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreFullBeforeTheFunction", before: func(f *failing) { f.failFor(full, 0.5) }, function: ends, executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreFullAtTheEnd", function: fails(full, 1000, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoreFullAndLargeResult", function: fails(full, 1000, 200<<10), executions: 1, status: mcp.TaskFailed, outcome: wasExecuted},
		{name: "ResultTooLarge", function: fails(works, 0, 17<<20), executions: 1, status: mcp.TaskFailed, outcome: wasExecuted},
		{name: "ValueTooLarge", maxRestarts: 3, function: unkept, executions: 1, status: mcp.TaskFailed, outcome: mayHave},
		{name: "KilledBeforeTheFunction", before: (*failing).kill, function: ends, executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "KilledInTheFunction", function: killed, executions: 1, status: mcp.TaskFailed, outcome: mayHave},
		{name: "KilledInTheFunctionThatMayRestart", maxRestarts: 1, function: killed, other: ends, executions: 2, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoppedForLongerThanTheLease", function: fails(stopped, 6, 0), executions: 1, status: mcp.TaskCompleted, outcome: "done"},
		{name: "StoppedWhileAnotherAttemptRuns", maxRestarts: 1, function: fails(stopped, 1000, 0), other: ends, executions: 2, status: mcp.TaskCompleted, outcome: "done"},
		{name: "RunsAgainAfterTheAnswers", function: asks, executions: 2, status: mcp.TaskCompleted, outcome: "done"},
		{name: "KilledInEachAttempt", maxRestarts: 1, function: killed, executions: 2, status: mcp.TaskFailed, outcome: mayHave},
	}
}

func (s *scenario) run(t *testing.T, virtual bool, lease time.Duration, shared store.Store) {
	ring, err := token.NewRing()
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	start := func(f *failing, function func(context.Context, *failing, *task.Run) task.Outcome) *task.Engine {
		engine := task.New(task.Config{
			Store: f, Key: state.FixedKey(ring), Shared: true, Max: 10, Logger: slog.New(slog.DiscardHandler),
			Run: func(ctx context.Context, run *task.Run) task.Outcome {
				defer f.once.Do(func() { close(f.begun) })
				if s.before != nil && f.first {
					f.onBefore.Do(func() { s.before(f) })
				}
				if err := run.Begin(ctx, s.maxRestarts); err != nil {
					return task.Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}}
				}
				l.write()
				f.once.Do(func() { close(f.begun) })
				return function(ctx, f, run)
			},
		})
		t.Cleanup(func() {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			f.kill()
			if err := engine.Stop(ended); err != nil {
				t.Error(err)
			}
		})
		return engine
	}
	common := &fault{}
	connect := func() *failing {
		if s.all {
			return newFailing(shared, common, lease)
		}
		return newFailing(shared, &fault{}, lease)
	}
	first := connect()
	first.first = true
	seen := make(chan struct{})
	first.seen = seen
	creator := start(first, s.function)
	created, err := creator.Create(t.Context(), task.Spec{
		TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-first.begun
	if s.other == nil {
		s.other = s.function
	}
	for range 2 {
		start(connect(), s.other).Start()
	}
	reader := start(newFailing(shared, &fault{}, lease), s.function) // it takes no jobs
	for deadline := time.Now().Add(20*lease + time.Minute); ; {
		got, err := reader.Get(t.Context(), created.TaskID, "")
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == mcp.TaskInputRequired {
			if err := reader.Answer(t.Context(), created.TaskID, "", map[string]json.RawMessage{"a": json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
		said := string(got.Result) + string(got.Error)
		if got.Status == s.status && strings.Contains(said, s.outcome) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the task is %s with %.200s, want %s with %q", got.Status, said, s.status, s.outcome)
		}
		<-time.After(lease / 20)
	}
	close(seen)
	first.failFor(works, 0)
	<-time.After(8 * lease) // nothing may run, or change, now
	if got, err := reader.Get(t.Context(), created.TaskID, ""); err != nil || got.Status != s.status {
		t.Errorf("in the end, the task is %+v, %v", got, err)
	}
	most := s.executions
	if !virtual { // a busy machine may be late for the lease of a task that may begin again
		most = max(most, 1+s.maxRestarts)
	}
	if n := l.executions(); n < s.executions || n > most {
		t.Errorf("the function has begun %d times, want %d to %d", n, s.executions, most)
	}
}

// A ledger counts executions.
type ledger struct {
	mu    sync.Mutex
	count int
}

func (l *ledger) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
}

func (l *ledger) executions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// A failure is what happens to the operations of a store.
type failure int

const (
	works   failure = iota
	away            // they fail
	hangs           // they fail at the end of their context
	slow            // they take half a second
	stopped         // they do not return
	full            // they fail if they need room
	gone            // the process does not exist: they fail for ever
)

var errAway = errors.New("the store cannot be reached")

// A fault is what happens to the connections of replicas to their store, until it ends.
type fault struct {
	mu    sync.Mutex
	mode  failure
	until time.Time
}

func (f *fault) current() failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(f.until) {
		return works
	}
	return f.mode
}

// A failing is the connection of one replica to a store.
type failing struct {
	store.Store
	*fault
	lease    time.Duration
	first    bool // whether this is the first replica
	killed   atomic.Bool
	begun    chan struct{}
	seen     <-chan struct{} // closed when the task has the wanted outcome
	once     sync.Once
	onBefore sync.Once

	mu    sync.Mutex
	sizes map[string]int // of values
	freed int            // bytes that were freed since the store is full
}

func newFailing(shared store.Store, fault *fault, lease time.Duration) *failing {
	return &failing{Store: shared, fault: fault, lease: lease, begun: make(chan struct{}), sizes: make(map[string]int)}
}

// failFor lets the store fail for some leases.
func (f *failing) failFor(mode failure, leases float64) {
	f.fault.mu.Lock()
	defer f.fault.mu.Unlock()
	f.fault.mode, f.fault.until = mode, time.Now().Add(time.Duration(leases*float64(f.lease)))
}

// kill lets all operations fail from now on.
func (f *failing) kill() { f.killed.Store(true) }

// fail fails, waits or does nothing.
func (f *failing) fail(ctx context.Context) error {
	for f.current() == stopped && !f.killed.Load() {
		<-time.After(f.lease / 20)
	}
	switch mode := f.current(); {
	case f.killed.Load(), mode == away:
		return errAway
	case mode == hangs:
		<-ctx.Done()
		return ctx.Err()
	case mode == slow:
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// resize counts the size of a value, and fails if the store is full and the value needs room.
func (f *failing) resize(key string, size int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	growth := size - f.sizes[key]
	if f.current() == full {
		if growth > f.freed {
			return fmt.Errorf("%w: by the test", store.ErrFull)
		}
		f.freed -= growth
	}
	f.sizes[key] = size
	return nil
}

func (f *failing) Get(ctx context.Context, key string) (store.Item, error) {
	if err := f.fail(ctx); err != nil {
		return store.Item{}, err
	}
	return f.Store.Get(ctx, key)
}

func (f *failing) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := errors.Join(f.fail(ctx), f.resize(key, len(value))); err != nil {
		return 0, err
	}
	return f.Store.Create(ctx, key, value, ttl)
}

func (f *failing) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := errors.Join(f.fail(ctx), f.resize(key, len(value))); err != nil {
		return 0, err
	}
	return f.Store.Update(ctx, key, value, revision, ttl)
}

func (f *failing) Delete(ctx context.Context, key string, revision uint64) error {
	if err := errors.Join(f.fail(ctx), f.resize(key, 0)); err != nil {
		return err
	}
	return f.Store.Delete(ctx, key, revision)
}

func (f *failing) Push(ctx context.Context, queue, id string, data []byte) error {
	if err := f.fail(ctx); err != nil {
		return err
	}
	return f.Store.Push(ctx, queue, id, data)
}

func (f *failing) Pull(ctx context.Context, queue string) (*store.Job, error) {
	if err := f.fail(ctx); err != nil {
		return nil, err
	}
	return f.Store.Pull(ctx, queue)
}

func (f *failing) Extend(ctx context.Context, job *store.Job) error {
	if err := f.fail(ctx); err != nil {
		return err
	}
	return f.Store.Extend(ctx, job)
}

func (f *failing) Ack(ctx context.Context, job *store.Job) error {
	if err := f.fail(ctx); err != nil {
		return err
	}
	return f.Store.Ack(ctx, job)
}

func (f *failing) Nak(ctx context.Context, job *store.Job, delay time.Duration) error {
	if err := f.fail(ctx); err != nil {
		return err
	}
	return f.Store.Nak(ctx, job, delay)
}

func (f *failing) Publish(ctx context.Context, subject string, data []byte) error {
	if err := f.fail(ctx); err != nil {
		return err
	}
	return f.Store.Publish(ctx, subject, data)
}
