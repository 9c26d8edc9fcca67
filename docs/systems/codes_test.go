package systems_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// What lauren-mcp answers with codes of its own (-32001 for a tool, -32003 for a prompt, -32004 for a connection) has the
// codes of the specification in every version: MCP 2026-07-28, server/tools and server/prompts, section Error Handling.
func TestCodesOfTheSpecification(t *testing.T) {
	s := newServer("shop", "search")
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(context.Context, *server.Request, struct{}) (string, error) { return "hello", nil })
	server.AddResource(s, server.Resource{URI: "/reports"}, func(context.Context, *server.Request) (string, error) { return "none", nil })
	// A server that was there in an earlier run, and cannot be reached now.
	gone := bridge.Proxy(stdio.Command("/no/such/program", nil, nil), &bridge.ProxyOptions{
		Lazy: true, CachedCatalog: newServer("gone", "search").Catalog(), Logger: slog.New(slog.DiscardHandler),
	})
	down := newServer("down")
	if err := down.Mount(gone, &server.MountOptions{Prefix: "gone_"}); err != nil {
		t.Fatal(err)
	}
	urls := make(map[*server.Server]string)
	for _, s := range []*server.Server{s, down} {
		endpoint := streamable.Handler(s, nil)
		web := httptest.NewServer(endpoint)
		t.Cleanup(func() {
			_ = s.Shutdown(ctx)
			endpoint.Close()
			web.Close()
		})
		urls[s] = web.URL
	}
	for _, version := range mcp.Versions() {
		t.Run(string(version), func(t *testing.T) {
			connect := func(s *server.Server) *client.Session {
				session, err := client.Connect(t.Context(), streamable.Dial(urls[s], nil), &client.Options{Version: version})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { session.Close() })
				return session
			}
			session := connect(s)
			_, tool := session.CallTool(t.Context(), "nothing", nil, nil)
			_, prompt := session.GetPrompt(t.Context(), "nothing", nil, nil)
			_, resource := session.ReadResource(t.Context(), "/nothing", nil)
			_, connection := connect(down).CallTool(t.Context(), "gone_search", nil, nil)
			notFound := mcp.CodeResourceNotFound
			if version.Modern() {
				notFound = jsonrpc.InvalidParams
			}
			for _, test := range []struct {
				name string
				err  error
				want jsonrpc.Code
			}{
				{"tool", tool, jsonrpc.InvalidParams}, {"prompt", prompt, jsonrpc.InvalidParams}, {"resource", resource, notFound},
				{"connection", connection, jsonrpc.InternalError},
			} {
				if e, ok := errors.AsType[*jsonrpc.Error](test.err); !ok || e.Code != test.want {
					t.Errorf("%s: %v, want the code %d", test.name, test.err, test.want)
				}
			}
		})
	}
}
