package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A trace remembers what a call passed.
type trace struct {
	mu    sync.Mutex
	steps []string
}

func (tr *trace) step(step string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = append(tr.steps, step)
}

// take returns the steps so far and forgets them.
func (tr *trace) take() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	steps := tr.steps
	tr.steps = nil
	return steps
}

func (tr *trace) interceptor(name string) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			tr.step(name)
			defer tr.step("/" + name)
			return next(ctx, call)
		}
	}
}

// around has one of each, with names that begin with where they are.
func (tr *trace) around(where string) server.Around {
	return server.Around{
		Outer:  []mcp.Middleware{tr.interceptor(where + "-outer1"), tr.interceptor(where + "-outer2")},
		Guards: []server.Guard{{Name: "g", Allow: func(context.Context, *server.Request) error { tr.step(where + "-guard"); return nil }}},
		Mappers: []server.ErrorMapper{
			func(context.Context, *server.Request, error) (mcp.Result, error) {
				tr.step(where + "-mapper1")
				return nil, nil
			},
			func(context.Context, *server.Request, error) (mcp.Result, error) {
				tr.step(where + "-mapper2")
				return nil, nil
			},
		},
		Inner: []mcp.Middleware{tr.interceptor(where + "-inner1"), tr.interceptor(where + "-inner2")},
	}
}

// TestAround: what a call passes on its way to the function, and in which order.
func TestAround(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		fails := false
		s := newServer(&server.Options{Around: tr.around("s"), Logger: quiet()})
		addEveryKind(s, tr.around("e"), func(*server.Request) error {
			tr.step("function")
			if fails {
				return errors.New("broken")
			}
			return nil
		})
		session := connect(t, s, era)
		outer := []string{"s-outer1", "s-outer2", "e-outer1", "e-outer2", "s-guard", "e-guard"}
		inner := []string{"s-inner1", "s-inner2", "e-inner1", "e-inner2", "function", "/e-inner2", "/e-inner1", "/s-inner2", "/s-inner1"}
		mappers := []string{"e-mapper1", "e-mapper2", "s-mapper1", "s-mapper2"}
		back := []string{"/e-outer2", "/e-outer1", "/s-outer2", "/s-outer1"}
		for _, test := range everyKind {
			for _, fails = range []bool{false, true} {
				tr.take()
				_, err := raw(t, session, test.method, test.params)
				want := slices.Concat(outer, inner, back)
				if fails {
					want = slices.Concat(outer, inner, mappers, back)
				}
				if got := tr.take(); !slices.Equal(got, want) {
					t.Errorf("%s %s: the call passes\n%q, want\n%q", test.kind, test.name, got, want)
				}
				if refused := fails && test.kind != "tool"; (err != nil) != refused {
					t.Errorf("%s %s: the error is %v", test.kind, test.name, err)
				}
			}
		}
		// Arguments that are not valid get as far as the guards, and are no failure of
		// the function.
		for _, test := range []struct{ method, params string }{
			{mcp.MethodToolsCall, `{"name":"tool","arguments":{"x":7}}`},
			{mcp.MethodToolsCall, `{"name":"tool","arguments":7}`},
			{mcp.MethodToolsCall, `{"name":"raw"}`},
			{mcp.MethodPromptsGet, `{"name":"prompt"}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x"}}`},
		} {
			tr.take()
			_, _ = raw(t, session, test.method, test.params)
			if got, want := tr.take(), slices.Concat(outer, back); !slices.Equal(got, want) {
				t.Errorf("%s: the call passes\n%q, want\n%q", test.params, got, want)
			}
		}
	})
}

// TestAroundIsCopied: entries may share what stands around them.
func TestAroundIsCopied(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		shared := server.Around{Inner: append(make([]mcp.Middleware, 0, 8), tr.interceptor("shared"))}
		s := newServer(&server.Options{Around: server.Around{Inner: append(make([]mcp.Middleware, 0, 8), tr.interceptor("server"))}})
		for _, name := range []string{"a", "b"} {
			around := shared
			around.Inner = append(around.Inner, tr.interceptor(name)) // into the same array
			server.AddTool(s, server.Tool{Name: name, Around: around}, nothing[struct{}])
		}
		session := connect(t, s, era)
		for _, name := range []string{"a", "b"} {
			call(t, session, name, `{}`)
			if got, want := tr.take(), []string{"server", "shared", name, "/" + name, "/shared", "/server"}; !slices.Equal(got, want) {
				t.Errorf("%s: the call passes %q, want %q", name, got, want)
			}
		}
	})
}

// TestAroundIsKept as it was when it was given.
func TestAroundIsKept(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		around := func(where string) server.Around {
			return server.Around{Metadata: map[string]any{where: "kept"}, Guards: []server.Guard{{Name: "look", Allow: func(_ context.Context, r *server.Request) error {
				if r.Metadata(where) != "kept" {
					return fmt.Errorf("the metadata is %v", r.Metadata(where))
				}
				return nil
			}}}}
		}
		ofServer, ofEntries, ofChild := around("server"), around("entry"), server.Around{}
		s := newMounted(t, ofServer, ofChild, ofEntries, func(*server.Request) error { return nil })
		server.AddTool(s, server.Tool{Name: "own", Around: ofEntries}, nothing[xIn])
		ofServer.Metadata["server"], ofEntries.Metadata["entry"] = "changed", "changed"
		ofServer.Guards[0].Allow, ofEntries.Guards[0].Allow = nil, nil
		session := connect(t, s, era)
		call(t, session, "own", `{"x":""}`)
		for _, test := range mountedKinds("p_") {
			if _, err := raw(t, session, test.method, test.params); err != nil {
				t.Errorf("%s: %v", test.params, err)
			}
		}
	})
}

// TestInnerInterceptors may look at the result, replace it, refuse and run the function
// again.
func TestInnerInterceptors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		runs := 0
		s := newServer(&server.Options{Logger: quiet()})
		add := func(name string, inner mcp.Middleware) {
			server.AddTool(s, server.Tool{Name: name, Around: server.Around{Inner: []mcp.Middleware{inner}}},
				func(_ context.Context, _ *server.Request, in point) (point, error) { runs++; return in, nil })
		}
		add("twice", func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if _, err := next(ctx, call); err != nil {
					return nil, err
				}
				return next(ctx, call)
			}
		})
		add("replace", func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				if err != nil {
					return nil, err
				}
				text, err := result.AppendJSON(nil)
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(fmt.Sprint(len(text) > 0, string(call.Member("arguments"))))}}, err
			}
		})
		add("refuse", func(mcp.Handler) mcp.Handler {
			return func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, errors.New("out of flour") }
		})
		add("forbid", func(mcp.Handler) mcp.Handler {
			return func(context.Context, *mcp.Call) (mcp.Result, error) {
				return nil, &jsonrpc.Error{Code: -403, Message: "no"}
			}
		})
		add("late", func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				changed, err := call.WithParams(jsonRaw(`{"name":"late","arguments":{"x":7}}`))
				if err != nil {
					return nil, err
				}
				return next(ctx, changed)
			}
		})
		add("panic", func(mcp.Handler) mcp.Handler {
			return func(context.Context, *mcp.Call) (mcp.Result, error) { panic("secret") }
		})
		session := connect(t, s, era)
		for _, test := range []struct {
			tool, says string
			isError    bool
			runs       int
		}{
			{"twice", `{"x":1}`, false, 2}, {"replace", `true{"x":1}`, false, 1},
			{"refuse", "out of flour", true, 0},
		} {
			runs = 0
			result := call(t, session, test.tool, `{"x":1}`)
			if texts(result) != test.says || result.IsError != test.isError || runs != test.runs {
				t.Errorf("%s says %q, error %t, after %d runs", test.tool, texts(result), result.IsError, runs)
			}
		}
		_, err := session.CallTool(t.Context(), "forbid", jsonRaw(`{"x":1}`), nil)
		wantCode(t, err, -403)
		runs = 0
		_, err = session.CallTool(t.Context(), "late", jsonRaw(`{"x":1}`), nil)
		if wantCode(t, err, jsonrpc.InternalError); runs != 0 || !strings.Contains(message(err), "changed the arguments") {
			t.Errorf("the client is told %q, after %d runs", message(err), runs)
		}
		_, err = session.CallTool(t.Context(), "panic", jsonRaw(`{"x":1}`), nil)
		if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) {
			t.Errorf("the client is told %q", message(err))
		}
	})
}

// TestOuterInterceptorOfAnEntry may change what the function is given: its arguments
// have not been looked at.
func TestOuterInterceptorOfAnEntry(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		with := func(params string) server.Around {
			return server.Around{Outer: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					changed, err := call.WithParams(jsonRaw(params))
					if err != nil {
						return nil, err
					}
					return next(ctx, changed)
				}
			}}}
		}
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "tool", Around: with(`{"name":"tool","arguments":{"x":2}}`)},
			func(_ context.Context, _ *server.Request, in point) (int, error) { return in.X, nil })
		server.AddTool(s, server.Tool{Name: "list", Around: with(`{"name":"list","arguments":[]}`)}, nothing[point])
		server.AddPrompt(s, server.Prompt{Name: "p", Around: with(`{"name":"p","arguments":{"x":"2"}}`)},
			func(_ context.Context, _ *server.Request, in xIn) (string, error) { return in.X, nil })
		server.AddCompletion(s, server.Completion{Prompt: "p", Argument: "x", Around: with(`{"argument":{"name":"x","value":"2"},"context":{"arguments":{"y":"3"}}}`)},
			func(_ context.Context, _ *server.Request, typed string, others map[string]string) ([]string, error) {
				return []string{typed, others["y"]}, nil
			})
		session := connect(t, s, era)
		if got := texts(call(t, session, "tool", `{"x":1}`)); got != "2" {
			t.Errorf("the tool says %s", got)
		}
		_, err := session.CallTool(t.Context(), "list", jsonRaw(`{"x":1}`), nil)
		wantCode(t, err, jsonrpc.InvalidParams)
		prompt, err := session.Prompt(t.Context(), "p", map[string]string{"x": "1"}, nil)
		if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "2" {
			t.Errorf("the prompt is %+v, %v", prompt, err)
		}
		values, err := session.CompletePrompt(t.Context(), "p", "x", "1", nil)
		if err != nil || !slices.Equal(values.Values, []string{"2", "3"}) {
			t.Errorf("the values are %+v, %v", values, err)
		}
	})
}

// A shortage is an error with a type.
type shortage struct{ Of string }

func (s *shortage) Error() string { return "out of " + s.Of }

// TestErrorMappers: the first that knows an error has the last word.
func TestErrorMappers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		says := func(text string) mcp.Result { return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}} }
		s := newServer(&server.Options{Logger: quiet(), Around: server.Around{Mappers: []server.ErrorMapper{
			func(_ context.Context, r *server.Request, err error) (mcp.Result, error) {
				tr.step("server " + r.Name() + ": " + err.Error())
				if errors.Is(err, fs.ErrNotExist) {
					return says("try another name"), nil
				}
				return nil, nil
			},
		}}})
		own := server.Around{Mappers: []server.ErrorMapper{
			func(_ context.Context, _ *server.Request, err error) (mcp.Result, error) {
				if e, ok := errors.AsType[*shortage](err); ok {
					return says("bake without " + e.Of), nil
				}
				return nil, nil
			},
			func(_ context.Context, _ *server.Request, err error) (mcp.Result, error) {
				switch err.Error() {
				case "replace":
					return nil, &jsonrpc.Error{Code: -409, Message: "replaced"}
				case "other":
					return nil, errors.New("another error")
				case "panic":
					panic("secret")
				}
				return nil, nil
			},
		}}
		for name, err := range map[string]error{
			"none": nil, "short": fmt.Errorf("baking: %w", &shortage{"salt"}), "missing": fmt.Errorf("reading: %w", fs.ErrNotExist), "unknown": errors.New("unknown"),
			"replace": errors.New("replace"), "other": errors.New("other"), "panic": errors.New("panic"), "protocol": &jsonrpc.Error{Code: -400, Message: "protocol"},
		} {
			server.AddTool(s, server.Tool{Name: name, Around: own}, func(context.Context, *server.Request, struct{}) (string, error) { return "fine", err })
		}
		session := connect(t, s, era)
		for _, test := range []struct {
			tool, says string
			isError    bool
			steps      []string
		}{
			{"none", "fine", false, nil},
			{"short", "bake without salt", false, nil},
			{"missing", "try another name", false, []string{"server missing: reading: file does not exist"}},
			{"unknown", "unknown", true, []string{"server unknown: unknown"}},
			{"other", "another error", true, nil},
		} {
			result := call(t, session, test.tool, `{}`)
			if texts(result) != test.says || result.IsError != test.isError {
				t.Errorf("%s says %q, error %t", test.tool, texts(result), result.IsError)
			}
			if steps := tr.take(); !slices.Equal(steps, test.steps) {
				t.Errorf("%s: the server's mapper sees %q", test.tool, steps)
			}
		}
		for tool, code := range map[string]jsonrpc.Code{"replace": -409, "panic": jsonrpc.InternalError, "protocol": -400} {
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			if wantCode(t, err, code); strings.Contains(message(err), "secret") {
				t.Errorf("%s: the client is told %v", tool, err)
			}
		}
	})
}

// TestErrorMappersOfOthers: prompts, resources and completions have them too, and what
// they make is a result of that kind.
func TestErrorMappersOfOthers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		instead := map[string]mcp.Result{
			"tool":              &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("instead")}},
			"resource":          &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.TextResourceContents{URI: "app:x", Text: "instead"}}},
			"resource template": &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.TextResourceContents{URI: "app:x", Text: "instead"}}},
			"prompt":            &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("instead")}}},
			"completion":        &mcp.CompleteResult{Completion: mcp.CompletionValues{Values: []string{"instead"}}},
		}
		s := newServer(&server.Options{Around: server.Around{Mappers: []server.ErrorMapper{
			func(_ context.Context, r *server.Request, _ error) (mcp.Result, error) { return instead[r.Kind()], nil },
		}}})
		addEveryKind(s, server.Around{}, func(*server.Request) error { return errors.New("broken") })
		session := connect(t, s, era)
		for _, test := range everyKind {
			if result, err := raw(t, session, test.method, test.params); err != nil || !strings.Contains(result, "instead") {
				t.Errorf("%s %s: the result is %s, %v", test.kind, test.name, result, err)
			}
		}
	})
}

// TestErrorMappersSeeNoQuestion: a question is no error, nor is a denial one of
// the function.
func TestErrorMappersSeeNoQuestion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet(), Around: server.Around{Mappers: []server.ErrorMapper{
			func(_ context.Context, _ *server.Request, err error) (mcp.Result, error) {
				t.Errorf("a mapper is asked about %v", err)
				return nil, nil
			},
		}}})
		server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			_, err := server.Elicit[sure](r, "sure", "Sure?")
			return "done", err
		})
		server.AddTool(s, server.Tool{Name: "shut", Around: server.Around{Guards: []server.Guard{{Name: "g"}}}}, nothing[struct{}])
		session := connectWith(t, s, accepting(era))
		if got := texts(call(t, session, "ask", `{}`)); got != "done" {
			t.Errorf("the tool says %q", got)
		}
		_, err := session.CallTool(t.Context(), "shut", nil, nil)
		wantCode(t, err, jsonrpc.InternalError)
	})
}
