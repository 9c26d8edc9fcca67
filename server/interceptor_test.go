package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestInterceptorsSeeAll: every call passes all of them, the first outermost.
func TestInterceptorsSeeAll(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var mu sync.Mutex
		var seen []string
		look := func(name string) mcp.Middleware {
			return func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					mu.Lock()
					seen = append(seen, name+" "+call.Method())
					mu.Unlock()
					return next(ctx, call)
				}
			}
		}
		s := newServer(&server.Options{Around: server.Around{Outer: []mcp.Middleware{look("outer"), look("inner")}}})
		returns(s, "tool", "")
		session := connect(t, s, era)
		var want []string
		for _, test := range []struct{ method, params string }{
			{mcp.MethodToolsList, `{}`}, {mcp.MethodToolsCall, `{"name":"tool"}`}, {mcp.MethodToolsCall, `{"name":"unknown"}`},
			{mcp.MethodPromptsList, `{}`}, {mcp.MethodPromptsGet, `{"name":"x"}`}, {mcp.MethodResourcesList, `{}`},
			{mcp.MethodResourceTemplatesList, `{}`}, {mcp.MethodResourcesRead, `{"uri":"a:b"}`}, {mcp.MethodComplete, `{}`}, {"x/unknown", `{}`},
		} {
			_, _ = raw(t, session, test.method, test.params) // most are refused
			want = append(want, "outer "+test.method, "inner "+test.method)
		}
		if !slices.Equal(seen, want) {
			t.Errorf("the interceptors see\n%q, want\n%q", seen, want)
		}
	})
}

// TestInterceptorChanges: what an interceptor changes is what runs, and nothing
// of what it replaced.
func TestInterceptorChanges(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		redact := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if call.Method() != mcp.MethodToolsCall {
					return next(ctx, call)
				}
				changed, err := call.WithParams(jsonRaw(`{"name":"tool","arguments":{"x":2},"_meta":{"m":"other"}}`))
				if err != nil {
					return nil, err
				}
				result, err := next(ctx, changed)
				if err != nil {
					return nil, err
				}
				text, err := result.AppendJSON(nil)
				return mcp.Raw(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)), err
			}
		}
		s := newServer(&server.Options{Around: server.Around{Outer: []mcp.Middleware{redact}}})
		server.AddTool(s, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, in point) (string, error) {
			return fmt.Sprint(in.X, string(r.Meta("m")), string(r.Call().Member("arguments"))), nil
		})
		session := connect(t, s, era)
		result, err := session.CallTool(t.Context(), "secret", jsonRaw(`{"x":1}`), &client.CallOptions{Meta: mcp.Meta(`{"m":"own"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := texts(result), `{"content":[{"type":"text","text":"2\"other\"{\"x\":2}"}]}`; got != want {
			t.Errorf("the tool says %s, want %s", got, want)
		}
	})
}

// TestInterceptorRefuses: an error of the protocol reaches the client, any other
// is masked.
func TestInterceptorRefuses(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		refuse := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				switch string(call.Member("name")) {
				case `"forbidden"`:
					return nil, &jsonrpc.Error{Code: -403, Message: "forbidden"}
				case `"secret"`:
					return nil, fmt.Errorf("the secret is 42")
				case `"nothing"`:
					return mcp.Raw(`null`), nil
				}
				return next(ctx, call)
			}
		}
		s := newServer(&server.Options{Around: server.Around{Outer: []mcp.Middleware{refuse}}, Logger: quiet()})
		session := connect(t, s, era)
		for tool, code := range map[string]jsonrpc.Code{
			"forbidden": -403, "secret": jsonrpc.InternalError, "nothing": jsonrpc.InternalError,
		} {
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			wantCode(t, err, code)
			if code == jsonrpc.InternalError && !reference.MatchString(message(err)) {
				t.Errorf("the client is told %q", message(err))
			}
		}
	})
}
