//go:build soak

package growth

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// bridgeRows are those of bridges and clients, and of what is around them.
func bridgeRows() []row {
	return slices.Concat(upstreamRows(), approvalRows(), gatewayRows(), clientRows())
}

// upstreamRows are those of bridges, proxies and search.
func upstreamRows() []row {
	return []row{
		{of: "upstreams", operation: "call of one", n: 10, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, bridgeServer(tb, upstreams(n, 5)), nil)
			return func() { call(tb, session, "server0__tool0", nil) }
		}},
		{of: "upstreams", operation: "start and stop", n: 5, whole: true, prepare: func(tb testing.TB, n int) func() {
			return func() { startAndStop(tb, upstreams(n, 5)) }
		}},
		{of: "upstreams", operation: "list", n: 10, whole: true, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, bridgeServer(tb, upstreams(n, 5)), nil)
			return func() { listTools(tb, session) }
		}},
		{of: "upstreams", operation: "state", n: 10, whole: true, prepare: func(tb testing.TB, n int) func() {
			b := newBridge(tb, upstreams(n, 5))
			start(tb, b)
			return func() { b.States() }
		}},
		{of: "upstreams", operation: "change of the list of one", n: 10, whole: true, prepare: func(tb testing.TB, n int) func() {
			return inBubble(tb, func(tb testing.TB) func() { return changeOf(tb, upstreams(n, 5)) })
		}},
		{of: "upstreams", operation: "update that replaces one", n: 10, whole: true, prepare: func(tb testing.TB, n int) func() {
			all := upstreams(n, 5)
			b := newBridge(tb, all)
			start(tb, b)
			configs, updates := configsOf(all), 0
			return func() {
				updates++
				configs[0].Fingerprint = fmt.Sprint(updates)
				if err := b.UpdateAll(tb.Context(), configs...); err != nil {
					tb.Fatal(err)
				}
			}
		}},
		{of: "tools of one upstream", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, bridgeServer(tb, upstreams(1, n)), nil)
			return func() { call(tb, session, "server0__tool0", nil) }
		}},
		{of: "tools of one upstream", operation: "list", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, bridgeServer(tb, upstreams(1, n)), nil)
			return func() { listTools(tb, session) }
		}},
		{of: "tools of one upstream", operation: "start and stop", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			all := upstreams(1, n)
			return func() { startAndStop(tb, all) }
		}},
		{of: "tools of one upstream", operation: "change of one", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			return inBubble(tb, func(tb testing.TB) func() { return changeOf(tb, upstreams(1, n)) })
		}},
		{of: "tools of a proxy", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			mount(tb, s, bridge.Proxy(transport.Pipe(serverWithTools(n)), nil))
			session := connect(tb, s, nil)
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "proxies", operation: "call of one", n: 10, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			for i := range n {
				proxy := bridge.Proxy(transport.Pipe(serverWithTools(5)), nil)
				if err := s.Mount(proxy, &server.MountOptions{Prefix: fmt.Sprintf("server%d.", i)}); err != nil {
					tb.Fatal(err)
				}
			}
			startServer(tb, s)
			session := connect(tb, s, nil)
			return func() { call(tb, session, "server0.tool0", nil) }
		}},
		{of: "clients of a relay", operation: "call of one", n: 10, prepare: func(tb testing.TB, n int) func() {
			relay := bridge.Relay(transport.Pipe(serverWithTools(1)), nil)
			tb.Cleanup(func() { relay.Close() })
			var session *client.Session
			for range n {
				session = connectTo(tb, transport.Pipe(relay), nil)
			}
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "users of an upstream", operation: "call of one", n: 10, prepare: func(tb testing.TB, n int) func() {
			session := callAll(tb, serverForUsers(tb, n), n)
			return func() { call(tb, session, "server0__tool0", nil) }
		}},
		{of: "users of an upstream", operation: "first call of another, whose session replaces an idle one", n: 10, prepare: func(tb testing.TB, n int) func() {
			s := serverForUsers(tb, n)
			callAll(tb, s, n)
			others := n
			return func() {
				others++
				session := connectAs(tb, s, fmt.Sprint("user", others))
				call(tb, session, "server0__tool0", nil)
				if err := session.Close(); err != nil {
					tb.Fatal(err)
				}
			}
		}},
		{of: "resources that two upstreams list", operation: "change of the list of one", n: 50, whole: true, prepare: func(tb testing.TB, n int) func() {
			return inBubble(tb, func(tb testing.TB) func() {
				all := []*server.Server{serverWithResources(n), serverWithResources(n)}
				server.AddTool(all[0], server.Tool{Name: "tool"}, answer)
				return changeOf(tb, all)
			})
		}},
		{of: "tools with search", operation: "search", n: 100, reason: outsideCache, prepare: func(tb testing.TB, n int) func() {
			session := searching(tb, serverWithTools(n))
			return func() { search1(tb, session) }
		}},
		{of: "tools with search", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			session := searching(tb, serverWithTools(n))
			return func() {
				if _, err := session.CallTool(tb.Context(), search.CallTool, map[string]any{"name": "tool0", "arguments": map[string]any{}}, nil); err != nil {
					tb.Fatal(err)
				}
			}
		}},
		{of: "tools with search", operation: "search after a change of one", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := serverWithTools(n)
			session := searching(tb, s)
			toggle := toggler(tb, s)
			return func() {
				toggle()
				search1(tb, session)
			}
		}},
	}
}

var silent = slog.New(slog.DiscardHandler)

// upstreams returns n servers with tools.
func upstreams(n, tools int) []*server.Server {
	all := make([]*server.Server, n)
	for i := range all {
		all[i] = serverWithTools(tools)
	}
	return all
}

func configsOf(upstreams []*server.Server) []bridge.Config {
	configs := make([]bridge.Config, len(upstreams))
	for i, s := range upstreams {
		alias := fmt.Sprint("server", i)
		configs[i] = bridge.Config{
			Alias: alias, Dialer: transport.Pipe(s), Required: true, Fingerprint: alias, ProxyOptions: bridge.ProxyOptions{PingInterval: -1},
		}
	}
	return configs
}

func newBridge(tb testing.TB, upstreams []*server.Server) *bridge.Bridge {
	tb.Helper()
	b, err := bridge.New(&bridge.Options{Logger: silent}, configsOf(upstreams)...)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// bridgeServer returns a running server with a bridge.
func bridgeServer(tb testing.TB, upstreams []*server.Server) *server.Server {
	tb.Helper()
	s := newServer(nil)
	mount(tb, s, newBridge(tb, upstreams))
	return s
}

// mount mounts a provider and starts the server.
func mount(tb testing.TB, s *server.Server, p server.Provider) {
	tb.Helper()
	if err := s.Mount(p, nil); err != nil {
		tb.Fatal(err)
	}
	startServer(tb, s)
}

func startServer(tb testing.TB, s *server.Server) {
	tb.Helper()
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
}

func start(tb testing.TB, b *bridge.Bridge) {
	tb.Helper()
	stop, err := b.Start(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
}

func startAndStop(tb testing.TB, upstreams []*server.Server) {
	tb.Helper()
	stop, err := newBridge(tb, upstreams).Start(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	stop()
}

func listTools(tb testing.TB, session *client.Session) {
	tb.Helper()
	for _, err := range session.Tools(tb.Context(), nil) {
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func connectAs(tb testing.TB, s transport.Binder, principal string) *client.Session {
	tb.Helper()
	session, err := client.Connect(transport.WithPrincipal(tb.Context(), principal), transport.Pipe(s), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { session.Close() })
	return session
}

func connectTo(tb testing.TB, to transport.Dialer, opts *client.Options) *client.Session {
	tb.Helper()
	session, err := client.Connect(tb.Context(), to, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { session.Close() })
	return session
}

// toggler returns a function that adds a tool to a server or removes it again.
func toggler(tb testing.TB, s *server.Server) func() {
	return func() {
		if s.Catalog().Lookup(mcp.KindTool, "more") == nil {
			server.AddTool(s, server.Tool{Name: "more"}, answer)
		} else {
			s.Remove(mcp.KindTool, "more")
		}
	}
}

// serverForUsers returns a server with one upstream, which has sessions for n users.
func serverForUsers(tb testing.TB, n int) *server.Server {
	tb.Helper()
	b, err := bridge.New(&bridge.Options{Logger: silent}, bridge.Config{
		Alias: "server0", Dialer: transport.Pipe(serverWithTools(1)), ProxyOptions: bridge.ProxyOptions{Sessions: n + 1, PingInterval: -1},
	})
	if err != nil {
		tb.Fatal(err)
	}
	s := newServer(nil)
	mount(tb, s, b)
	return s
}

// callAll makes a call of each of n users, and returns the session of the last one.
func callAll(tb testing.TB, s *server.Server, n int) (session *client.Session) {
	tb.Helper()
	for i := range n {
		session = connectAs(tb, s, fmt.Sprint("user", i))
		call(tb, session, "server0__tool0", nil)
	}
	return session
}

// changeOf returns a function that changes the list of the first upstream and waits until a client has been notified.
func changeOf(tb testing.TB, all []*server.Server) func() {
	s := bridgeServer(tb, all)
	changed := make(chan struct{}, 1)
	session := connectTo(tb, transport.Pipe(s), &client.Options{OnChange: func(context.Context, mcp.Change) { changed <- struct{}{} }})
	if _, err := session.Subscribe(tb.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}); err != nil {
		tb.Fatal(err)
	}
	toggle := toggler(tb, all[0])
	return func() {
		toggle()
		<-changed
	}
}

// inBubble prepares an operation in a bubble with virtual time and returns a function that runs it there: bridges wait
// before they read the lists again.
func inBubble(tb testing.TB, prepare func(tb testing.TB) func()) func() {
	requests, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		synctest.Test(tb.(*testing.T), func(t *testing.T) {
			operation := prepare(t)
			done <- struct{}{}
			for range requests {
				operation()
				done <- struct{}{}
			}
		})
	}()
	tb.Cleanup(func() {
		close(requests)
		<-done
	})
	<-done
	return func() {
		select {
		case requests <- struct{}{}:
			<-done
		case <-done: // the test has failed
			tb.FailNow()
		}
	}
}

func searching(tb testing.TB, source *server.Server) *client.Session {
	tb.Helper()
	p, err := search.New(source.Provider(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	s := newServer(nil)
	mount(tb, s, p)
	return connect(tb, s, nil)
}

func search1(tb testing.TB, session *client.Session) {
	tb.Helper()
	if _, err := session.CallTool(tb.Context(), search.SearchTool, map[string]any{"query": "tool0"}, nil); err != nil {
		tb.Fatal(err)
	}
}
