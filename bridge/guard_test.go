package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// TestEveryCallIsGuarded: there is no way to a tool past the guards and middleware of a bridge,
// and what they hide is listed nowhere.
func TestEveryCallIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var passed []string
		b := newBridge(t, &bridge.Options{
			Guards: []mcp.Guard{
				{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, target *mcp.Target) bool {
					return target.Origin.Name != "secret" || caller.Principal == "ann"
				}},
				{Name: "frozen", Check: func(_ context.Context, call *mcp.Call) error {
					if call.Target().Origin.Name == "frozen" {
						return errors.New("it is frozen")
					}
					return nil
				}},
			},
			CallMiddleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					passed = append(passed, call.Target().Name+" of "+call.Caller.Principal)
					return next(ctx, call)
				}
			}},
		}, bridge.Config{Alias: "a", Dialer: pipeTo(toolsOnly(client.Legacy, "open", "secret", "frozen"))})
		guest, ann := t.Context(), transport.WithPrincipal(t.Context(), "ann")

		for ctx, want := range map[context.Context]string{guest: "a__open a__frozen", ann: "a__open a__secret a__frozen"} {
			var got []string
			tools, err := b.Tools(ctx)
			for _, tool := range tools {
				got = append(got, tool.Name)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("the tools are %s, %v, want %s", got, err, want)
			}
			functions, err := b.Functions(ctx, bridge.Anthropic)
			if err != nil || strings.Contains(string(functions), "secret") != strings.Contains(want, "secret") {
				t.Errorf("the functions are %s, %v", functions, err)
			}
		}
		for way, call := range map[string]func(ctx context.Context, name string) error{
			"CallTool": func(ctx context.Context, name string) error {
				_, err := b.CallTool(ctx, name, nil)
				return err
			},
			"Handler": func(ctx context.Context, name string) error {
				_, err := b.Handler()(ctx, name, nil)
				return err
			},
			"Compose": func(ctx context.Context, name string) error {
				_, err := bridge.Compose(b.Handler(), b.Handler())(ctx, name, nil)
				return err
			},
		} {
			passed = nil
			if err := call(guest, "a__secret"); !errors.Is(err, bridge.ErrUnknownTool) {
				t.Errorf("%s: a hidden tool: %v", way, err)
			}
			if failed, ok := errors.AsType[*jsonrpc.Error](call(ann, "a__frozen")); !ok || !strings.Contains(string(failed.Data), `"FORBIDDEN","guard":"frozen"`) {
				t.Errorf("%s: a call that is refused: %v", way, failed)
			}
			if err := errors.Join(call(ann, "a__secret"), call(guest, "a__open")); err != nil {
				t.Errorf("%s: %v", way, err)
			}
			if got := strings.Join(passed, ", "); got != "a__secret of ann, a__open of " {
				t.Errorf("%s: the middleware has seen %s", way, got)
			}
		}
	})
}
