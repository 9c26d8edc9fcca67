package approvaltests

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
	journal *MemoryJournal
	options *approval.Options
}

// newReplicas returns replicas of a tool.
func (s Suite) newReplicas(t *testing.T, n int, f *Tool, approver approval.Approver) []*replica {
	t.Helper()
	shared, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	replicas := make([]*replica, n)
	for i := range replicas {
		r := &replica{store: &failingStore{Store: shared}, journal: &MemoryJournal{}}
		r.options = Options(r.journal)
		r.options.Store, r.options.Replica = r.store, fmt.Sprint("replica-", i)
		r.invoke = s.gated(f, approver, r.options)
		replicas[i] = r
	}
	return replicas
}

// call makes one run of a call.
func (r *replica) call(t *testing.T, e *Exchange) error {
	t.Helper()
	_, err := r.invoke(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
	return err
}

// WantAsks checks that a run asks the caller, and answers the question.
func WantAsks(t *testing.T, e *Exchange, err error, answer string) {
	t.Helper()
	asked, ok := mcp.AsInputRequired(err)
	if !ok {
		t.Fatalf("the run ended with %v, want a question", err)
	}
	for key := range asked.Requests {
		e.Answers[key] = json.RawMessage(answer)
	}
}

// questioningTool returns a tool that asks its caller some questions, one in each run.
func questioningTool(questions int) *Tool {
	return &Tool{Then: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
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
func (s Suite) TestContinuedAtAnotherReplica(t *testing.T) {
	f := questioningTool(2)
	replicas := s.newReplicas(t, 3, f, approval.Elicitation())
	n := s.many(300)
	for i := range n {
		e := NewExchange(fmt.Sprint("call-", i))
		var replays []*Exchange
		for run := range 3 {
			WantAsks(t, e, replicas[(i+run*(1+i/3%2))%3].call(t, e), acceptedForm)
			replays = append(replays, e.Copy())
		}
		if err := replicas[i/3%3].call(t, e); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		for _, replay := range replays {
			for _, r := range replicas {
				WantCode(t, r.call(t, replay), approval.Spent)
			}
		}
	}
	if runs := len(f.Ran()); runs != 3*n {
		t.Errorf("the tool had %d runs, want 3 for each of %d calls", runs, n)
	}
}

// A call that waits for its caller counts as open at the replica that has asked, until it is continued or ends.
func (s Suite) TestPausedCallsAreOpen(t *testing.T) {
	for name, after := range map[string]struct {
		then func(t *testing.T, replicas []*replica, e *Exchange)
		open bool
	}{
		"nothing": {func(*testing.T, []*replica, *Exchange) {}, true},
		"continued at the same replica": {func(t *testing.T, replicas []*replica, e *Exchange) {
			if err := replicas[0].call(t, e); err != nil {
				t.Error(err)
			}
		}, false},
		"continued at another replica": {func(t *testing.T, replicas []*replica, e *Exchange) {
			if err := replicas[1].call(t, e); err != nil {
				t.Error(err)
			}
		}, false},
		"the caller has left": {func(_ *testing.T, _ []*replica, e *Exchange) {
			for _, done := range e.Done {
				done()
			}
		}, false},
		"the time has ended":     {func(*testing.T, []*replica, *Exchange) { sleep(5 * time.Minute) }, false},
		"the store is then away": {func(_ *testing.T, replicas []*replica, _ *Exchange) { replicas[0].store.down.Store(true) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := questioningTool(1)
				replicas := s.newReplicas(t, 2, f, Says(yes, nil))
				replicas[0].options.MaxPerCaller = 1
				replicas[0].invoke = s.gated(f, Says(yes, nil), replicas[0].options)
				first := NewExchange("first")
				WantAsks(t, first, replicas[0].call(t, first), `{"action":"accept"}`)
				after.then(t, replicas, first)
				second := NewExchange("second")
				if err := replicas[0].call(t, second); after.open {
					WantCode(t, err, approval.TooMany)
				} else {
					WantAsks(t, second, err, `{"action":"accept"}`)
				}
			})
		})
	}
}

// The journal of each replica has its runs of a call.
func (s Suite) TestJournalsOfReplicas(t *testing.T) {
	replicas := s.newReplicas(t, 3, questioningTool(1), approval.Elicitation())
	var paths []string
	for i, r := range replicas {
		paths = append(paths, filepath.Join(t.TempDir(), "journal"))
		journal, err := approval.OpenJournal(paths[i], Quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer journal.Close()
		r.journal.Fails = journal.Append
	}
	e := NewExchange("call")
	WantAsks(t, e, replicas[0].call(t, e), acceptedForm)
	WantAsks(t, e, replicas[1].call(t, e), `{"action":"accept"}`)
	if err := replicas[2].call(t, e); err != nil {
		t.Fatal(err)
	}
	WantEvents(t, replicas[0].journal, "asked", "paused")
	WantEvents(t, replicas[1].journal, "asked", "approved", "executing", "paused")
	WantEvents(t, replicas[2].journal, "resumed", "executed")
	for i, r := range replicas {
		for _, entry := range r.journal.Entries {
			if entry.Replica != fmt.Sprint("replica-", i) || entry.ID != replicas[0].journal.Entries[0].ID {
				t.Errorf("replica %d has the entry %+v", i, entry)
			}
		}
		if first := r.journal.Entries[0]; first.Caller != "anna" || first.Tool != "write" || first.Deadline.IsZero() {
			t.Errorf("the first entry of replica %d is %+v", i, first)
		}
		if summary, err := approval.Verify(paths[i]); err != nil || len(summary.Open) != 0 {
			t.Errorf("the journal of replica %d: %+v, %v", i, summary, err)
		}
	}
}

// If all replicas get the same answer at the same time, one continues the call.
func (s Suite) TestContinuedOnce(t *testing.T) {
	f := questioningTool(1)
	replicas := s.newReplicas(t, 3, f, Says(yes, nil))
	for i := range s.many(200) {
		e := NewExchange(fmt.Sprint("call-", i))
		WantAsks(t, e, replicas[i%3].call(t, e), `{"action":"accept"}`)
		before := len(f.Ran())
		errs := make([]error, len(replicas))
		var running sync.WaitGroup
		for j, r := range replicas {
			copied := e.Copy()
			running.Go(func() { errs[j] = r.call(t, copied) })
		}
		running.Wait()
		if n := len(f.Ran()) - before; n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
		if i := slices.Index(errs, nil); i < 0 {
			t.Errorf("no replica has continued the call: %v", errs)
		} else {
			errs = slices.Delete(errs, i, i+1)
		}
		for _, err := range errs {
			WantCode(t, err, approval.Spent)
		}
	}
}

// A call that was running when its replica was killed is not continued anywhere.
func (s Suite) TestKilledDuringARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := questioningTool(1)
		replicas := s.newReplicas(t, 2, f, Says(yes, nil))
		e := NewExchange("call")
		WantAsks(t, e, replicas[0].call(t, e), `{"action":"accept"}`)
		asks, hangs := f.Then, make(chan struct{})
		f.Then = func(context.Context, *mcp.Call) (mcp.Result, error) {
			<-hangs // as if it was killed: nothing of it happens
			return nil, errors.New("killed")
		}
		var killed sync.WaitGroup
		killed.Go(func() { _ = replicas[0].call(t, e.Copy()) })
		synctest.Wait()
		f.Then = asks
		WantCode(t, replicas[1].call(t, e), approval.Spent)
		close(hangs)
		killed.Wait()
		if n := len(f.Ran()); n != 2 {
			t.Errorf("the tool had %d runs, want the two of one execution", n)
		}
	})
}

// While the store is down, calls that ask their caller fail, and others run. Then everything works
// as before.
func (s Suite) TestStoreIsDown(t *testing.T) {
	f := questioningTool(1)
	r := s.newReplicas(t, 1, f, Says(yes, nil))[0]
	wantUnreachable := func(err error) {
		t.Helper()
		WantCode(t, err, approval.Failed)
		WantCalled(t, err, true)
		if err == nil || !strings.Contains(err.Error(), "the store of the approvals cannot be reached") || !errors.Is(err, errDown) {
			t.Errorf("the error is %v", err)
		}
	}
	r.store.down.Store(true)
	wantUnreachable(r.call(t, NewExchange("a")))
	WantEvents(t, r.journal, "asked", "approved", "executing", "failed")
	answered := NewExchange("b")
	answered.Answers["question 0"] = json.RawMessage(`{"action":"accept"}`)
	if err := r.call(t, answered); err != nil {
		t.Errorf("a call that does not ask: %v", err)
	}
	r.store.down.Store(false)
	e := NewExchange("c")
	WantAsks(t, e, r.call(t, e), `{"action":"accept"}`)
	r.store.down.Store(true)
	wantUnreachable(r.call(t, e.Copy()))
	r.store.down.Store(false)
	if err := r.call(t, e); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

// A call that has changed, is too late, or whose caller has disconnected is not continued.
func (s Suite) TestNotContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := questioningTool(1)
		replicas := s.newReplicas(t, 2, f, Says(yes, nil))
		paused := func(id string) *Exchange {
			e := NewExchange(id)
			WantAsks(t, e, replicas[0].call(t, e), `{"action":"accept"}`)
			return e
		}
		calls := 4
		if !s.Carried {
			calls++
			changed := paused("changed")
			_, err := replicas[1].invoke(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/b"}`, changed))
			WantCode(t, err, approval.Changed)
			WantCode(t, replicas[1].call(t, changed), approval.Spent)
		}
		other := paused("other")
		_, err := replicas[1].invoke(t.Context(), NewCall(t, "eve", "write", `{"path":"/tmp/a"}`, other))
		WantCode(t, err, approval.Changed)
		compiled, err := policy.Compile(Rules("dangerous", ""))
		if err != nil {
			t.Fatal(err)
		}
		restarted := s.Guarded(approval.Guard(compiled, Says(yes, nil), replicas[1].options), f.Invoke)
		_, err = restarted(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, paused("another rule")))
		WantCode(t, err, approval.Changed)
		gone := paused("gone")
		for _, fn := range gone.Done {
			fn()
		}
		WantCode(t, replicas[1].call(t, gone), approval.Spent)
		late := paused("late")
		sleep(5 * time.Minute)
		WantCode(t, replicas[1].call(t, late), approval.Expired)
		sleep(time.Minute)
		WantCode(t, replicas[1].call(t, late), approval.Expired)
		if n := len(f.Ran()); n != calls {
			t.Errorf("the tool had %d runs, want one for each call", n)
		}
	})
}
