//go:build soak

package growth

import (
	"context"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// serverRows are those of a server without a bridge.
func serverRows() []row {
	return []row{
		{of: "tools", operation: "registration of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			return func() { serverWithTools(n) }
		}},
		{of: "tools", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, serverWithTools(n))
			return func() { call(tb, session, "tool0") }
		}},
	}
}

func serverWithTools(n int) *server.Server {
	s := newServer()
	for i := range n {
		server.AddTool(s, server.Tool{Name: fmt.Sprint("tool", i)}, answer)
	}
	return s
}

func newServer() *server.Server {
	return server.New(mcp.Implementation{Name: "many", Version: "1.0.0"}, nil)
}

func answer(context.Context, *server.Request, struct{}) (string, error) { return "yes", nil }

func connect(tb testing.TB, s *server.Server) *client.Session {
	tb.Helper()
	session, err := client.Connect(tb.Context(), transport.Pipe(s), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { session.Close() })
	return session
}

func call(tb testing.TB, session *client.Session, tool string) {
	tb.Helper()
	if _, err := session.CallTool(tb.Context(), tool, nil, nil); err != nil {
		tb.Fatal(err)
	}
}
