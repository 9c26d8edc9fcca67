//go:build soak

package growth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
)

// stateRows are those of what clients leave behind: tasks, events and webhooks.
func stateRows() []row {
	rows := []row{
		{of: "events", operation: "publication of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			topic := addEvents(tb, s, n)
			return func() { must(tb, topic.Publish(tb.Context(), payload{}, nil)) }
		}},
		{of: "streams of other events", operation: "publication, and one stream", n: 20, prepare: func(tb testing.TB, n int) func() {
			s, arrived := newServer(nil), newCounter(tb)
			topic := addEvents(tb, s, n)
			e := newEndpoint(tb, s)
			for i := range n {
				e.stream(eventStream(i), mcp.NotificationEvent+`"`, arrived.add)
			}
			return func() {
				must(tb, topic.Publish(tb.Context(), payload{}, nil))
				arrived.wait(1)
			}
		}},
		{of: "streams of an event", operation: "publication, and all streams", n: 20, whole: true, prepare: func(tb testing.TB, n int) func() {
			s, arrived := newServer(nil), newCounter(tb)
			topic := addEvents(tb, s, 1)
			e := newEndpoint(tb, s)
			for range n {
				e.stream(eventStream(0), mcp.NotificationEvent+`"`, arrived.add)
			}
			return func() {
				must(tb, topic.Publish(tb.Context(), payload{}, nil))
				arrived.wait(n)
			}
		}},
		{of: "occurrences in the log", operation: "publication", n: 500, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			topic := addEvents(tb, s, 1)
			publish(tb, topic, n)
			return func() { must(tb, topic.Publish(tb.Context(), payload{}, nil)) }
		}},
		{of: "occurrences in the log", operation: "poll of the newest", n: 500, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			topic := addEvents(tb, s, 1)
			publish(tb, topic, n)
			return poller(tb, s, 0, func() {})
		}},
		{of: "occurrences in the log", operation: "poll of the oldest", n: 500, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			topic := addEvents(tb, s, 1)
			return poller(tb, s, 10, func() { publish(tb, topic, n) })
		}},
		{of: "webhooks", operation: "registration and removal of one", n: 100, prepare: func(tb testing.TB, n int) func() {
			_, _, change := newWebhooks(tb, 1)
			for i := range n {
				change(mcp.MethodEventsSubscribe, i)
			}
			return func() {
				change(mcp.MethodEventsSubscribe, n)
				change(mcp.MethodEventsUnsubscribe, n)
			}
		}},
		{of: "webhooks of other events", operation: "publication, and one delivery", n: 20, prepare: func(tb testing.TB, n int) func() {
			topic, arrived := serverWithWebhooks(tb, n, n)
			return func() {
				must(tb, topic.Publish(tb.Context(), payload{}, nil))
				arrived.wait(1)
			}
		}},
		{of: "webhooks of an event", operation: "publication, and all deliveries", n: 20, whole: true, prepare: func(tb testing.TB, n int) func() {
			topic, arrived := serverWithWebhooks(tb, n, 1)
			return func() {
				must(tb, topic.Publish(tb.Context(), payload{}, nil))
				arrived.wait(n)
			}
		}},
	}
	for _, shared := range []bool{false, true} {
		of := "tasks that are kept"
		if shared {
			of += " in a shared store"
		}
		rows = append(rows,
			row{of: of, operation: "creation and execution", n: 250, prepare: func(tb testing.TB, n int) func() {
				session := sessionWithTasks(tb, n, shared)
				return func() { session.runTask() }
			}},
			row{of: of, operation: "get", n: 250, prepare: func(tb testing.TB, n int) func() {
				session := sessionWithTasks(tb, n, shared)
				id := session.runTask()
				for session.get(id).Status != mcp.TaskCompleted {
				}
				return func() { session.get(id) }
			}},
			row{of: of, operation: "call of another tool", n: 250, prepare: func(tb testing.TB, n int) func() {
				session := sessionWithTasks(tb, n, shared)
				return func() { call(tb, session.Session, "tool0", nil) }
			}})
	}
	return rows
}

type payload struct {
	Number int `json:"number"`
}

func eventName(i int) string { return fmt.Sprint("event", i) }

// addEvents adds n events and returns the topic of the first.
func addEvents(tb testing.TB, s *server.Server, n int) *server.Topic[payload] {
	tb.Helper()
	topic := server.AddEvent[struct{}, payload](s, server.Event{Name: eventName(0)}, nil)
	for i := 1; i < n; i++ {
		server.AddEvent[struct{}, payload](s, server.Event{Name: eventName(i)}, nil)
	}
	must(tb, s.Start(tb.Context()))
	return topic
}

func publish(tb testing.TB, topic *server.Topic[payload], n int) {
	tb.Helper()
	for i := range n {
		must(tb, topic.Publish(tb.Context(), payload{i}, nil))
	}
}

func eventStream(i int) request {
	return request{method: mcp.MethodEventsStream, name: eventName(i), params: fmt.Sprintf(`"name":%q,"cursor":null`, eventName(i))}
}

// poller returns a poll that gets a number of occurrences: those that are published after the first poll.
func poller(tb testing.TB, s *server.Server, want int64, published func()) func() {
	tb.Helper()
	session := connect(tb, s, nil)
	poll := func(cursor *string) *mcp.PollEventsResult {
		params, err := (&mcp.EventParams{Name: eventName(0), Cursor: cursor, MaxEvents: new(max(want, 1))}).AppendJSON(nil)
		must(tb, err)
		result, err := session.Call(tb.Context(), mcp.MethodEventsPoll, params, nil)
		must(tb, err)
		polled := &mcp.PollEventsResult{}
		must(tb, polled.UnmarshalJSON(result))
		return polled
	}
	begin := poll(nil)
	published()
	return func() {
		if got := poll(begin.Cursor); len(got.Events) != int(want) {
			tb.Fatalf("%d occurrences were polled, expected %d", len(got.Events), want)
		}
	}
}

// newWebhooks returns a server that has webhooks of several events, and what registers and unregisters one. Each has a
// principal of its own.
func newWebhooks(tb testing.TB, events int) (topic *server.Topic[payload], arrived *counter, change func(method string, i int)) {
	tb.Helper()
	arrived = newCounter(tb)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.add() }))
	tb.Cleanup(receiver.Close)
	hooks, err := webhook.New(&webhook.Options{
		AllowLoopback: true, DeliveriesPerHost: 64,
		Verified: func(context.Context, string, string) bool { return true },
	})
	must(tb, err)
	s := newServer(&server.Options{Webhooks: hooks, RetainedBytes: -1})
	topic = addEvents(tb, s, events)
	e := newEndpoint(tb, s)
	return topic, arrived, func(method string, i int) {
		name := eventName(i % events)
		e.do(request{
			principal: principal(i), method: method, name: name,
			params: fmt.Sprintf(`"name":%q,"delivery":{"mode":"webhook","url":%q,"secret":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`, name, fmt.Sprint(receiver.URL, "/", i)),
		})
	}
}

// serverWithWebhooks returns a topic of a server with n webhooks, of several events in turn.
func serverWithWebhooks(tb testing.TB, n, events int) (*server.Topic[payload], *counter) {
	tb.Helper()
	topic, arrived, change := newWebhooks(tb, events)
	for i := range n {
		change(mcp.MethodEventsSubscribe, i)
	}
	return topic, arrived
}

// A taskSession is a session with a server that has the tool "task".
type taskSession struct {
	*client.Session
	testing.TB
	executed *counter
}

// sessionWithTasks returns a session with a server that keeps n tasks.
func sessionWithTasks(tb testing.TB, n int, shared bool) taskSession {
	tb.Helper()
	opts := &server.Options{RetainedBytes: -1}
	if shared {
		opts.Store = newStore(tb)
	}
	s := newServer(opts)
	addTools(s, 1)
	executed := newCounter(tb)
	server.AddTool(s, server.Tool{Name: "task", Task: server.TaskRequired}, func(context.Context, *server.Request, struct{}) (string, error) {
		executed.add()
		return "yes", nil
	})
	session := taskSession{connect(tb, s, &client.Options{Capabilities: &mcp.ClientCapabilities{
		Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
	}}), tb, executed}
	for range n {
		session.runTask()
	}
	return session
}

// runTask makes a call that continues as a task, and returns the id when the function of the tool has run.
func (s taskSession) runTask() (id string) {
	s.Helper()
	result, err := s.Session.Call(s.TB.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"task","arguments":{}}`), nil)
	must(s, err)
	created := &mcp.Task{}
	must(s, created.UnmarshalJSON(result))
	s.executed.wait(1)
	return created.TaskID
}

func (s taskSession) get(id string) *mcp.Task {
	s.Helper()
	task, err := s.Session.Task(id).Get(s.TB.Context())
	must(s, err)
	return task
}
