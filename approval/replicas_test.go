package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A failingStore can be down.
type failingStore struct {
	store.Store
	down atomic.Bool
}

var errDown = errors.New("the store is down")

func (s *failingStore) Get(ctx context.Context, key string) (store.Item, error) {
	if s.down.Load() {
		return store.Item{}, errDown
	}
	return s.Store.Get(ctx, key)
}

func (s *failingStore) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if s.down.Load() {
		return 0, errDown
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (s *failingStore) Delete(ctx context.Context, key string, revision uint64) error {
	if s.down.Load() {
		return errDown
	}
	return s.Store.Delete(ctx, key, revision)
}

// A replica is one of several guards with a common store.
type replica struct {
	invoke  mcp.Handler
	store   *failingStore
	journal *memoryJournal
	options *approval.Options
}

// newReplicas returns replicas of a tool.
func newReplicas(t *testing.T, n int, f *tool, approver approval.Approver) []*replica {
	t.Helper()
	shared, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	replicas := make([]*replica, n)
	for i := range replicas {
		r := &replica{store: &failingStore{Store: shared}, journal: &memoryJournal{}}
		r.options = options(r.journal)
		r.options.Store, r.options.Replica = r.store, fmt.Sprint("replica-", i)
		r.invoke = gated(f, approver, r.options)
		replicas[i] = r
	}
	return replicas
}

// call makes one run of a call.
func (r *replica) call(t *testing.T, e *exchange) error {
	t.Helper()
	_, err := r.invoke(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
	return err
}

// wantAsks checks that a run asks the caller, and answers the question.
func wantAsks(t *testing.T, e *exchange, err error, answer string) {
	t.Helper()
	asked, ok := mcp.AsInputRequired(err)
	if !ok {
		t.Fatalf("the run ended with %v, want a question", err)
	}
	for key := range asked.Requests {
		e.answers[key] = json.RawMessage(answer)
	}
}

// questioningTool returns a tool that asks its caller some questions, one in each run.
func questioningTool(questions int) *tool {
	return &tool{then: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
		for i := range questions {
			if _, err := call.Input(fmt.Sprint("question ", i), mcp.InputRequest{Method: mcp.MethodElicit}); err != nil {
				return nil, err
			}
		}
		return mcp.Raw(`{"content":[]}`), nil
	}}
}

const acceptedForm = `{"action":"accept","content":{"decision":"approve"}}`

// The caller's answers may arrive at any replicas. Each state of a call is used once.
func TestContinuedAtAnotherReplica(t *testing.T) {
	f := questioningTool(2)
	replicas := newReplicas(t, 3, f, approval.Elicitation())
	for i := range 300 {
		e := newExchange(fmt.Sprint("call-", i))
		var replays []*exchange
		for run := range 3 {
			wantAsks(t, e, replicas[(i+run*(1+i/3%2))%3].call(t, e), acceptedForm)
			replays = append(replays, e.copy())
		}
		if err := replicas[i/3%3].call(t, e); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		for _, replay := range replays {
			for _, r := range replicas {
				wantCode(t, r.call(t, replay), approval.Spent)
			}
		}
	}
	if n := len(f.ran()); n != 900 {
		t.Errorf("the tool had %d runs, want 3 for each call", n)
	}
}

// A call that waits for its caller counts as open at the replica that has asked, until it is continued or ends.
func TestPausedCallsAreOpen(t *testing.T) {
	for name, after := range map[string]struct {
		then func(t *testing.T, replicas []*replica, e *exchange)
		open bool
	}{
		"nothing": {func(*testing.T, []*replica, *exchange) {}, true},
		"continued at the same replica": {func(t *testing.T, replicas []*replica, e *exchange) {
			if err := replicas[0].call(t, e); err != nil {
				t.Error(err)
			}
		}, false},
		"continued at another replica": {func(t *testing.T, replicas []*replica, e *exchange) {
			if err := replicas[1].call(t, e); err != nil {
				t.Error(err)
			}
		}, false},
		"the caller has left": {func(_ *testing.T, _ []*replica, e *exchange) {
			for _, done := range e.onDone {
				done()
			}
		}, false},
		"the time has ended":     {func(*testing.T, []*replica, *exchange) { sleep(5 * time.Minute) }, false},
		"the store is then away": {func(_ *testing.T, replicas []*replica, _ *exchange) { replicas[0].store.down.Store(true) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := questioningTool(1)
				replicas := newReplicas(t, 2, f, says(yes, nil))
				replicas[0].options.MaxPerCaller = 1
				replicas[0].invoke = gated(f, says(yes, nil), replicas[0].options)
				first := newExchange("first")
				wantAsks(t, first, replicas[0].call(t, first), `{"action":"accept"}`)
				after.then(t, replicas, first)
				second := newExchange("second")
				if err := replicas[0].call(t, second); after.open {
					wantCode(t, err, approval.TooMany)
				} else {
					wantAsks(t, second, err, `{"action":"accept"}`)
				}
			})
		})
	}
}

// The journal of each replica has its runs of a call.
func TestJournalsOfReplicas(t *testing.T) {
	replicas := newReplicas(t, 3, questioningTool(1), approval.Elicitation())
	var paths []string
	for i, r := range replicas {
		paths = append(paths, filepath.Join(t.TempDir(), "journal"))
		journal, err := approval.OpenJournal(paths[i], quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer journal.Close()
		r.journal.fails = journal.Append
	}
	e := newExchange("call")
	wantAsks(t, e, replicas[0].call(t, e), acceptedForm)
	wantAsks(t, e, replicas[1].call(t, e), `{"action":"accept"}`)
	if err := replicas[2].call(t, e); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, replicas[0].journal, "asked", "paused")
	wantEvents(t, replicas[1].journal, "asked", "approved", "executing", "paused")
	wantEvents(t, replicas[2].journal, "resumed", "executed")
	for i, r := range replicas {
		for _, entry := range r.journal.entries {
			if entry.Replica != fmt.Sprint("replica-", i) || entry.ID != replicas[0].journal.entries[0].ID {
				t.Errorf("replica %d has the entry %+v", i, entry)
			}
		}
		if first := r.journal.entries[0]; first.Caller != "anna" || first.Tool != "write" || first.Deadline.IsZero() {
			t.Errorf("the first entry of replica %d is %+v", i, first)
		}
		if summary, err := approval.Verify(paths[i]); err != nil || len(summary.Open) != 0 {
			t.Errorf("the journal of replica %d: %+v, %v", i, summary, err)
		}
	}
}

// If all replicas get the same answer at the same time, one continues the call.
func TestContinuedOnce(t *testing.T) {
	f := questioningTool(1)
	replicas := newReplicas(t, 3, f, says(yes, nil))
	for i := range 200 {
		e := newExchange(fmt.Sprint("call-", i))
		wantAsks(t, e, replicas[i%3].call(t, e), `{"action":"accept"}`)
		before := len(f.ran())
		errs := make([]error, len(replicas))
		var running sync.WaitGroup
		for j, r := range replicas {
			copied := e.copy()
			running.Go(func() { errs[j] = r.call(t, copied) })
		}
		running.Wait()
		if n := len(f.ran()) - before; n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
		if i := slices.Index(errs, nil); i < 0 {
			t.Errorf("no replica has continued the call: %v", errs)
		} else {
			errs = slices.Delete(errs, i, i+1)
		}
		for _, err := range errs {
			wantCode(t, err, approval.Spent)
		}
	}
}

// A call that was running when its replica was killed is not continued anywhere.
func TestKilledDuringARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := questioningTool(1)
		replicas := newReplicas(t, 2, f, says(yes, nil))
		e := newExchange("call")
		wantAsks(t, e, replicas[0].call(t, e), `{"action":"accept"}`)
		asks, hangs := f.then, make(chan struct{})
		f.then = func(context.Context, *mcp.Call) (mcp.Result, error) {
			<-hangs // as if it was killed: nothing of it happens
			return nil, errors.New("killed")
		}
		var killed sync.WaitGroup
		killed.Go(func() { _ = replicas[0].call(t, e.copy()) })
		synctest.Wait()
		f.then = asks
		wantCode(t, replicas[1].call(t, e), approval.Spent)
		close(hangs)
		killed.Wait()
		if n := len(f.ran()); n != 2 {
			t.Errorf("the tool had %d runs, want the two of one execution", n)
		}
	})
}

// While the store is down, calls that ask their caller fail, and others run. Then everything works
// as before.
func TestStoreIsDown(t *testing.T) {
	f := questioningTool(1)
	r := newReplicas(t, 1, f, says(yes, nil))[0]
	wantUnreachable := func(err error) {
		t.Helper()
		wantCode(t, err, approval.Failed)
		wantCalled(t, err, true)
		if err == nil || !strings.Contains(err.Error(), "the store of the approvals cannot be reached") || !errors.Is(err, errDown) {
			t.Errorf("the error is %v", err)
		}
	}
	r.store.down.Store(true)
	wantUnreachable(r.call(t, newExchange("a")))
	wantEvents(t, r.journal, "asked", "approved", "executing", "failed")
	answered := newExchange("b")
	answered.answers["question 0"] = json.RawMessage(`{"action":"accept"}`)
	if err := r.call(t, answered); err != nil {
		t.Errorf("a call that does not ask: %v", err)
	}
	r.store.down.Store(false)
	e := newExchange("c")
	wantAsks(t, e, r.call(t, e), `{"action":"accept"}`)
	r.store.down.Store(true)
	wantUnreachable(r.call(t, e.copy()))
	r.store.down.Store(false)
	if err := r.call(t, e); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

// A call that has changed, is too late, or whose caller has disconnected is not continued.
func TestNotContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := questioningTool(1)
		replicas := newReplicas(t, 2, f, says(yes, nil))
		paused := func(id string) *exchange {
			e := newExchange(id)
			wantAsks(t, e, replicas[0].call(t, e), `{"action":"accept"}`)
			return e
		}
		changed := paused("changed")
		_, err := replicas[1].invoke(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/b"}`, changed))
		wantCode(t, err, approval.Changed)
		wantCode(t, replicas[1].call(t, changed), approval.Spent)
		other := paused("other")
		_, err = replicas[1].invoke(t.Context(), newCall(t, "eve", "write", `{"path":"/tmp/a"}`, other))
		wantCode(t, err, approval.Changed)
		compiled, err := policy.Compile(rules("dangerous", ""))
		if err != nil {
			t.Fatal(err)
		}
		restarted := guarded(approval.Guard(compiled, says(yes, nil), replicas[1].options), f.invoke)
		_, err = restarted(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, paused("another rule")))
		wantCode(t, err, approval.Changed)
		gone := paused("gone")
		for _, fn := range gone.onDone {
			fn()
		}
		wantCode(t, replicas[1].call(t, gone), approval.Spent)
		late := paused("late")
		sleep(5 * time.Minute)
		wantCode(t, replicas[1].call(t, late), approval.Expired)
		sleep(time.Minute)
		wantCode(t, replicas[1].call(t, late), approval.Expired)
		if n := len(f.ran()); n != 5 {
			t.Errorf("the tool had %d runs, want one for each call", n)
		}
	})
}
