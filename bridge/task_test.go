package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// newWorker returns a server with tools that may run as tasks. greet asks for a name and counts its ends. plain returns
// whether it runs as a task.
func newWorker(t testing.TB, done *int) *server.Server {
	s := newServer("worker")
	server.AddTool(s, server.Tool{Name: "greet", Task: server.TaskOptional}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		name, err := server.Elicit[string](r, "name", "Name?")
		if err != nil {
			return "", err
		}
		*done++
		return "hello " + name, nil
	})
	server.AddTool(s, server.Tool{Name: "plain", Task: server.TaskOptional}, func(_ context.Context, r *server.Request, _ struct{}) (bool, error) {
		return r.Call().TaskID() != "", nil
	})
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

var taskCapabilities = mcp.ClientCapabilities{
	Elicitation: &mcp.ElicitationCapability{},
	Extensions:  map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
}

// A taskUser is a client that starts tasks and finishes them with the methods of its era.
type taskUser struct {
	*client.Session
	t     testing.TB
	era   client.Era
	asked []string // the messages of questions
}

func useTasks(t testing.TB, to transport.Dialer, era client.Era) *taskUser {
	u := &taskUser{t: t, era: era}
	opts := client.Options{Era: era, CallTimeout: time.Hour}
	if era == client.Modern {
		opts.Capabilities = &taskCapabilities
	} else {
		opts.Elicit = func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			u.asked = append(u.asked, p.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":"Ann"}`)}, nil
		}
	}
	u.Session = connect(t, to, opts)
	return u
}

func (u *taskUser) call(method, params string) (json.RawMessage, error) {
	return u.Call(u.t.Context(), method, json.RawMessage(params), nil)
}

// start calls a tool and returns the id of the task.
func (u *taskUser) start(tool string) string {
	u.t.Helper()
	task := ""
	if u.era == client.Legacy {
		task = `,"task":{}`
	}
	raw, err := u.call(mcp.MethodToolsCall, `{"name":"`+tool+`","arguments":{}`+task+`}`)
	if err != nil {
		u.t.Fatal(err)
	}
	var fields struct {
		TaskID     string
		ResultType string
		Task       struct{ TaskID string }
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		u.t.Fatal(err)
	}
	id := fields.TaskID
	if u.era == client.Legacy {
		id = fields.Task.TaskID
	} else if fields.ResultType != "task" {
		u.t.Fatalf("the result is %s, want a task", raw)
	}
	if id == "" {
		u.t.Fatalf("the result is %s, want a task", raw)
	}
	return id
}

func (u *taskUser) get(id string) *mcp.Task {
	u.t.Helper()
	raw, err := u.call(mcp.MethodTasksGet, `{"taskId":"`+id+`"}`)
	if err != nil {
		u.t.Fatal(err)
	}
	state := new(mcp.Task)
	if err := state.UnmarshalJSON(raw); err != nil {
		u.t.Fatal(err)
	}
	if state.TaskID != id {
		u.t.Fatalf("the state of %q has the id %q", id, state.TaskID)
	}
	return state
}

// finish answers the questions of a task and returns its last state, with the result.
func (u *taskUser) finish(id string) *mcp.Task {
	u.t.Helper()
	if u.era == client.Legacy {
		raw, err := u.call(mcp.MethodTasksResult, `{"taskId":"`+id+`"}`)
		if err != nil {
			u.t.Fatal(err)
		}
		state := u.get(id)
		state.Result = raw
		return state
	}
	for {
		state := u.get(id)
		if state.Status.Ended() {
			return state
		}
		for key, question := range state.InputRequests {
			var params mcp.ElicitParams
			if err := params.UnmarshalJSON(question.Params); err != nil {
				u.t.Fatal(err)
			}
			u.asked = append(u.asked, params.Message)
			if _, err := u.call(mcp.MethodTasksUpdate, `{"taskId":"`+id+`","inputResponses":{"`+key+`":{"action":"accept","content":{"value":"Ann"}}}}`); err != nil {
				u.t.Fatal(err)
			}
		}
		advance(time.Second)
	}
}

func (u *taskUser) wantUnknown(id string) {
	u.t.Helper()
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksCancel} {
		_, err := u.call(method, `{"taskId":"`+id+`"}`)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.InvalidParams || !strings.Contains(e.Message, "there is no such task") {
			u.t.Errorf("%s gives %v, want an unknown task", method, err)
		}
	}
}

// A call becomes a task of the server behind the bridge, or of the bridge where one of them speaks
// 2025-11-25. The user is asked once, and sees which server asks.
func TestTasksInAllEras(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			done := 0
			b := bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: dialerTo(newWorker(t, &done)).speaks(behind)})
			user := useTasks(t, pipeTo(mount(t, b)), caller)
			state := user.finish(user.start("w__greet"))
			if state.Status != mcp.TaskCompleted || !strings.Contains(string(state.Result), "hello Ann") || done != 1 {
				t.Errorf("the task is %s with %s after %d calls", state.Status, state.Result, done)
			}
			if len(user.asked) != 1 || user.asked[0] != "w: Name?" {
				t.Errorf("the questions are %q", user.asked)
			}
		})
	})
}

// A client that subscribes to a task is notified of its changes. The task belongs to the server behind the bridge or,
// if that speaks 2025-11-25, to the bridge. The last notification has the result.
func TestSubscribersOfTasks(t *testing.T) {
	for name, behind := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done, working, release := 0, make(chan struct{}), make(chan struct{})
				worker := newWorker(t, &done)
				server.AddTool(worker, server.Tool{Name: "bake", Task: server.TaskOptional}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
					<-working
					if err := r.Progress(ctx, 1, 2, "in the oven"); err != nil {
						return "", err
					}
					<-release
					return "bread", nil
				})
				frontend := mount(t, bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: dialerTo(worker).speaks(behind)}))
				var changes atomic.Int32
				var id string
				session := connect(t, pipeTo(as{frontend, "ann"}), client.Options{Era: client.Modern, Capabilities: &taskCapabilities, OnChange: func(_ context.Context, change mcp.Change) {
					if change.TaskID != id {
						t.Errorf("the change is %+v", change)
					}
					changes.Add(1)
				}})
				user := &taskUser{Session: session, t: t, era: client.Modern}
				id = user.start("w__bake")
				sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{id, "unknown"}})
				if err != nil {
					t.Fatal(err)
				}
				if agreed := sub.Agreed().TaskIDs; len(agreed) != 1 || agreed[0] != id {
					t.Fatalf("the subscription has the tasks %q", agreed)
				}
				other := connect(t, pipeTo(as{frontend, "bob"}), client.Options{Era: client.Modern, Capabilities: &taskCapabilities})
				if sub, err := other.Subscribe(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{id}}); err != nil || len(sub.Agreed().TaskIDs) != 0 {
					t.Errorf("the subscription of another principal has %q, %v", sub.Agreed().TaskIDs, err)
				}
				advance(3 * time.Second)
				changes.Store(0) // behind 2025-11-25, the task has begun
				close(working)
				advance(3 * time.Second)
				if n := changes.Load(); n == 0 {
					t.Error("the progress was not notified")
				}
				changes.Store(0)
				close(release)
				advance(3 * time.Second)
				if n := changes.Load(); n == 0 {
					t.Error("the end was not notified")
				}
				if state := user.get(id); state.Status != mcp.TaskCompleted || !strings.Contains(string(state.Result), "bread") {
					t.Errorf("the task is %+v", state)
				}
			})
		})
	}
}

// A client that does not support tasks gets results.
func TestNoTasksWithoutCapability(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			b := bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: dialerTo(newWorker(t, new(int))).speaks(behind)})
			session := connect(t, pipeTo(mount(t, b)), client.Options{Era: caller, NoTasks: true})
			result, err := session.CallTool(t.Context(), "w__plain", struct{}{}, nil)
			if err != nil || result.Text() != "false" {
				t.Errorf("the result is %v, %v", result, err)
			}
			if text, err := b.CallTool(t.Context(), "w__plain", nil); err != nil || text.Text() != "false" {
				t.Errorf("CallTool gives %v, %v", text, err)
			}
		})
	})
}

// bridgeOf returns a bridge to be mounted.
func bridgeOf(t testing.TB, opts *bridge.Options, configs ...bridge.Config) *bridge.Bridge {
	t.Helper()
	if opts == nil {
		opts = &bridge.Options{}
	}
	opts.Logger = quiet()
	b, err := bridge.New(opts, configs...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withKeys returns a started server with a provider under a prefix, and with fixed keys.
func withKeys(t testing.TB, p server.Provider, key string, prefix string) *server.Server {
	t.Helper()
	frontend := server.New(mcp.Implementation{Name: "frontend", Version: "1"}, &server.Options{Logger: quiet(), StateKeys: [][]byte{[]byte(strings.Repeat(key, 32))}})
	if err := frontend.Mount(p, &server.MountOptions{Prefix: prefix}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frontend.Shutdown(context.Background()) })
	if err := frontend.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return frontend
}

// The id for the client is valid for its principal and for its entry only, while the principal sees the
// entry. It survives the bridge.
func TestTaskIDsAreBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, hidden := 0, false
		worker, other := newWorker(t, &done), newWorker(t, new(int))
		var target *mcp.Target
		opts := func() *bridge.Options {
			return &bridge.Options{Guards: []mcp.Guard{{
				Name: "g", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return !hidden },
				Check: func(_ context.Context, call *mcp.Call) error {
					target = call.Target()
					return nil
				},
			}}}
		}
		b := bridgeOf(t, opts(), bridge.Config{Alias: "w", Dialer: pipeTo(worker)}, bridge.Config{Alias: "v", Dialer: pipeTo(other)})
		frontend := withKeys(t, b, "k", "x_")
		ann := useTasks(t, pipeTo(as{frontend, "ann"}), client.Modern)
		id := ann.start("x_w__greet")
		if target.Name != "w__greet" || target.Origin.Server != "w" || target.Origin.Name != "greet" {
			t.Errorf("the guard saw %+v", target)
		}
		ann.get(id)

		useTasks(t, pipeTo(as{frontend, "bob"}), client.Modern).wantUnknown(id)
		ann.wantUnknown(id[:len(id)-2] + "__")
		ann.wantUnknown("")
		useTasks(t, pipeTo(as{withKeys(t, bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: pipeTo(worker)}), "q", "x_"), "ann"}), client.Modern).wantUnknown(id)
		hidden = true
		ann.wantUnknown(id)
		hidden = false

		// another bridge with the same keys, whose server has another origin
		thief := &fakeServer{era: client.Modern, answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			if req.Method == mcp.MethodToolsList {
				return `{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}`, nil
			}
			if req.Method != mcp.MethodSubscriptionsListen {
				t.Errorf("another server got %s with %s", req.Method, req.Params)
			}
			return "", nil
		}}
		swapped := bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: pipeTo(thief), ProxyOptions: bridge.ProxyOptions{Launch: "other"}})
		useTasks(t, pipeTo(as{withKeys(t, swapped, "k", "x_"), "ann"}), client.Modern).wantUnknown(id)

		restarted := bridgeOf(t, opts(), bridge.Config{Alias: "w", Dialer: pipeTo(worker)})
		later := useTasks(t, pipeTo(as{withKeys(t, restarted, "k", "x_"), "ann"}), client.Modern)
		if state := later.finish(id); !strings.Contains(string(state.Result), "hello Ann") || done != 1 {
			t.Errorf("after a restart the task is %+v", state)
		}

		if err := b.Update(bridge.Config{Alias: "v", Dialer: pipeTo(other)}); err != nil {
			t.Fatal(err)
		}
		ann.wantUnknown(id) // the entry is gone
	})
}

// A task passes through two bridges. Cancelling it cancels it at its server.
func TestTasksOfNestedBridges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := 0
		worker := newWorker(t, &done)
		server.AddTool(worker, server.Tool{Name: "wait", Task: server.TaskRequired}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		inner := mount(t, bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: pipeTo(worker)}))
		user := useTasks(t, pipeTo(mount(t, bridgeOf(t, nil, bridge.Config{Alias: "b", Dialer: pipeTo(inner)}))), client.Modern)
		if state := user.finish(user.start("b__w__greet")); !strings.Contains(string(state.Result), "hello Ann") {
			t.Errorf("the task is %+v", state)
		}
		if len(user.asked) != 1 || user.asked[0] != "b: w: Name?" {
			t.Errorf("the questions are %q", user.asked)
		}
		id := user.start("b__w__wait")
		if _, err := user.call(mcp.MethodTasksCancel, `{"taskId":"`+id+`"}`); err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		if state := user.get(id); state.Status != mcp.TaskCancelled {
			t.Errorf("the task is %+v", state)
		}
	})
}

// taskServer returns a modern server whose only tool answers with a task.
func taskServer(answer func(req *jsonrpc.Request) string) *fakeServer {
	return &fakeServer{
		era: client.Modern, capabilities: `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			if req.Method == mcp.MethodToolsList {
				return `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, nil
			}
			text := answer(req)
			if strings.HasPrefix(text, "-") {
				return "", &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: text}
			}
			return text, nil
		},
	}
}

const taskTimes = `"createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z"`

// The server's description of its task arrives unchanged, except for the id and the label in questions.
func TestTaskBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		b := bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: pipeTo(taskServer(func(req *jsonrpc.Request) string {
			if req.Method == mcp.MethodSubscriptionsListen {
				return ""
			}
			seen = append(seen, req.Method+" "+string(req.Member("taskId"))+string(req.Member("inputResponses")))
			switch {
			case req.Method == mcp.MethodToolsCall:
				return `{"taskId":"secret","status":"working",` + taskTimes + `,"ttlMs":null,"more":{"n":1.50},"resultType":"task"}`
			case req.Method != mcp.MethodTasksGet:
				return `{"ok":1.0}`
			case len(seen) == 2:
				return `{"taskId":"secret" , "status":"input_required",` + taskTimes + `,"ttlMs":1e3,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"Q","n":1.0}},"r":{"method":"roots/list"}}}`
			}
			return `{"status":"completed","taskId":"secret",` + taskTimes + `,"ttlMs":1e3,"result":{"content":[],"taskId":"secret","n":1.0}}`
		}))})
		user := useTasks(t, pipeTo(mount(t, b)), client.Modern)
		raw, err := user.call(mcp.MethodToolsCall, `{"name":"w__t"}`)
		var created mcp.Task
		if err != nil || created.UnmarshalJSON(raw) != nil || created.TaskID == "secret" || !strings.Contains(string(raw), `"more":{"n":1.50}`) {
			t.Fatalf("the task is %s, %v", raw, err)
		}
		id := created.TaskID
		for _, test := range []struct{ method, params, want string }{
			{mcp.MethodTasksGet, `{"taskId":"ID"}`, `"taskId":"ID" , "status":"input_required",` + taskTimes + `,"ttlMs":1e3,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"w: Q","n":1.0}},"r":{"method":"roots/list"}}`}, // and the _meta of this hop
			{mcp.MethodTasksUpdate, `{"taskId":"ID","inputResponses":{"k":{"action":"accept","n":1.0}}}`, `"ok":1.0`},
			{mcp.MethodTasksGet, `{"taskId":"ID"}`, `"status":"completed","taskId":"ID",` + taskTimes + `,"ttlMs":1e3,"result":{"content":[],"taskId":"secret","n":1.0}`},
			{mcp.MethodTasksCancel, `{"taskId":"ID"}`, `"ok":1.0`},
		} {
			raw, err := user.call(test.method, strings.ReplaceAll(test.params, "ID", id))
			if want := strings.ReplaceAll(test.want, "ID", id); err != nil || !strings.Contains(string(raw), want) {
				t.Errorf("%s gives %s, %v\nwant %s", test.method, raw, err, want)
			}
		}
		if want := `tools/call , tasks/get "secret", tasks/update "secret"{"k":{"action":"accept","n":1.0}}, tasks/get "secret", tasks/cancel "secret"`; strings.Join(seen, ", ") != want {
			t.Errorf("the server got %q", seen)
		}
	})
}

// A server cannot ask more often by a task than by other calls.
func TestQuestionsOfTasksAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		config := bridge.Config{Alias: "w", Dialer: pipeTo(taskServer(func(req *jsonrpc.Request) string {
			if req.Method == mcp.MethodToolsCall {
				return `{"taskId":"secret","status":"working",` + taskTimes + `,"ttlMs":null,"resultType":"task"}`
			}
			return fmt.Sprintf(`{"taskId":"secret","status":"input_required",%s,"ttlMs":1000,"inputRequests":{"%d":{"method":"elicitation/create","params":{"message":"Q"}}}}`, taskTimes, asked.Load()/2)
		}))}
		config.Limits = client.Limits{QuestionsPerMinute: 2, QuestionBurst: 3}
		user := useTasks(t, pipeTo(mount(t, bridgeOf(t, nil, config))), client.Modern)
		id := user.start("w__t")
		for range 6 { // each question twice
			user.get(id)
			asked.Add(1)
		}
		_, err := user.call(mcp.MethodTasksGet, `{"taskId":"`+id+`"}`)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(e.Data), string(bridge.LimitExceeded)) {
			t.Errorf("the fourth question gives %v", err)
		}
	})
}

// background is a guard that makes each call a task of the bridge.
func background() mcp.Guard {
	return mcp.Guard{Name: "background", Waits: true, Run: func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			if err := call.BecomeTask(mcp.TaskRequest{}); err != nil {
				return nil, err
			}
			return next(ctx, call)
		}
	}}
}

// A call that runs as a task of the bridge waits for the task of the server, and asks its questions.
func TestTaskWaitsForTask(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			done := 0
			b := bridgeOf(t, &bridge.Options{Guards: []mcp.Guard{background()}}, bridge.Config{Alias: "w", Dialer: dialerTo(newWorker(t, &done)).speaks(behind)})
			user := useTasks(t, pipeTo(mount(t, b)), caller)
			state := user.finish(user.start("w__greet"))
			if state.Status != mcp.TaskCompleted || !strings.Contains(string(state.Result), "hello Ann") || done != 1 {
				t.Errorf("the task is %s with %s after %d calls", state.Status, state.Result, done)
			}
			if len(user.asked) != 1 || user.asked[0] != "w: Name?" {
				t.Errorf("the questions are %q", user.asked)
			}
		})
	})
}

// script answers requests of a bridge, and counts calls of tools.
type script struct {
	mu     sync.Mutex
	calls  int
	seen   []string
	before func() // called before a call is answered
	answer func(req *jsonrpc.Request) string
}

func (s *script) handle(req *jsonrpc.Request) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil && req.Method == mcp.MethodToolsCall {
		s.calls++
		s.mu.Unlock()
		s.before()
		s.mu.Lock()
		s.calls--
	}
	if req.Method == mcp.MethodToolsCall {
		s.calls++
		return `{"taskId":"secret","status":"working",` + taskTimes + `,"ttlMs":null,"pollIntervalMs":1000,"resultType":"task"}`
	}
	if req.Method == mcp.MethodSubscriptionsListen {
		return ""
	}
	s.seen = append(s.seen, req.Method)
	return s.answer(req)
}

func (s *script) methods() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, " ")
}

func (s *script) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// The end of the task of the server is the end of the task of the bridge.
func TestEndsOfAwaitedTasks(t *testing.T) {
	for _, test := range []struct{ name, state, want string }{
		{"failed", `"status":"failed","error":{"code":-32042,"message":"no more","data":{"n":1.0}}`, `"status":"failed","statusMessage":"no more"`},
		{"cancelled", `"status":"cancelled"`, `the server \"w\" has cancelled its task of the call`},
		{"without a result", `"status":"completed"`, "UPSTREAM_MALFORMED"},
		{"no state", `"status":7`, "UPSTREAM_MALFORMED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: func(*jsonrpc.Request) string {
					return `{"taskId":"secret",` + taskTimes + `,"ttlMs":null,` + test.state + `}`
				}}
				b := bridgeOf(t, &bridge.Options{Guards: []mcp.Guard{background()}}, bridge.Config{Alias: "w", Dialer: pipeTo(taskServer(s.handle))})
				user := useTasks(t, pipeTo(mount(t, b)), client.Modern)
				id := user.start("w__t")
				advance(10 * time.Second)
				raw, err := user.call(mcp.MethodTasksGet, `{"taskId":"`+id+`"}`)
				if err != nil || !strings.Contains(string(raw), test.want) {
					t.Errorf("the task is %s, %v, want %s", raw, err, test.want)
				}
				if s.called() != 1 {
					t.Errorf("the server got %d calls", s.called())
				}
			})
		})
	}
}

// Cancelling the task of the bridge cancels the task of the server. The status message of the server's task passes
// through.
func TestAwaitedTaskIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(*jsonrpc.Request) string {
			return `{"taskId":"secret","status":"working","statusMessage":"baking",` + taskTimes + `,"ttlMs":null,"pollIntervalMs":1000}`
		}}
		b := bridgeOf(t, &bridge.Options{Guards: []mcp.Guard{background()}}, bridge.Config{Alias: "w", Dialer: pipeTo(taskServer(s.handle))})
		user := useTasks(t, pipeTo(mount(t, b)), client.Modern)
		id := user.start("w__t")
		advance(3500 * time.Millisecond)
		if state := user.get(id); state.StatusMessage != "baking" || state.Status != mcp.TaskWorking {
			t.Errorf("the task is %+v", state)
		}
		if _, err := user.call(mcp.MethodTasksCancel, `{"taskId":"`+id+`"}`); err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		if state := user.get(id); state.Status != mcp.TaskCancelled {
			t.Errorf("the task is %+v", state)
		}
		if got := s.methods(); got != "tasks/get tasks/get tasks/get tasks/cancel" {
			t.Errorf("the server got %s", got)
		}
	})
}

// replicaOf returns a started server in front of a scripted server, in which each call is a task.
func replicaOf(t testing.TB, s *script, shared store.Store) *server.Server {
	t.Helper()
	b := bridgeOf(t, &bridge.Options{Guards: []mcp.Guard{background()}}, bridge.Config{Alias: "w", Dialer: pipeTo(taskServer(s.handle))})
	frontend := server.New(mcp.Implementation{Name: "frontend", Version: "1"}, &server.Options{Logger: quiet(), Store: shared})
	if err := frontend.Mount(b, nil); err != nil {
		t.Fatal(err)
	}
	if err := frontend.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return frontend
}

// A call whose replica ends before the server has answered is not sent again.
func TestInterruptedCallIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		s, hangs := &script{}, make(chan struct{})
		s.before = func() { <-hangs }
		first := replicaOf(t, s, shared)
		id := useTasks(t, pipeTo(first), client.Modern).start("w__t")
		synctest.Wait()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		_ = first.Shutdown(now) // interrupts the run
		close(hangs)
		second := replicaOf(t, s, shared)
		defer second.Shutdown(context.Background())
		state := useTasks(t, pipeTo(second), client.Modern).finish(id)
		if state.Status != mcp.TaskFailed || !strings.Contains(string(state.Error), string(bridge.Lost)) || !strings.Contains(string(state.Error), `"executed":"maybe"`) {
			t.Errorf("the task is %s with %s", state.Status, state.Error)
		}
		if s.called() != 1 {
			t.Errorf("the server got %d calls", s.called())
		}
		if got := second.Stats(); got.AbandonedTasks != 1 || got.RepeatedAttempts != 1 {
			t.Errorf("for the operator, there are %d abandoned tasks and %d repeated attempts", got.AbandonedTasks, got.RepeatedAttempts)
		}
	})
}

// A replica that continues a task waits for the task that another one has started.
func TestAwaitedTaskSurvivesReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		var ended atomic.Bool
		s := &script{}
		s.answer = func(*jsonrpc.Request) string {
			if ended.Load() {
				return `{"taskId":"secret","status":"completed",` + taskTimes + `,"ttlMs":null,"result":{"content":[{"type":"text","text":"late"}]}}`
			}
			return `{"taskId":"secret","status":"working",` + taskTimes + `,"ttlMs":null,"pollIntervalMs":1000}`
		}
		first := replicaOf(t, s, shared)
		id := useTasks(t, pipeTo(first), client.Modern).start("w__t")
		advance(2500 * time.Millisecond)
		now, cancel := context.WithCancel(t.Context())
		cancel()
		_ = first.Shutdown(now) // interrupts the run
		second := replicaOf(t, s, shared)
		defer second.Shutdown(context.Background())
		ended.Store(true)
		user := useTasks(t, pipeTo(second), client.Modern)
		if state := user.finish(id); !strings.Contains(string(state.Result), "late") {
			t.Errorf("the task is %+v", state)
		}
		if s.called() != 1 || strings.Contains(s.methods(), "cancel") {
			t.Errorf("the server got %d calls and %s", s.called(), s.methods())
		}
	})
}

// A tool of 2025-11-25 that must run as a task works with all clients.
func TestRequiredTasksOfLegacyServers(t *testing.T) {
	for name, caller := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var polls atomic.Int32
				legacy := &fakeServer{era: client.Legacy, capabilities: `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`}
				legacy.answer = func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
					switch req.Method {
					case mcp.MethodToolsList:
						return `{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`, nil
					case mcp.MethodToolsCall:
						if string(req.Member("task")) != "{}" {
							return "", &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "only as a task"}
						}
						return `{"task":{"taskId":"x","status":"working",` + taskTimes + `,"ttl":null,"pollInterval":5000}}`, nil
					case mcp.MethodTasksGet:
						status := "working"
						if polls.Add(1) == 30 {
							status = "completed"
						}
						return `{"taskId":"x","status":"` + status + `",` + taskTimes + `,"ttl":null,"pollInterval":5000}`, nil
					case mcp.MethodTasksResult:
						return `{"content":[{"type":"text","text":"made"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}`, nil
					}
					return "", nil
				}
				b := bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: pipeTo(legacy)})
				frontend := mount(t, b)
				user := useTasks(t, pipeTo(frontend), caller)
				state := user.finish(user.start("w__t"))
				if text := string(state.Result); !strings.Contains(text, "made") || strings.Contains(text, `"taskId":"x"`) || polls.Load() != 30 {
					t.Errorf("the task is %s with %s after %d requests", state.Status, text, polls.Load())
				}
				polls.Store(20)
				result, err := connect(t, pipeTo(frontend), client.Options{Era: caller, NoTasks: true}).CallTool(t.Context(), "w__t", struct{}{}, nil)
				if err != nil || result.Text() != "made" {
					t.Errorf("without tasks the result is %v, %v", result, err)
				}
			})
		})
	}
}

// A server of 2025-11-25 that refuses requests for the state of a task has not answered the call. The call may have
// been executed, and its task is cancelled.
func TestStateOfLegacyTaskIsRefused(t *testing.T) {
	for _, refusal := range []*jsonrpc.Error{
		{Code: jsonrpc.Busy, Message: "too many requests"}, {Code: jsonrpc.InternalError, Message: "a fault"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var cancelled atomic.Bool
			legacy := &fakeServer{era: client.Legacy, capabilities: `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`}
			legacy.answer = func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
				switch req.Method {
				case mcp.MethodToolsList:
					return `{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`, nil
				case mcp.MethodToolsCall:
					return `{"task":{"taskId":"x","status":"working",` + taskTimes + `,"ttl":null}}`, nil
				case mcp.MethodTasksGet:
					return "", refusal
				case mcp.MethodTasksCancel:
					cancelled.Store(true)
				}
				return "", nil
			}
			b := bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: pipeTo(legacy)})
			session := connect(t, pipeTo(mount(t, b)), client.Options{NoTasks: true})
			_, err := session.CallTool(t.Context(), "w__t", struct{}{}, nil)
			answer, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || !strings.Contains(string(answer.Data), `"executed":"maybe"`) {
				t.Errorf("after %v the call ends with %v", refusal, err)
			}
			if !cancelled.Load() {
				t.Error("the task is not cancelled")
			}
		})
	}
}

// The relay passes tasks unchanged.
func TestRelayPassesTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := 0
		relay := bridge.Relay(pipeTo(newWorker(t, &done)), nil)
		user := useTasks(t, pipeTo(relay), client.Modern)
		if state := user.finish(user.start("greet")); !strings.Contains(string(state.Result), "hello Ann") || done != 1 {
			t.Errorf("the task is %+v", state)
		}
		if len(user.asked) != 1 || user.asked[0] != "Name?" {
			t.Errorf("the questions are %q", user.asked)
		}
	})
}
