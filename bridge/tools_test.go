package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// library returns a server with a tool for each kind of result.
func library() *fakeServer {
	answers := map[string]string{
		"text":  `{"content":[{"type":"text","text":"a"}]}`,
		"fail":  `{"content":[{"type":"text","text":"no"},{"type":"text","text":"dialer"}],"isError":true}`,
		"value": `{"content":[{"type":"text","text":"{}"}],"structuredContent":{"z":9007199254740993,"a":1}}`,
		"odd":   `{"content":"none"}`,
	}
	return &fakeServer{era: client.Legacy, answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		switch req.Method {
		case mcp.MethodToolsList:
			return `{"tools":[{"name":"text","description":"Says \u0061.","inputSchema":{"type":"object","properties":{"b":{"const":1e2}}}},` +
				`{"name":"fail","inputSchema":{"type":"object"}},{"name":"value","title":"V"},{"name":"odd","inputSchema":{}}]}`, nil
		case mcp.MethodToolsCall:
			return answers[strings.Trim(string(req.Member("name")), `"`)], nil
		}
		return "", nil
	}}
}

func TestTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, nil, bridge.Config{Alias: "l", Dialer: pipeTo(library())})
		if got := names(b.Catalog(), mcp.KindTool); got != "l__text l__fail l__value l__odd" {
			t.Errorf("the names are %q", got)
		}
		if tools, err := b.Tools(t.Context()); err != nil || len(tools) != 4 || tools[0].Name != "l__text" || tools[0].Description != "Says a." {
			t.Errorf("the tools are %+v, %v", tools, err)
		}
	})
}

func TestCallTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, nil, bridge.Config{Alias: "l", Dialer: pipeTo(library())})
		result, err := b.CallTool(t.Context(), "l__value", nil)
		if err != nil || string(result.StructuredContent) != `{"z":9007199254740993,"a":1}` {
			t.Errorf("the result is %+v, %v", result, err)
		}
		result, err = b.CallTool(t.Context(), "l__fail", jsonRaw(`{"a":1}`))
		if err != nil || !result.IsError {
			t.Errorf("a failure is %+v, %v", result, err)
		}
		_, err = b.CallTool(t.Context(), "l__odd", nil)
		wantFailure(t, err, bridge.Malformed, jsonrpc.MaybeExecuted)
		for _, name := range []string{"", "text", "l__none", "l__text "} {
			if _, err := b.CallTool(t.Context(), name, nil); !errors.Is(err, bridge.ErrUnknownTool) {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, arguments := range []string{"", "[]", "null", "{", `{},"_meta":{"progressToken":1}`, `{}}`, `{"a":1,"a":2`} {
			_, err := b.CallTool(t.Context(), "l__text", jsonRaw(arguments))
			if failed, ok := err.(*jsonrpc.Error); !ok || failed.Code != jsonrpc.InvalidParams {
				t.Errorf("arguments %s: %v", arguments, err)
			}
		}
	})
}

func TestInstructions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := library()
		bound := strings.Repeat("é", 10_000)
		longest := bound[:16<<10]
		speaks := func(text string) *fakeServer {
			p := library()
			p.capabilities = `{"tools":{}},"instructions":` + text
			return p
		}
		down := dialerTo(long)
		down.refuse.Store(true)
		b := newBridge(t, nil,
			bridge.Config{Alias: "a", Dialer: pipeTo(speaks(`"Ask first."`))},
			bridge.Config{Alias: "silent", Dialer: pipeTo(library())},
			bridge.Config{Alias: "down", Dialer: down},
			bridge.Config{Alias: "b", Dialer: pipeTo(speaks(`"` + bound + `"`))},
			bridge.Config{Alias: "c", Dialer: pipeTo(speaks(`"` + longest + `"`))})
		want := "## a\n\nAsk first.\n\n## b\n\n" + longest + "…\n\n## c\n\n" + longest
		if got := b.Instructions(); got != want {
			t.Errorf("the instructions have %d bytes: %.100q", len(got), got)
		}
	})
}

// TestEveryCallIsGuarded: every call passes the guards and middleware of a bridge, and no list has a hidden entry.
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
		testClient, ann := t.Context(), transport.WithPrincipal(t.Context(), "ann")

		for ctx, want := range map[context.Context]string{testClient: "a__open a__frozen", ann: "a__open a__secret a__frozen"} {
			var got []string
			tools, err := b.Tools(ctx)
			for _, tool := range tools {
				got = append(got, tool.Name)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("the tools are %s, %v, want %s", got, err, want)
			}
		}
		for dialer, call := range map[string]func(ctx context.Context, name string) error{
			"CallTool": func(ctx context.Context, name string) error {
				_, err := b.CallTool(ctx, name, nil)
				return err
			},
			"llm.Handler": func(ctx context.Context, name string) error {
				_, err := llm.NewHandler(b)(ctx, name, nil)
				return err
			},
			"FirstMatch": func(ctx context.Context, name string) error {
				_, err := llm.FirstMatch(llm.NewHandler(b), llm.NewHandler(b))(ctx, name, nil)
				return err
			},
		} {
			passed = nil
			if err := call(testClient, "a__secret"); !errors.Is(err, bridge.ErrUnknownTool) {
				t.Errorf("%s: a hidden tool: %v", dialer, err)
			}
			if failed, ok := errors.AsType[*jsonrpc.Error](call(ann, "a__frozen")); !ok || !strings.Contains(string(failed.Data), `"FORBIDDEN","guard":"frozen"`) {
				t.Errorf("%s: a call that is refused: %v", dialer, failed)
			}
			if err := errors.Join(call(ann, "a__secret"), call(testClient, "a__open")); err != nil {
				t.Errorf("%s: %v", dialer, err)
			}
			if got := strings.Join(passed, ", "); got != "a__secret of ann, a__open of " {
				t.Errorf("%s: the middleware has seen %s", dialer, got)
			}
		}
	})
}

// A bridge that was never started says so, instead of having no tools.
func TestABridgeThatWasNotStarted(t *testing.T) {
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "a", Dialer: pipeTo(echo(nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Tools(t.Context()); !errors.Is(err, bridge.ErrNotStarted) {
		t.Errorf("Tools: %v", err)
	}
	for _, name := range []string{"a__echo", "echo"} {
		if _, err := b.CallTool(t.Context(), name, nil); !errors.Is(err, bridge.ErrNotStarted) {
			t.Errorf("CallTool %s: %v", name, err)
		}
	}
	stop, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := b.CallTool(t.Context(), "echo", nil); !errors.Is(err, bridge.ErrUnknownTool) {
		t.Errorf("CallTool of the started bridge: %v", err)
	}
}
