package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// prompts is an approver that collects prompts.
type prompts struct {
	mu   sync.Mutex
	list []*approval.Prompt

	closed chan struct{}
}

func (p *prompts) approver() approval.Approver {
	return approval.Callback(func(_ context.Context, prompt *approval.Prompt) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = append(p.list, prompt)
	})
}

// closable returns an approver that ends when p.closed is closed.
func (p *prompts) closable() approval.Approver {
	p.closed = make(chan struct{})
	return approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		var waiting sync.WaitGroup
		defer waiting.Wait()
		waiting.Go(func() {
			select {
			case <-p.closed:
				end(approval.ErrClosed)
			case <-ctx.Done():
			}
		})
		defer end(nil)
		return p.approver().Approve(ctx, r)
	})
}

// last returns the last prompt, and how many there are.
func (p *prompts) last() (*approval.Prompt, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == 0 {
		return nil, 0
	}
	return p.list[len(p.list)-1], len(p.list)
}

// taskFixture is a server with a guarded tool.
type taskFixture struct {
	*prompts
	t       testing.TB
	journal *approvaltests.MemoryJournal
	options *approval.Options
	inner   []mcp.Guard // of the tool, after the approval
	passOn  mcp.Handler // of the tool, if it passes calls on and has no function
	runs    atomic.Int32
}

func newTaskFixture(t testing.TB) *taskFixture {
	f := &taskFixture{t: t, prompts: &prompts{}, journal: &approvaltests.MemoryJournal{}}
	f.options = approvaltests.Options(f.journal)
	return f
}

// serve starts a server. A nil approver means the approver of the fixture.
func (f *taskFixture) serve(approver approval.Approver, shared store.Store) *server.Server {
	f.t.Helper()
	if approver == nil {
		approver = f.approver()
	}
	s := server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{
		Logger: approvaltests.Quiet(), Store: shared, Guards: []mcp.Guard{approval.Guard(approvaltests.Asking(), approver, f.options)},
	})
	server.AddTool(s, server.Tool{Name: "write", Guards: f.inner}, func(context.Context, *server.Request, writeIn) (string, error) {
		f.runs.Add(1)
		return "written", nil
	})
	if f.passOn != nil {
		definition := mcp.NewDefinition([]byte(`{"name":"write","inputSchema":{"type":"object"}}`))
		entry := &server.Entry{Target: mcp.Target{Kind: mcp.KindTool, Name: "write", Definition: definition}, Handle: f.passOn, Forwards: true}
		if err := s.Replace(entry); err != nil {
			f.t.Fatal(err)
		}
	}
	f.t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	if err := s.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// newShared returns a store of several servers.
func newShared(t testing.TB) store.Store {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return memory
}

// interrupt shuts a server down, and waits for no call.
func (f *taskFixture) interrupt(s *server.Server) {
	now, cancel := context.WithCancel(f.t.Context())
	cancel()
	if err := s.Shutdown(now); !errors.Is(err, context.Canceled) {
		f.t.Errorf("Shutdown gives %v, want %v", err, context.Canceled)
	}
}

// approves is a user who approves.
func approves(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"decision":"approve"}`)}, nil
}

// dial connects a client, which supports tasks if it is modern.
func (f *taskFixture) dial(s *server.Server, era client.Era) *client.Session {
	f.t.Helper()
	opts := &client.Options{Era: era, CallTimeout: time.Hour}
	if era == client.Modern {
		opts.Capabilities = &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapability{},
			Extensions:  map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
		}
	} else {
		opts.Elicit = approves
	}
	session, err := client.Connect(f.t.Context(), transport.Pipe(s), opts)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { session.Close() })
	return session
}

const writeCall = `{"name":"write","arguments":{"path":"/tmp/a"}}`

// start calls the tool and returns the task.
func (f *taskFixture) start(session *client.Session) string {
	f.t.Helper()
	raw, err := session.Call(f.t.Context(), mcp.MethodToolsCall, json.RawMessage(writeCall), nil)
	var created mcp.Task
	if err != nil || created.UnmarshalJSON(raw) != nil || created.TaskID == "" {
		f.t.Fatalf("the call gives %s, %v, want a task", raw, err)
	}
	f.pass(time.Second) // for the status message
	return created.TaskID
}

func (f *taskFixture) pass(d time.Duration) {
	sleep(d)
	synctest.Wait()
}

func (f *taskFixture) get(session *client.Session, id string) *mcp.Task {
	f.t.Helper()
	f.pass(time.Second)
	raw, err := session.Call(f.t.Context(), mcp.MethodTasksGet, json.RawMessage(`{"taskId":"`+id+`"}`), nil)
	state := new(mcp.Task)
	if err != nil || state.UnmarshalJSON(raw) != nil {
		f.t.Fatalf("the state is %s, %v", raw, err)
	}
	return state
}

// answer accepts the questions of a task, if it has any.
func (f *taskFixture) answer(session *client.Session, id string) {
	f.t.Helper()
	for key := range f.get(session, id).InputRequests {
		answer := `{"taskId":"` + id + `","inputResponses":{"` + key + `":` + `{"action":"accept","content":{"decision":"approve"}}` + `}}`
		if _, err := session.Call(f.t.Context(), mcp.MethodTasksUpdate, json.RawMessage(answer), nil); err != nil {
			f.t.Fatal(err)
		}
		f.pass(time.Second)
	}
}

func (f *taskFixture) wantRuns(want int32) {
	f.t.Helper()
	if got := f.runs.Load(); got != want {
		f.t.Errorf("the tool ran %d times, want %d", got, want)
	}
}

// A call that waits for a person is a task. The result and the journal are the same as for a call without tasks.
func TestWaitingIsATask(t *testing.T) {
	for _, test := range []struct {
		name   string
		decide func(ctx context.Context, p *approval.Prompt) error
		runs   int32
		events []string
	}{
		{"approved", func(ctx context.Context, p *approval.Prompt) error { return p.Accept(ctx) }, 1,
			[]string{"asked", "approved", "executing", "executed"}},
		{"rejected", func(ctx context.Context, p *approval.Prompt) error { return p.Reject(ctx, "not today") }, 0,
			[]string{"asked", "rejected"}},
		{"expired", func(context.Context, *approval.Prompt) error {
			sleep(5 * time.Minute)
			return nil
		}, 0, []string{"asked", "expired"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTaskFixture(t)
				s := f.serve(nil, nil)
				session := f.dial(s, client.Modern)
				id := f.start(session)
				if state := f.get(session, id); state.Status != mcp.TaskWorking || state.StatusMessage != "waiting for approval" {
					t.Errorf("the task waits with %+v", state)
				}
				prompt, n := f.last()
				if n != 1 {
					t.Fatalf("%d requests were made", n)
				}
				if err := test.decide(t.Context(), prompt); err != nil {
					t.Fatal(err)
				}
				state := f.get(session, id)
				if state.Status != mcp.TaskCompleted || state.StatusMessage != "" {
					t.Errorf("the task is %+v", state)
				}
				f.wantRuns(test.runs)
				approvaltests.WantEvents(t, f.journal, test.events...)

				direct := make(chan json.RawMessage)
				without, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: client.Modern, NoTasks: true, CallTimeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				defer without.Close()
				go func() {
					raw, err := without.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(writeCall), nil)
					if err != nil {
						t.Error(err)
					}
					direct <- raw
				}()
				synctest.Wait()
				if prompt, n = f.last(); n != 2 {
					t.Fatalf("%d requests were made", n)
				}
				if err := test.decide(t.Context(), prompt); err != nil {
					t.Fatal(err)
				}
				var want, got mcp.CallToolResult
				if want.UnmarshalJSON(<-direct) != nil || got.UnmarshalJSON(state.Result) != nil || want.IsError != got.IsError || want.Text() != got.Text() ||
					string(want.Meta.Get(mcp.MetaRefusal)) != string(got.Meta.Get(mcp.MetaRefusal)) {
					t.Errorf("the result is %s, without a task %+v", state.Result, want)
				}
			})
		})
	}
}

// Cancelling the task withdraws the request.
func TestCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTaskFixture(t)
		session := f.dial(f.serve(nil, nil), client.Modern)
		id := f.start(session)
		if _, err := session.Call(t.Context(), mcp.MethodTasksCancel, json.RawMessage(`{"taskId":"`+id+`"}`), nil); err != nil {
			t.Fatal(err)
		}
		if state := f.get(session, id); state.Status != mcp.TaskCancelled {
			t.Errorf("the task is %+v", state)
		}
		if prompt, _ := f.last(); !errors.Is(prompt.Accept(t.Context()), approval.ErrWithdrawn) {
			t.Error("the request can still be approved")
		}
		f.wantRuns(0)
		approvaltests.WantEvents(t, f.journal, "asked", "withdrawn")
	})
}

// A call does not become a task if its caller is asked, or if the answer is remembered.
func TestNoTaskWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTaskFixture(t)
		f.options.Remember = time.Hour
		s := f.serve(nil, nil)
		session := f.dial(s, client.Modern)
		id := f.start(session)
		prompt, _ := f.last()
		if err := prompt.Decide(t.Context(), approval.Answer{Approved: true, Remember: time.Hour}); err != nil {
			t.Fatal(err)
		}
		f.get(session, id)
		raw, err := session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(writeCall), nil)
		if err != nil || !strings.Contains(string(raw), "written") {
			t.Errorf("a remembered approval gives %s, %v", raw, err)
		}

		if approval.Guard(approvaltests.Asking(), approval.Quorum(1, approval.Elicitation()), nil).Waits || !approval.Guard(approvaltests.Asking(), approval.Quorum(1, approval.Elicitation(), f.approver()), nil).Waits || approval.Guard(approvaltests.Asking(), nil, nil).Waits {
			t.Error("Guard.Waits is wrong")
		}
		caller := newTaskFixture(t)
		asked, err := client.Connect(t.Context(), transport.Pipe(caller.serve(approval.Elicitation(), nil)), &client.Options{Era: client.Modern, Elicit: approves})
		if err != nil {
			t.Fatal(err)
		}
		defer asked.Close()
		raw, err = asked.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(writeCall), &client.CallOptions{OnTask: func(*mcp.Task) {
			t.Error("the call of a caller who is asked becomes a task")
		}})
		if err != nil || !strings.Contains(string(raw), "written") {
			t.Errorf("the call of a caller who is asked gives %s, %v", raw, err)
		}
	})
}

// A client of 2025-11-25 that asks for a task gets one, whether a person is asked or not.
func TestLegacyTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTaskFixture(t)
		f.options.Remember = time.Hour
		session := f.dial(f.serve(nil, nil), client.Legacy)
		for asked := range 2 {
			raw, err := session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(strings.Replace(writeCall, "{", `{"task":{},`, 1)), nil)
			var created struct{ Task struct{ TaskID string } }
			if err != nil || json.Unmarshal(raw, &created) != nil || created.Task.TaskID == "" {
				t.Fatalf("the call gives %s, %v, want a task", raw, err)
			}
			f.pass(time.Second)
			if prompt, n := f.last(); n != 1 {
				t.Errorf("%d requests were made", n)
			} else if asked == 0 {
				if err := prompt.Decide(t.Context(), approval.Answer{Approved: true, Remember: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
			raw, err = session.Call(t.Context(), mcp.MethodTasksResult, json.RawMessage(`{"taskId":"`+created.Task.TaskID+`"}`), nil)
			if err != nil || !strings.Contains(string(raw), "written") {
				t.Errorf("the result is %s, %v", raw, err)
			}
		}
		f.wantRuns(2)
	})
}

// A Quorum asks the caller and others, all within the task.
func TestQuorumInATask(t *testing.T) {
	for _, replicas := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newTaskFixture(t)
			if replicas {
				f.options.Store = newShared(t)
			}
			session := f.dial(f.serve(approval.Quorum(2, approval.Elicitation(), f.approver()), nil), client.Modern)
			id := f.start(session)
			state := f.get(session, id)
			if len(state.InputRequests) != 1 {
				t.Fatalf("the task asks with %+v", state)
			}
			f.answer(session, id)
			f.pass(time.Second)
			prompt, n := f.last()
			if n != 1 {
				t.Fatalf("%d requests were made", n)
			}
			if err := prompt.Accept(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state := f.get(session, id); state.Status != mcp.TaskCompleted {
				t.Errorf("the task is %+v", state)
			}
			f.wantRuns(1)
		})
	}
}

// cutStore is the store of a replica that loses its connection.
type cutStore struct {
	store.Store
	cut atomic.Bool
}

func (s *cutStore) Extend(ctx context.Context, job *store.Job) error {
	if s.cut.Load() {
		return errors.New("the store is down")
	}
	return s.Store.Extend(ctx, job)
}

func (s *cutStore) Pull(ctx context.Context, queue string) (*store.Job, error) {
	job, err := s.Store.Pull(ctx, queue)
	if s.cut.Load() && err == nil {
		_ = s.Nak(context.WithoutCancel(ctx), job, 0)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return job, err
}

// A request survives the replica that waits for its answer: the next replica finds it, with the same id.
// The tool runs once, whichever of the two gets an answer.
func TestRequestSurvivesReplica(t *testing.T) {
	for _, how := range []string{"shut down", "approver closed", "hangs", "hangs and is answered"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTaskFixture(t)
				shared := newShared(t)
				f.options.Store, f.options.Expiry = shared, time.Hour
				connection := &cutStore{Store: shared}
				first := f.serve(f.closable(), connection)
				id := f.start(f.dial(first, client.Modern))
				asked, n := f.last()
				if n != 1 {
					t.Fatalf("%d requests were made", n)
				}
				connection.cut.Store(true)
				if how == "approver closed" {
					close(f.closed)
					synctest.Wait()
				}
				if how == "shut down" || how == "approver closed" {
					f.interrupt(first)
				}
				session := f.dial(f.serve(nil, shared), client.Modern)
				f.pass(5 * time.Minute)
				again, n := f.last()
				if n != 2 || again.ID != asked.ID || again.Digest() != asked.Digest() {
					t.Fatalf("%d requests were made, with the ids %q and %q", n, asked.ID, again.ID)
				}
				if how == "hangs and is answered" {
					_ = asked.Accept(t.Context()) // too late: the other replica has the request
					synctest.Wait()
					f.wantRuns(0)
				}
				if err := again.Accept(t.Context()); err != nil {
					t.Fatal(err)
				}
				if state := f.get(session, id); state.Status != mcp.TaskCompleted || !strings.Contains(string(state.Result), "written") {
					t.Errorf("the task is %+v %s", state, state.Result)
				}
				f.wantRuns(1)
				if executed := count(f.journal.Events(), "executing"); executed != 1 {
					t.Errorf("the journal has %v", f.journal.Events())
				}
			})
		})
	}
}

// An approved call whose function has not begun when its server shuts down is executed by another replica, without
// another question.
func TestApprovalSurvivesShutdown(t *testing.T) {
	interrupted := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	slow := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			_ = interrupted(ctx)
			return next(ctx, call)
		}
	}
	for name, test := range map[string]struct {
		approver approval.Approver                  // of the first replica; default the person
		inner    func(next mcp.Handler) mcp.Handler // of the first replica
		second   func(*prompts) approval.Approver   // of a guard between the approval and inner, at both replicas
		paused   int                                // how often the call is paused
	}{
		"the next guard takes long": {inner: slow, paused: 1},
		"the next guard fails": {inner: func(mcp.Handler) mcp.Handler {
			return func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) { return nil, interrupted(ctx) }
		}, paused: 1},
		"another person is asked":            {second: (*prompts).approver, paused: 1},
		"the caller has answered a question": {second: func(*prompts) approval.Approver { return approval.Elicitation() }, inner: slow, paused: 2},
		"approved during the shutdown": {approver: approval.ApproverFunc(func(ctx context.Context, _ *approval.Request) (approval.Answer, error) {
			_ = interrupted(ctx)
			return approval.Answer{Approved: true}, nil
		}), paused: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTaskFixture(t)
				shared := newShared(t)
				f.options.Store, f.options.Expiry = shared, time.Hour
				var others prompts
				if test.second != nil {
					other := approvaltests.Options(nil)
					other.Name, other.Store, other.Expiry = "other", shared, time.Hour
					f.inner = append(f.inner, approval.Guard(approvaltests.Asking(), test.second(&others), other))
				}
				common := f.inner
				if test.inner != nil {
					f.inner = append(slices.Clip(f.inner), mcp.Guard{Name: "inner", Run: test.inner})
				}
				first := f.serve(test.approver, shared)
				caller := f.dial(first, client.Modern)
				id := f.start(caller)
				requests := 0
				if asked, _ := f.last(); asked != nil {
					requests = 1
					if err := asked.Accept(t.Context()); err != nil {
						t.Fatal(err)
					}
					f.pass(time.Second)
				}
				f.answer(caller, id)
				f.interrupt(first)

				f.inner = common
				session := f.dial(f.serve(nil, shared), client.Modern)
				f.pass(5 * time.Minute)
				if asked, _ := others.last(); asked != nil {
					if err := asked.Accept(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if state := f.get(session, id); state.Status != mcp.TaskCompleted || !strings.Contains(string(state.Result), "written") {
					t.Errorf("the task is %+v %s", state, state.Result)
				}
				f.wantRuns(1)
				if _, n := f.last(); n != requests {
					t.Errorf("%d requests were made, want %d", n, requests)
				}
				want := []string{"asked", "approved", "executing"}
				for range test.paused {
					want = append(want, "paused", "resumed")
				}
				approvaltests.WantEvents(t, f.journal, append(want, "executed")...)
			})
		})
	}
}

func count(events []string, of string) int {
	return len(slices.DeleteFunc(events, func(e string) bool { return e != of }))
}

// A background is the responder of a call that runs as a task.
type background struct{ *approvaltests.Exchange }

func (background) TaskID() string { return "task" }

// If a replica is killed while a tool runs, the task of the call begins again. The tool does not run again, whether the
// approver has answered or the approval was remembered.
func TestExecutedTaskIsNotRepeated(t *testing.T) {
	person := approvaltests.Says(approvaltests.YesFor(time.Hour), nil)
	for _, test := range []struct {
		name       string
		approver   approval.Approver
		remembered bool
	}{
		{"answered", person, false},
		{"remembered", person, true},
		{"remembered before the approver was replaced", approval.Elicitation(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &approvaltests.Tool{}
				o := approvaltests.Options(nil)
				o.Store, o.Remember = newShared(t), time.Hour
				replicas := []mcp.Handler{approvaltests.Gated(f, test.approver, o), approvaltests.Gated(f, test.approver, o)}
				want := 1
				if test.remembered {
					want = 2
					if _, err := approvaltests.Gated(f, person, o)(t.Context(), approvaltests.NewCall(t, "anna", "write", `{}`, approvaltests.AnotherExchange())); err != nil {
						t.Fatal(err)
					}
				}
				hangs := make(chan struct{})
				f.Then = func(context.Context, *mcp.Call) (mcp.Result, error) {
					<-hangs // as if it was killed: nothing of it happens
					return nil, errors.New("killed")
				}
				e := background{approvaltests.AnotherExchange()}
				var killed sync.WaitGroup
				killed.Go(func() { _, _ = replicas[0](t.Context(), approvaltests.NewCall(t, "anna", "write", `{}`, e)) })
				synctest.Wait()
				f.Then = nil
				_, err := replicas[1](t.Context(), approvaltests.NewCall(t, "anna", "write", `{}`, e))
				approvaltests.WantCode(t, err, approval.Spent)
				approvaltests.WantCalled(t, err, true)
				close(hangs)
				killed.Wait()
				if n := len(f.Ran()); n != want {
					t.Errorf("the tool ran %d times, want %d", n, want)
				}
			})
		})
	}
}

// If a replica is killed while it passes an approved call on, the next one does not pass it on again. The task fails, and the operator
// sees that it was abandoned.
func TestPassedOnCallIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTaskFixture(t)
		shared := newShared(t)
		f.options.Store, f.options.Expiry = shared, time.Hour
		hangs := make(chan struct{})
		f.passOn = func(context.Context, *mcp.Call) (mcp.Result, error) {
			f.runs.Add(1)
			<-hangs // as if the replica was killed
			return nil, errors.New("killed")
		}
		connection := &cutStore{Store: shared}
		id := f.start(f.dial(f.serve(nil, connection), client.Modern))
		asked, _ := f.last()
		if err := asked.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.wantRuns(1)
		connection.cut.Store(true)
		second := f.serve(nil, shared)
		session := f.dial(second, client.Modern)
		f.pass(5 * time.Minute)
		if state := f.get(session, id); !strings.Contains(string(state.Result), string(approval.Spent)) {
			t.Errorf("the task is %+v %s", state, state.Result)
		}
		if got := second.Stats(); got.LapsedLeases != 1 || got.RepeatedAttempts != 1 || got.AbandonedTasks != 1 {
			t.Errorf("the operator sees %+v", got)
		}
		close(hangs)
		synctest.Wait()
		f.wantRuns(1)
	})
}

// Without a store of approvals, a request ends with its replica. The call has not begun, and asks again at the next
// one.
func TestWithoutStoreATaskAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTaskFixture(t)
		shared := newShared(t)
		first := f.serve(nil, shared)
		id := f.start(f.dial(first, client.Modern))
		f.interrupt(first)
		session := f.dial(f.serve(nil, shared), client.Modern)
		f.pass(time.Minute)
		if state := f.get(session, id); state.Status != mcp.TaskWorking {
			t.Errorf("the task is %+v", state)
		}
		asked, n := f.last()
		if n != 2 {
			t.Fatalf("%d requests were made", n)
		}
		f.wantRuns(0)
		if err := asked.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		if state := f.get(session, id); state.Status != mcp.TaskCompleted {
			t.Errorf("the approved task is %+v", state)
		}
		f.wantRuns(1)
	})
}
