package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newMixed is a server with one entry of each kind.
func newMixed() *server.Server {
	s := newElicitServer()
	server.AddTool(s, server.Tool{Name: "step"}, func(ctx context.Context, r *server.Request, in stepsIn) (int, error) {
		return in.Steps, r.Progress(ctx, float64(in.Steps), 0, "")
	})
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, in struct{ Name string }) (string, error) {
		return "Hello " + in.Name, nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "Name"}, func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
		return []string{"Ann"}, nil
	})
	server.AddResource(s, server.Resource{URI: "note://1"}, func(context.Context, *server.Request) (string, error) { return "note", nil })
	return s
}

// recordMiddleware records the calls that pass.
func recordMiddleware(notes *[]string, name string) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			*notes = append(*notes, name+" "+call.Method())
			result, err := next(ctx, call)
			*notes = append(*notes, "after "+name)
			return result, err
		}
	}
}

// TestMiddleware checks that each call passes all middleware once, in order.
func TestMiddleware(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var notes []string
		session := connect(t, transporttests.Dialer(t, newMixed()), client.Options{
			Era: era, Middleware: []mcp.Middleware{recordMiddleware(&notes, "outer"), recordMiddleware(&notes, "inner")},
			Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"wood":"oak"}`)}, nil
			},
		})
		ctx := t.Context()
		for method, call := range map[string]func() (got, want string, err error){
			mcp.MethodToolsCall: func() (string, string, error) {
				told := ""
				result, err := session.CallTool(ctx, "step", stepsIn{3}, &client.CallOptions{Progress: func(*mcp.ProgressParams) { told = " told" }})
				if err != nil {
					return "", "", err
				}
				return result.Content[0].(*mcp.TextContent).Text + told, "3 told", nil
			},
			mcp.MethodToolsCall + " that asks": func() (string, string, error) {
				got, err := client.CallAs[string](ctx, session, "three", nil, nil)
				return got, "oak oak oak", err
			},
			mcp.MethodToolsList: func() (string, string, error) {
				for tool, err := range session.Tools(ctx, nil) {
					return tool.Name, "add", err
				}
				return "", "", nil
			},
			mcp.MethodResourcesRead: func() (string, string, error) {
				read, err := session.ReadResource(ctx, "note://1", nil)
				if err != nil {
					return "", "", err
				}
				return read.Contents[0].(*mcp.TextResourceContents).Text, "note", nil
			},
			mcp.MethodPromptsGet: func() (string, string, error) {
				prompt, err := session.GetPrompt(ctx, "greet", map[string]string{"Name": "Ann"}, nil)
				if err != nil {
					return "", "", err
				}
				return prompt.Messages[0].Content.(*mcp.TextContent).Text, "Hello Ann", nil
			},
			mcp.MethodComplete: func() (string, string, error) {
				values, err := session.CompletePrompt(ctx, "greet", "Name", "A", nil, nil)
				if err != nil {
					return "", "", err
				}
				return values.Values[0], "Ann", nil
			},
			mcp.MethodResourcesList + " as it is": func() (string, string, error) {
				result, err := session.Call(ctx, mcp.MethodResourcesList, nil, nil)
				return string(result[:1]), "{", err
			},
		} {
			notes = nil
			got, want, err := call()
			if err != nil || got != want {
				t.Errorf("%s gives %q, %v, want %q", method, got, err, want)
			}
			method, _, _ = strings.Cut(method, " ")
			if diff := cmp.Diff([]string{"outer " + method, "inner " + method, "after inner", "after outer"}, notes); diff != "" {
				t.Error(diff)
			}
		}
		notes = nil
		if err := session.Ping(ctx); err != nil || len(notes) > 0 {
			t.Errorf("a ping passes %v, with error %v", notes, err)
		}
	})
}

// TestMiddlewareChanges checks that middleware can read the caller, change requests and results,
// and refuse.
func TestMiddlewareChanges(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		errRefused := errors.New("refused")
		var change func(ctx context.Context, call *mcp.Call, next mcp.Handler) (mcp.Result, error)
		session := connect(t, transporttests.Dialer(t, newMixed()), client.Options{
			Info: mcp.Implementation{Name: "me", Version: "1"}, Era: era,
			Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) { return change(ctx, call, next) }
			}},
		})
		step := func() (int, error) { return client.CallAs[int](t.Context(), session, "step", stepsIn{3}, nil) }

		change = func(ctx context.Context, call *mcp.Call, next mcp.Handler) (mcp.Result, error) {
			if call.Target() != nil || call.Caller.Info.Name != "me" || call.Caller.Version != session.Version() {
				t.Errorf("the call is of %+v for %v", call.Caller, call.Target())
			}
			params, err := jsonscan.Splice(nil, call.Params(), jsonscan.Edit{Name: "arguments", Value: []byte(`{"steps":7}`)})
			if err != nil {
				return nil, err
			}
			changed, err := call.WithParams(params)
			if err != nil {
				return nil, err
			}
			return next(ctx, changed)
		}
		if got, err := step(); err != nil || got != 7 {
			t.Errorf("with other arguments the tool gives %d, %v", got, err)
		}
		change = func(ctx context.Context, call *mcp.Call, next mcp.Handler) (mcp.Result, error) {
			if _, err := next(ctx, call); err != nil {
				return nil, err
			}
			return mcp.Raw(`{"content":[{"type":"text","text":"9"}]}`), nil
		}
		if got, err := step(); err != nil || got != 9 {
			t.Errorf("the changed result is %d, %v", got, err)
		}
		change = func(context.Context, *mcp.Call, mcp.Handler) (mcp.Result, error) { return nil, errRefused }
		_, err := step()
		failed(t, err, jsonrpc.NotSent)
		if !errors.Is(err, errRefused) {
			t.Errorf("the error is %v", err)
		}
		change = func(ctx context.Context, call *mcp.Call, next mcp.Handler) (mcp.Result, error) {
			_, err := next(ctx, call)
			return nil, errors.Join(errRefused, err)
		}
		_, err = step()
		failed(t, err, jsonrpc.MaybeExecuted)
		change = func(context.Context, *mcp.Call, mcp.Handler) (mcp.Result, error) { return mcp.Raw(`{`), nil }
		_, err = step()
		failed(t, err, jsonrpc.NotSent)
		change = func(context.Context, *mcp.Call, mcp.Handler) (mcp.Result, error) { return nil, nil }
		_, err = step()
		failed(t, err, jsonrpc.NotSent)
		change = func(ctx context.Context, call *mcp.Call, next mcp.Handler) (mcp.Result, error) {
			return next(ctx, call)
		}
		_, err = session.GetPrompt(t.Context(), "nothing", nil, nil)
		if _, ok := err.(*jsonrpc.Error); !ok {
			t.Errorf("an error of the server is %T %v", err, err)
		}
	})
}

// TestMiddlewareForwards checks that each run of a forwarded call passes the middleware with its
// own caller.
func TestMiddlewareForwards(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var notes []string
		session := connect(t, transporttests.Dialer(t, newMixed()), client.Options{
			Era: era, Capabilities: &mcp.ClientCapabilities{}, Middleware: []mcp.Middleware{recordMiddleware(&notes, "m"), func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					notes = append(notes, call.Caller.Principal)
					return next(ctx, call)
				}
			}},
		})
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{"name":"x_step","arguments":{"steps":3}}`))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{Version: mcp.LatestVersion, Principal: "ann"}, nil)
		result, err := session.Forward(t.Context(), &call, &client.ForwardOptions{Name: "step"})
		if text, _ := result.AppendJSON(nil); err != nil || !bytes.Contains(text, []byte(`"3"`)) {
			t.Errorf("the result is %v, %v", result, err)
		}
		if diff := cmp.Diff([]string{"m " + mcp.MethodToolsCall, "ann", "after m"}, notes); diff != "" {
			t.Error(diff)
		}
	})
}
