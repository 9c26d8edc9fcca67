package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// taskOptions are the options of a client that sees tasks itself.
func taskOptions() *client.Options {
	return &client.Options{Era: client.Modern, Capabilities: &mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapability{},
		Extensions:  map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
	}}
}

// A taskClient makes requests about tasks of a server, in virtual time.
type taskClient struct {
	t       *testing.T
	server  *server.Server
	session *client.Session
}

func newTaskClient(t *testing.T, s *server.Server, opts *client.Options) *taskClient {
	t.Helper()
	session, err := client.Connect(t.Context(), transport.Pipe(s), opts)
	if err != nil {
		t.Fatal(err)
	}
	return &taskClient{t, s, session}
}

// inBubble runs a test with a server that has tasks.
func inBubble(t *testing.T, opts *server.Options, test func(t *testing.T, c *taskClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, opts)
		c := newTaskClient(t, s, taskOptions())
		test(t, c)
		c.session.Close()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Shutdown(ended); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// request makes a request, and returns the task in its result.
func (c *taskClient) request(method, params string) (*mcp.Task, error) {
	c.t.Helper()
	raw, err := c.session.Call(c.t.Context(), method, json.RawMessage(params), nil)
	if err != nil {
		return nil, err
	}
	task := new(mcp.Task)
	if err := task.UnmarshalJSON(raw); err != nil {
		c.t.Fatalf("%s: %v in %s", method, err, raw)
	}
	return task, nil
}

// start calls a tool and returns the id of its task.
func (c *taskClient) start(tool, arguments string) string {
	c.t.Helper()
	task, err := c.request(mcp.MethodToolsCall, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		c.t.Fatal(err)
	}
	if task.ResultType != mcp.ResultTask || task.TaskID == "" || task.Status.Ended() {
		c.t.Fatalf("the result of %s is %+v, want a task", tool, task)
	}
	return task.TaskID
}

// expect returns the task when nothing runs any more.
func (c *taskClient) expect(id string, want mcp.TaskStatus) *mcp.Task {
	c.t.Helper()
	synctest.Wait()
	task, err := c.request(mcp.MethodTasksGet, fmt.Sprintf(`{"taskId":%q}`, id))
	if err != nil {
		c.t.Fatal(err)
	}
	if task.Status != want {
		c.t.Fatalf("the task is %s (%s, %s), want %s", task.Status, task.StatusMessage, task.Error, want)
	}
	return task
}

func (c *taskClient) answer(id, key, answer string) {
	c.t.Helper()
	if _, err := c.session.Call(c.t.Context(), mcp.MethodTasksUpdate, json.RawMessage(fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:%s}}`, id, key, answer)), nil); err != nil {
		c.t.Fatal(err)
	}
}

func (c *taskClient) cancel(id string) {
	c.t.Helper()
	if _, err := c.session.Call(c.t.Context(), mcp.MethodTasksCancel, json.RawMessage(fmt.Sprintf(`{"taskId":%q}`, id)), nil); err != nil {
		c.t.Fatal(err)
	}
}

// TestProgressOfTask: the status of a task says how far its function is, in the function's words if it has any.
func TestProgressOfTask(t *testing.T) {
	for _, test := range []struct {
		progress, total       float64
		message               string
		status, progressParam string
	}{
		{1, 4, "baking", "baking", `{"progress":1,"total":4}`},
		{0.5, 1, "", "0.5 of 1", `{"progress":0.5,"total":1}`},
		{3, 0, "", "3", `{"progress":3}`},
	} {
		inBubble(t, nil, func(t *testing.T, c *taskClient) {
			server.AddTool(c.server, server.Tool{Name: "bake", Task: server.TaskOptional}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				err := r.Progress(ctx, test.progress, test.total, test.message)
				<-time.After(time.Minute)
				return "baked", err
			})
			id := c.start("bake", `{}`)
			<-time.After(time.Second) // a busy worker begins later
			task := c.expect(id, mcp.TaskWorking)
			if progress := string(task.Meta.Get(mcp.MetaTaskProgress)); task.StatusMessage != test.status || progress != test.progressParam {
				t.Errorf("the status is %q, %s, want %q, %s", task.StatusMessage, progress, test.status, test.progressParam)
			}
			<-time.After(time.Minute)
			c.expect(id, mcp.TaskCompleted)
		})
	}
}

// A call whose caller cannot be stored does not become a task, and the log says why.
func TestTaskOfUnstorableCaller(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, &server.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				changed := *call.Caller
				changed.Capabilities.Extensions = map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{")}
				call.Caller = &changed
				return next(ctx, call)
			}
		}},
	}, func(t *testing.T, c *taskClient) {
		server.AddTool(c.server, server.Tool{Name: "bake", Task: server.TaskOptional}, func(context.Context, *server.Request, struct{}) (string, error) { return "baked", nil })
		task, err := c.request(mcp.MethodToolsCall, `{"name":"bake","arguments":{}}`)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.InternalError || !strings.Contains(log.String(), "/caller/capabilities") {
			t.Errorf("got %v, %v; the log is %s", task, err, &log)
		}
	})
}

// A function that asks, reports and keeps values is the same with and without a task.
func TestFunctionRunsAsTask(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		var paid atomic.Int32
		type in struct {
			Cake string `json:"cake"`
		}
		server.AddTool(c.server, server.Tool{Name: "order", Task: server.TaskOptional, TTL: time.Hour}, func(ctx context.Context, r *server.Request, in in) (string, error) {
			if _, err := server.Once(r, "pay", func() (int32, error) { return paid.Add(1), nil }); err != nil {
				return "", err
			}
			sure, err := server.Elicit[bool](r, "sure", "A "+in.Cake+"?")
			if err != nil {
				return "", err
			}
			if err := r.Progress(ctx, 1, 4, "baking"); err != nil {
				return "", err
			}
			<-time.After(time.Minute)
			return fmt.Sprintf("%s: %t", in.Cake, sure), nil
		})
		id := c.start("order", `{"cake":"brioche"}`)
		asked := c.expect(id, mcp.TaskInputRequired)
		if question := asked.InputRequests["sure"]; len(asked.InputRequests) != 1 || question.Method != mcp.MethodElicit || !strings.Contains(string(question.Params), "A brioche?") {
			t.Errorf("the questions are %v", asked.InputRequests)
		}
		c.answer(id, "sure", `{"action":"accept","content":{"value":true}}`)
		working := c.expect(id, mcp.TaskWorking)
		if progress := string(working.Meta.Get(mcp.MetaTaskProgress)); working.StatusMessage != "baking" || progress != `{"progress":1,"total":4}` {
			t.Errorf("the progress is %q, %s", working.StatusMessage, progress)
		}
		<-time.After(time.Minute)
		done := c.expect(id, mcp.TaskCompleted)
		if want := `{"content":[{"type":"text","text":"brioche: true"}],"resultType":"complete"}`; string(done.Result) != want || *done.TTLMs != 3_600_000 {
			t.Errorf("the task is %+v with the result %s, want %s", done, done.Result, want)
		}
		if n := paid.Load(); n != 1 {
			t.Errorf("paid %d times", n)
		}
	})
}

func TestOutcomesOfTasks(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		add := func(name string, fn func(ctx context.Context) (string, error)) {
			server.AddTool(c.server, server.Tool{Name: name, Task: server.TaskOptional}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) { return fn(ctx) })
		}
		add("error", func(context.Context) (string, error) { return "", errors.New("no flour") })
		add("protocol", func(context.Context) (string, error) {
			return "", &jsonrpc.Error{Code: 7, Message: "not like this", Data: json.RawMessage(`{"a":1}`)}
		})
		add("panic", func(context.Context) (string, error) { panic("a secret") })
		add("wait", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() })

		failed := c.expect(c.start("error", `{}`), mcp.TaskCompleted)
		if want := `{"content":[{"type":"text","text":"no flour"}],"isError":true,"resultType":"complete"}`; string(failed.Result) != want {
			t.Errorf("an error of the tool: %s, want %s", failed.Result, want)
		}
		broken := c.expect(c.start("protocol", `{}`), mcp.TaskFailed)
		if want := `{"code":7,"message":"not like this","data":{"a":1}}`; string(broken.Error) != want || broken.StatusMessage != "not like this" {
			t.Errorf("a protocol error: %s, want %s", broken.Error, want)
		}
		if panicked := c.expect(c.start("panic", `{}`), mcp.TaskFailed); strings.Contains(string(panicked.Error), "secret") || !strings.Contains(string(panicked.Error), "reference") {
			t.Errorf("a panic: %s", panicked.Error)
		}
		id := c.start("wait", `{}`)
		c.expect(id, mcp.TaskWorking)
		c.cancel(id)
		c.expect(id, mcp.TaskCancelled)
		c.cancel(id)
		c.expect(id, mcp.TaskCancelled)
	})
}

// Arguments and guards refuse a call before a task exists.
func TestRefusedCallsAreNoTasks(t *testing.T) {
	refuse := mcp.Guard{Name: "closed", Check: func(context.Context, *mcp.Call) error { return errors.New("closed on Mondays") }}
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		run := func(context.Context, *server.Request, struct {
			N int `json:"n"`
		}) (string, error) {
			t.Error("the function has run")
			return "", nil
		}
		server.AddTool(c.server, server.Tool{Name: "open", Task: server.TaskRequired}, run)
		server.AddTool(c.server, server.Tool{Name: "closed", Task: server.TaskRequired, Guards: []mcp.Guard{refuse}}, run)
		raw, err := c.session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"open","arguments":{"n":"x"}}`), nil)
		if err != nil || !strings.Contains(string(raw), `"isError":true`) {
			t.Errorf("wrong arguments: %s, %v", raw, err)
		}
		if raw, err := c.session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"closed","arguments":{"n":1}}`), nil); err == nil {
			t.Errorf("a refused call: %s", raw)
		}
	})
}

// A client without the extension waits for the result, or gets an error if that is impossible.
func TestClientsWithoutTasks(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		run := func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			return "task " + r.Call().TaskID(), nil
		}
		server.AddTool(c.server, server.Tool{Name: "optional", Task: server.TaskOptional}, run)
		server.AddTool(c.server, server.Tool{Name: "required", Task: server.TaskRequired}, run)
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			plain := newTaskClient(t, c.server, &client.Options{Era: era, Capabilities: &mcp.ClientCapabilities{}})
			result, err := plain.session.CallTool(t.Context(), "optional", nil, nil)
			if err != nil || result.Text() != "task " {
				t.Errorf("%v: an optional task: %v, %v", era, result, err)
			}
			_, err = plain.session.CallTool(t.Context(), "required", nil, nil)
			if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(refused.Data), mcp.ExtensionTasks) {
				t.Errorf("%v: a required task: %v", era, err)
			}
			for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
				if _, err := plain.session.Call(t.Context(), method, json.RawMessage(`{"taskId":"x","inputResponses":{}}`), nil); err == nil {
					t.Errorf("%v: %s is answered", era, method)
				}
			}
			plain.session.Close()
		}
	})
}

// A question of a middleware comes before the task; the function finds the answer.
func TestQuestionsBeforeTheTask(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		ask := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				question := &mcp.ElicitParams{Mode: mcp.ElicitForm, Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"value":{"type":"string"}},"required":["value"]}`)}
				params, err := question.AppendJSON(nil)
				if err != nil {
					return nil, err
				}
				if _, err := call.Input("who", mcp.InputRequest{Method: mcp.MethodElicit, Params: params}); err != nil {
					return nil, err
				}
				return next(ctx, call)
			}
		}
		server.AddTool(c.server, server.Tool{Name: "greet", Task: server.TaskRequired, CallMiddleware: []mcp.Middleware{ask}},
			func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				name, err := server.Elicit[string](r, "who", "Who?")
				return "hello " + name, err
			})
		asked, err := c.raw(nil, mcp.MethodToolsCall, `{"name":"greet","arguments":{}`)
		var question mcp.InputRequiredResult
		if err != nil || question.UnmarshalJSON(asked) != nil || len(question.InputRequests) != 1 || strings.Contains(string(asked), "taskId") {
			t.Fatalf("the first answer is %s, %v, want a question", asked, err)
		}
		created, err := c.raw(nil, mcp.MethodToolsCall, `{"name":"greet","arguments":{},"requestState":"`+question.RequestState+`","inputResponses":{"who":{"action":"accept","content":{"value":"Ann"}}}`)
		var task mcp.Task
		if err != nil || task.UnmarshalJSON(created) != nil || task.ResultType != mcp.ResultTask || strings.Contains(string(created), "requestState") {
			t.Fatalf("the second answer is %s, %v, want a task", created, err)
		}
		if done := c.expect(task.TaskID, mcp.TaskCompleted); !strings.Contains(string(done.Result), "hello Ann") {
			t.Errorf("the result is %s", done.Result)
		}
	})
}

// raw makes one request of 2026-07-28 on a connection of its own. params lack the last brace.
func (c *taskClient) raw(handler jsonrpc.Handler, method, params string) (json.RawMessage, error) {
	return c.rawAs(c.t.Context(), handler, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, method, params)
}

func (c *taskClient) rawAs(ctx context.Context, handler jsonrpc.Handler, capabilities, method, params string) (json.RawMessage, error) {
	if handler == nil {
		handler = notified(func(string, json.RawMessage) {})
	}
	conn, err := transport.Pipe(c.server).Dial(ctx, handler)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	response, err := conn.Call(ctx, method, mcp.Raw(params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}`))
	if err != nil {
		return nil, err
	}
	return response.Result, nil
}

// Several notifications of one task may be merged into one, and the last one tells its end.
func TestSubscribersOfTasks(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		release := make(chan struct{})
		server.AddTool(c.server, server.Tool{Name: "wait", Task: server.TaskOptional}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			<-release
			return "done", nil
		})
		id := c.start("wait", `{}`)
		var mu sync.Mutex
		var received []mcp.Task
		handler := notified(func(method string, params json.RawMessage) {
			var task mcp.Task
			if method == mcp.NotificationTasks && task.UnmarshalJSON(params) == nil {
				mu.Lock()
				received = append(received, task)
				mu.Unlock()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		const listen = `{"notifications":{"taskIds":["%s","unknown"]}`
		var listening sync.WaitGroup
		listening.Go(func() {
			_, _ = c.rawAs(ctx, handler, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, mcp.MethodSubscriptionsListen, fmt.Sprintf(listen, id))
		})
		synctest.Wait()
		close(release)
		synctest.Wait()
		mu.Lock()
		last := received[len(received)-1]
		mu.Unlock()
		if last.TaskID != id || last.Status != mcp.TaskCompleted || len(last.Result) == 0 || last.Meta.Get(mcp.MetaSubscriptionID) == nil {
			t.Errorf("the last notification is %+v", last)
		}
		cancel()
		listening.Wait()
		_, err := c.rawAs(t.Context(), nil, `{}`, mcp.MethodSubscriptionsListen, fmt.Sprintf(listen, id))
		if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != mcp.CodeMissingClientCapability {
			t.Errorf("a subscription without the extension: %v", err)
		}
	})
}

// Subscriptions to tasks that an entry keeps are limited for each principal, since the server asks for their
// states. Further tasks are left out, until others are not watched any more. A failure or a panic of the entry
// does not end a subscription.
func TestSubscriptionsToTasksOfEntries(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		const most = 100
		var gets atomic.Int32
		entry := &server.Entry{
			Target: mcp.Target{Kind: mcp.KindTool, Name: "kept", Definition: mcp.NewDefinition([]byte(`{"name":"kept","inputSchema":{"type":"object"}}`))},
			Task:   server.TaskOptional,
			Handle: func(context.Context, *mcp.Call) (mcp.Result, error) {
				return &mcp.Task{TaskID: "inner", Status: mcp.TaskWorking}, nil
			},
			Tasks: func(context.Context, *mcp.Call) (mcp.Result, error) {
				switch gets.Add(1) {
				case 1:
					return nil, errors.New("not reached")
				case 2:
					panic("the entry")
				}
				return mcp.Raw(`{"taskId":"inner","status":"working","ttlMs":null,"createdAt":"","lastUpdatedAt":""}`), nil
			},
		}
		if err := c.server.Replace(entry); err != nil {
			t.Fatal(err)
		}
		changes := make(chan mcp.Change, 1000)
		opts := taskOptions()
		opts.OnChange = func(_ context.Context, change mcp.Change) { changes <- change }
		session, err := client.Connect(t.Context(), transport.Pipe(owned{c.server, "ann"}), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		id := (&taskClient{t: t, session: session}).start("kept", `{}`)
		subscribe := func(n int) *client.Subscription {
			sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{TaskIDs: slices.Repeat([]string{id}, n)})
			if err != nil {
				t.Fatal(err)
			}
			return sub
		}
		one := subscribe(1)
		<-time.After(time.Minute)
		synctest.Wait()
		if len(changes) == 0 {
			t.Error("after two failures, the state was not notified")
		}
		many := subscribe(2 * most)
		if n := len(many.Agreed().TaskIDs); n != most-1 {
			t.Errorf("%d tasks more are watched, want %d", n, most-1)
		}
		one.Close()
		many.Close()
		<-time.After(time.Second)
		if n := len(subscribe(most).Agreed().TaskIDs); n != most {
			t.Errorf("later, %d tasks are watched, want %d", n, most)
		}
	})
}

// notified handles notifications.
type notified func(method string, params json.RawMessage)

func (n notified) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound}
}

func (n notified) HandleNotification(_ jsonrpc.Peer, notification *jsonrpc.Request) {
	n(notification.Method, notification.Params)
}

// A task goes on in another process on the same store, from its beginning.
func TestTaskSurvivesItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		start := func(run func(ctx context.Context, r *server.Request) (string, error)) *taskClient {
			s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared})
			server.AddTool(s, server.Tool{Name: "job", Task: server.TaskRequired, MaxRestarts: 1}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) { return run(ctx, r) })
			return newTaskClient(t, s, taskOptions())
		}
		stop := func(c *taskClient) {
			c.session.Close()
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = c.server.Shutdown(ended) // it interrupts the task
		}
		first := start(func(ctx context.Context, r *server.Request) (string, error) {
			if _, err := server.Once(r, "seed", func() (int, error) { return 42, nil }); err != nil {
				return "", err
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
		id := first.start("job", `{}`)
		first.expect(id, mcp.TaskWorking)
		stop(first)
		second := start(func(_ context.Context, r *server.Request) (string, error) {
			seed, err := server.Once(r, "seed", func() (int, error) { return 0, nil })
			return fmt.Sprint("seed ", seed), err
		})
		defer stop(second)
		done := second.expect(id, mcp.TaskCompleted)
		if !strings.Contains(string(done.Result), "seed 42") {
			t.Errorf("the result is %s", done.Result)
		}
	})
}

// Shutdown gives up tasks that wait for a person, who answers after that: a replica on the same store
// continues them. It waits for those that work.
func TestShutdownGivesUpWaitingTasks(t *testing.T) {
	for _, kept := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			opts := &server.Options{}
			if kept {
				opts.Store = newStore(t)
			}
			answered := make(chan struct{})
			start := func() *taskClient {
				s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, opts)
				ask := mcp.Guard{Name: "ask", Waits: true, Run: func(next mcp.Handler) mcp.Handler {
					return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
						if err := call.BecomeTask(mcp.TaskRequest{}); err != nil {
							return nil, err
						}
						defer deadline.Pause(ctx)()
						select {
						case <-answered:
							return next(ctx, call)
						case <-ctx.Done():
							return nil, context.Cause(ctx)
						}
					}
				}}
				server.AddTool(s, server.Tool{Name: "approved", Guards: []mcp.Guard{ask}}, func(context.Context, *server.Request, struct{}) (string, error) { return "yes", nil })
				server.AddTool(s, server.Tool{Name: "asks", Task: server.TaskOptional}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
					return server.Elicit[string](r, "name", "Name?")
				})
				server.AddTool(s, server.Tool{Name: "works", Task: server.TaskOptional}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
					<-time.After(time.Second)
					return "worked", ctx.Err()
				})
				return newTaskClient(t, s, taskOptions())
			}
			stop := func(c *taskClient) {
				c.session.Close()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				if err := c.server.Shutdown(ctx); err != nil {
					t.Error(err)
				}
			}
			first := start()
			approved, asks := first.start("approved", `{}`), first.start("asks", `{}`)
			first.expect(approved, mcp.TaskWorking)
			first.expect(asks, mcp.TaskInputRequired)
			works := first.start("works", `{}`)
			first.expect(works, mcp.TaskWorking)
			began := time.Now()
			stop(first)
			if took := time.Since(began); took != time.Second {
				t.Errorf("Shutdown took %v, want the second of the function that works", took)
			}
			if !kept {
				return
			}
			second := start()
			defer stop(second)
			if done := second.expect(works, mcp.TaskCompleted); !strings.Contains(string(done.Result), "worked") {
				t.Errorf("the result of the function that works is %s", done.Result)
			}
			second.expect(approved, mcp.TaskWorking)
			close(answered)
			second.expect(approved, mcp.TaskCompleted)
			second.expect(asks, mcp.TaskInputRequired)
			second.answer(asks, "name", `{"action":"accept","content":{"value":"Ann"}}`)
			second.expect(asks, mcp.TaskCompleted)
		})
	}
}

// A server runs no goroutines for tasks before there is one, although its tools and guards may create them. It
// needs no Shutdown then.
func TestNoTasksNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		waits := mcp.Guard{Name: "waits", Waits: true, Run: func(next mcp.Handler) mcp.Handler { return next }}
		s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Guards: []mcp.Guard{waits}})
		run := func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil }
		server.AddTool(s, server.Tool{Name: "guarded"}, run)
		server.AddTool(s, server.Tool{Name: "job", Task: server.TaskRequired}, run)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := newTaskClient(t, s, taskOptions())
		defer c.session.Close()
		if result, err := c.session.CallTool(t.Context(), "guarded", nil, nil); err != nil || result.Text() != "done" {
			t.Errorf("the call gives %v, %v", result, err)
		}
		if _, err := c.request(mcp.MethodTasksGet, `{"taskId":"x"}`); err == nil {
			t.Error("an unknown task exists")
		}
		sub, err := c.session.Subscribe(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		sub.Close()
	})
}

func TestInvalidTaskOptions(t *testing.T) {
	run := func(context.Context, *server.Request, struct{}) (string, error) { return "", nil }
	for name, tool := range map[string]server.Tool{
		"TTL without a task": {Name: "a", TTL: time.Hour},
		"negative TTL":       {Name: "a", Task: server.TaskOptional, TTL: -1},
		"TTL of ten years":   {Name: "a", Task: server.TaskOptional, TTL: 10 * 365 * 24 * time.Hour},
		"unknown mode":       {Name: "a", Task: 7},
	} {
		if _, err := server.NewTool(tool, run); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A client of 2025-11-25 that waits for a result, or is asked for it, gets an error when the server shuts
// down.
func TestShutdownEndsWaitingForResults(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		server.AddTool(c.server, server.Tool{Name: "asks", Task: server.TaskRequired}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			return server.Elicit[string](r, "name", "Name?")
		})
		server.AddTool(c.server, server.Tool{Name: "works", Task: server.TaskRequired}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-time.After(time.Minute)
			return "", nil
		})
		legacy := newTaskClient(t, c.server, &client.Options{Era: client.Legacy, CallTimeout: time.Hour, Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		defer legacy.session.Close()
		var waiting sync.WaitGroup
		began := time.Now()
		for _, tool := range []string{"asks", "works"} {
			raw, err := legacy.session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"`+tool+`","arguments":{},"task":{}}`), nil)
			var created struct{ Task mcp.Task }
			if err != nil || json.Unmarshal(raw, &created) != nil || created.Task.TaskID == "" {
				t.Fatalf("the result of %s is %s, %v", tool, raw, err)
			}
			waiting.Go(func() {
				raw, err := legacy.session.Call(t.Context(), mcp.MethodTasksResult, json.RawMessage(`{"taskId":"`+created.Task.TaskID+`"}`), nil)
				refused, ok := errors.AsType[*jsonrpc.Error](err)
				if !ok || refused.Code != jsonrpc.Busy || time.Since(began) > 0 {
					t.Errorf("%s: tasks/result gives %s, %v after %v", tool, raw, err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		if err := c.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		waiting.Wait()
	})
}

// TestExperimentalTasks is the form of 2025-11-25: the client asks for a task, and waits for its result
// with a request during which it is asked.
func TestExperimentalTasks(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		server.AddTool(c.server, server.Tool{Name: "order", Task: server.TaskOptional}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			name, err := server.Elicit[string](r, "name", "Name?")
			return "for " + name, err
		})
		server.AddTool(c.server, server.Tool{Name: "fail", Task: server.TaskOptional}, func(context.Context, *server.Request, struct{}) (string, error) {
			return "", errors.New("no flour")
		})
		server.AddTool(c.server, server.Tool{Name: "plain"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		server.AddTool(c.server, server.Tool{Name: "wait", Task: server.TaskRequired}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		var asked []string
		legacy := newTaskClient(t, c.server, &client.Options{Era: client.Legacy, Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked = append(asked, params.Message+" "+string(params.Meta.Get(mcp.MetaRelatedTask)))
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":"Ann"}`)}, nil
		}})
		defer legacy.session.Close()
		call := func(method, params string) string {
			raw, err := legacy.session.Call(t.Context(), method, json.RawMessage(params), nil)
			if err != nil {
				return err.Error()
			}
			return string(raw)
		}
		start := func(tool, ttl string) string {
			var created struct {
				Task struct {
					TaskID string `json:"taskId"`
					TTL    *int64 `json:"ttl"`
					Status string `json:"status"`
				} `json:"task"`
			}
			raw := call(mcp.MethodToolsCall, `{"name":"`+tool+`","arguments":{},"task":{"ttl":`+ttl+`}}`)
			if json.Unmarshal([]byte(raw), &created) != nil || created.Task.TaskID == "" || fmt.Sprint(*created.Task.TTL) != ttl || created.Task.Status != "working" {
				t.Fatalf("the result of %s is %s", tool, raw)
			}
			return created.Task.TaskID
		}
		id := start("order", "60000")
		if got, want := call(mcp.MethodTasksResult, `{"taskId":"`+id+`"}`), `{"content":[{"type":"text","text":"for Ann"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}}`; got != want {
			t.Errorf("tasks/result: %s, want %s", got, want)
		}
		if want := `Name? {"taskId":"` + id + `"}`; len(asked) != 1 || asked[0] != want {
			t.Errorf("the questions are %q, want %q", asked, want)
		}
		if got := call(mcp.MethodTasksGet, `{"taskId":"`+id+`"}`); !strings.Contains(got, `"status":"completed"`) || strings.Contains(got, "content") {
			t.Errorf("tasks/get: %s", got)
		}
		if got := call(mcp.MethodTasksCancel, `{"taskId":"`+id+`"}`); !strings.Contains(got, "-32602") {
			t.Errorf("tasks/cancel of a completed task: %s", got)
		}
		failing := start("fail", "60000")
		synctest.Wait()
		if got := call(mcp.MethodTasksGet, `{"taskId":"`+failing+`"}`); !strings.Contains(got, `"status":"failed","statusMessage":"no flour"`) {
			t.Errorf("tasks/get after an error of the tool: %s", got)
		}
		if got := call(mcp.MethodTasksResult, `{"taskId":"`+failing+`"}`); !strings.Contains(got, `{"content":[{"type":"text","text":"no flour"}],"isError":true,`) {
			t.Errorf("tasks/result after an error of the tool: %s", got)
		}
		waiting := start("wait", "60000")
		synctest.Wait()
		call(mcp.MethodTasksCancel, `{"taskId":"`+waiting+`"}`)
		if got := call(mcp.MethodTasksResult, `{"taskId":"`+waiting+`"}`); !strings.Contains(got, "cancelled") {
			t.Errorf("tasks/result of a cancelled task: %s", got)
		}
		if got := call(mcp.MethodToolsCall, `{"name":"plain","arguments":{},"task":{}}`); !strings.Contains(got, "-32601") {
			t.Errorf("a task of a tool without tasks: %s", got)
		}
		if got := call(mcp.MethodToolsCall, `{"name":"wait","arguments":{}}`); !strings.Contains(got, "-32601") || !strings.Contains(got, "parameter task") {
			t.Errorf("a call of a tool that runs only as a task: %s", got)
		}
		for _, method := range []string{"tasks/list", mcp.MethodTasksUpdate} {
			if got := call(method, `{"taskId":"`+id+`","inputResponses":{}}`); !strings.Contains(got, "-32601") {
				t.Errorf("%s: %s", method, got)
			}
		}
	})
}

// TestFunctionThatCallsAStoppingServer: a function returns the error of another server in its process, which is
// shutting down. The function itself was executed, so that its call must not begin again.
func TestFunctionThatCallsAStoppingServer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		inner := server.New(mcp.Implementation{Name: "inner", Version: "1"}, nil)
		if err := inner.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		var runs atomic.Int32
		server.AddTool(c.server, server.Tool{Name: "pay", Task: server.TaskRequired}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			if runs.Add(1) > 3 {
				return "", nil
			}
			_, err := inner.Serve(ctx, r.Call())
			return "", err
		})
		id := c.start("pay", `{}`)
		if task := c.expect(id, mcp.TaskFailed); runs.Load() != 1 || !strings.Contains(string(task.Error), "may have been executed: it was interrupted") {
			t.Errorf("%d runs, the error is %s", runs.Load(), task.Error)
		}
	})
}
