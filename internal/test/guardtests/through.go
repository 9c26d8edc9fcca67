package guardtests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Through returns calls of tools that are each made with a tool that calls others. Lists, and calls of other kinds, are those of the
// server itself.
func Through(caller *approvaltests.Caller, hides bool) Calls {
	passes := mcp.Guard{Name: "passes", Run: func(next mcp.Handler) mcp.Handler { return next }}
	return Calls{Hides: hides, Connect: func(ctx context.Context, t testing.TB, s *server.Server, logger *slog.Logger, opts *client.Options) *client.Session {
		t.Helper()
		replica, err := caller.Replica(s.Provider(), passes, logger)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = replica.Shutdown(context.WithoutCancel(ctx)) })
		front := newServer(&server.Options{Logger: quiet(), Middleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if call.Method() != mcp.MethodToolsCall {
					return s.Serve(ctx, call)
				}
				var name string
				if err := json.Unmarshal(call.Member("name"), &name); err != nil {
					return nil, err
				}
				target := &mcp.Target{Kind: mcp.KindTool, Name: name}
				call.Resolve(target, "", nil)
				result, err := replica.Serve(ctx, call, target)
				if errors.Is(err, approvaltests.ErrNotAsked) {
					return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("unknown tool: %q", name)}
				}
				if refusal, ok := errors.AsType[mcp.ToolRefusal](err); ok && refusal.ToolResult() != nil {
					return refusal.ToolResult(), nil
				}
				return result, err
			}
		}}})
		return connected(ctx, t, transport.Pipe(front), opts)
	}}
}

func connected(ctx context.Context, t testing.TB, dialer transport.Dialer, opts *client.Options) *client.Session {
	t.Helper()
	session, err := client.Connect(ctx, dialer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}
