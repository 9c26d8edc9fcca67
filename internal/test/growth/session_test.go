//go:build soak

package growth

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// sessionRows are those of clients that are connected.
func sessionRows() []row {
	return []row{
		{of: "principals", operation: "call of each in turn (2026-07-28)", n: 50, prepare: func(tb testing.TB, n int) func() {
			e := newEndpoint(tb, serverWithTools(1))
			i := 0
			return func() {
				e.do(callTool0("", principal(i%n)))
				i++
			}
		}},
		{of: "sessions over HTTP", operation: "all are opened", n: 50, whole: true, prepare: func(tb testing.TB, n int) func() {
			e := newEndpoint(tb, serverWithTools(1))
			return func() {
				for i, session := range e.openAll(n) {
					e.end(session, principal(i))
				}
			}
		}},
		{of: "sessions over HTTP", operation: "one is opened and ended", n: 50, prepare: func(tb testing.TB, n int) func() {
			e := newEndpoint(tb, serverWithTools(1))
			e.openAll(n)
			return func() { e.end(e.open(""), "") }
		}},
		{of: "sessions over HTTP", operation: "call of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			e := newEndpoint(tb, serverWithTools(1))
			sessions := e.openAll(n)
			return func() { e.do(callTool0(sessions[0], principal(0))) }
		}},
		{of: "sessions over HTTP", operation: "call without a session (2026-07-28)", n: 50, prepare: func(tb testing.TB, n int) func() {
			e := newEndpoint(tb, serverWithTools(1))
			e.openAll(n)
			return func() { e.do(callTool0("", "")) }
		}},
		{of: "sessions over HTTP in a shared store", operation: "call of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			s := newServer(&server.Options{Store: newStore(tb)})
			addTools(s, 1)
			e := newEndpoint(tb, s)
			sessions := e.openAll(n)
			return func() { e.do(callTool0(sessions[0], principal(0))) }
		}},
		{of: "connections over a pipe", operation: "call of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			s := serverWithTools(1)
			for range n {
				connect(tb, s, nil)
			}
			return caller(tb, s, "tool0")
		}},
		{of: "idle streams of sessions", operation: "call of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			e := newEndpoint(tb, serverWithTools(1))
			sessions := e.openAll(n)
			for i, session := range sessions {
				e.stream(request{session: session, principal: principal(i)}, "", func() {})
			}
			return func() { e.do(callTool0(sessions[0], principal(0))) }
		}},
		{of: "sessions that watch a resource each", operation: "update of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			s, arrived := serverWithWatchers(tb, n, legacyWatch, mcp.NotificationResourceUpdated)
			return updater(s, arrived)
		}},
		{of: "sessions that watch a resource each", operation: "update of what none watches", n: 50, prepare: func(tb testing.TB, n int) func() {
			s, _ := serverWithWatchers(tb, n, legacyWatch, mcp.NotificationResourceUpdated)
			return func() { s.ResourceUpdated("test://other") }
		}},
		{of: "sessions with a stream", operation: "change of the list of tools", n: 20, whole: true, reason: outsideCache, prepare: func(tb testing.TB, n int) func() {
			s, arrived := serverWithWatchers(tb, n, legacyWatch, mcp.NotificationToolsListChanged)
			return toolsChanger(tb, s, arrived, n)
		}},
		{of: "subscriptions/listen with a resource each", operation: "update of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			s, arrived := serverWithWatchers(tb, n, modernWatch, mcp.NotificationResourceUpdated)
			return updater(s, arrived)
		}},
		{of: "subscriptions/listen", operation: "change of the list of tools", n: 20, whole: true, prepare: func(tb testing.TB, n int) func() {
			s, arrived := serverWithWatchers(tb, n, modernWatch, mcp.NotificationToolsListChanged)
			return toolsChanger(tb, s, arrived, n)
		}},
		{of: "resources that one session watches", operation: "update of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			addResources(s, n)
			e := newEndpoint(tb, s)
			session, arrived := e.open(""), newCounter(tb)
			for i := range n {
				e.do(request{session: session, method: mcp.MethodResourcesSubscribe, params: fmt.Sprintf(`"uri":%q`, watched(i))})
			}
			e.stream(request{session: session}, mcp.NotificationResourceUpdated, arrived.add)
			return updater(s, arrived)
		}},
		{of: "headers of a request", operation: "call", n: 4, whole: true, prepare: func(tb testing.TB, n int) func() {
			e := newEndpoint(tb, serverWithTools(1))
			call := callTool0("", "")
			call.header = http.Header{}
			for i := range n {
				call.header.Set(fmt.Sprint("X-Other-", i), "value")
			}
			return func() { e.do(call) }
		}},
		{of: "arguments that are copied into headers", operation: "call", n: 4, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			call := callTool0("", "")
			call.header = http.Header{}
			var properties, arguments []string
			for i := range n {
				properties = append(properties, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"P%d"}`, i, i))
				arguments = append(arguments, fmt.Sprintf(`"p%d":"value"`, i))
				call.header.Set(fmt.Sprint("Mcp-Param-P", i), "value")
			}
			addRawTool(s, "tool0", `{"type":"object","properties":{`+strings.Join(properties, ",")+`}}`)
			call.params = `"name":"tool0","arguments":{` + strings.Join(arguments, ",") + `}`
			e := newEndpoint(tb, s)
			return func() { e.do(call) }
		}},
		{of: "chunks of a stream", operation: "call", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			server.AddStream(s, server.Tool{Name: "stream"}, func(context.Context, *server.Request, struct{}) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for i := 0; i < n && yield("chunk", nil); i++ {
					}
				}
			}, server.JoinText)
			session := connect(tb, s, nil)
			return func() {
				got := 0
				for _, err := range session.Stream(tb.Context(), "stream", nil, nil) {
					must(tb, err)
					got++
				}
				if got != n {
					tb.Fatalf("%d of %d chunks have arrived", got, n)
				}
			}
		}},
	}
}

// end ends a session.
func (e *endpoint) end(session, principal string) {
	e.Helper()
	r := request{session: session, principal: principal}.build(e)
	r.Method = http.MethodDelete
	w := httptest.NewRecorder()
	if e.handler.ServeHTTP(w, r); w.Code != http.StatusNoContent {
		e.Fatalf("a session was not ended: %d %s", w.Code, w.Body)
	}
}

func watched(i int) string { return fmt.Sprint("test://resource/", i) }

// serverWithWatchers returns a server with n clients that watch a resource each.
func serverWithWatchers(tb testing.TB, n int, watch func(e *endpoint, i int, notification string, arrived func()), notification string) (*server.Server, *counter) {
	tb.Helper()
	s := serverWithTools(1)
	addResources(s, n)
	e, arrived := newEndpoint(tb, s), newCounter(tb)
	for i := range n {
		watch(e, i, notification, arrived.add)
	}
	return s, arrived
}

// legacyWatch watches in a session.
func legacyWatch(e *endpoint, i int, notification string, arrived func()) {
	session := e.open("")
	e.do(request{session: session, method: mcp.MethodResourcesSubscribe, params: fmt.Sprintf(`"uri":%q`, watched(i))})
	e.stream(request{session: session}, notification, arrived)
}

// modernWatch watches without a session.
func modernWatch(e *endpoint, i int, notification string, arrived func()) {
	e.stream(request{
		method: mcp.MethodSubscriptionsListen,
		params: fmt.Sprintf(`"notifications":{"toolsListChanged":true,"resourceSubscriptions":[%q]}`, watched(i)),
	}, notification, arrived)
}

// updater returns an update of one resource.
func updater(s *server.Server, arrived *counter) func() {
	return func() {
		s.ResourceUpdated(watched(0))
		arrived.wait(1)
	}
}

// toolsChanger returns a change of the list of tools, of which n clients are notified.
func toolsChanger(tb testing.TB, s *server.Server, arrived *counter, n int) func() {
	tb.Helper()
	entries, _ := newTools(1)
	return func() {
		must(tb, s.Replace(entries...))
		arrived.wait(n)
	}
}
