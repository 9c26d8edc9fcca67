package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A trace records steps.
type trace struct {
	mu    sync.Mutex
	steps []string
}

func (tr *trace) step(step string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = append(tr.steps, step)
}

// take returns the recorded steps and removes them.
func (tr *trace) take() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	steps := tr.steps
	tr.steps = nil
	return steps
}

func (tr *trace) middleware(name string) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			tr.step(name)
			defer tr.step("/" + name)
			return next(ctx, call)
		}
	}
}

// around has one of each, with names that begin with where they are.
func (tr *trace) around(where string) options {
	return options{
		Guards: []mcp.Guard{{
			Name: "g", Check: func(context.Context, *mcp.Call) error { tr.step(where + "-check"); return nil },
			Run: tr.middleware(where + "-run"),
		}},
		CallMiddleware: []mcp.Middleware{tr.middleware(where + "-call1"), tr.middleware(where + "-call2")},
	}
}

// TestChain checks the order of guards and middleware around a function.
func TestChain(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		fails := false
		opts := tr.around("s").options()
		opts.Middleware = []mcp.Middleware{tr.middleware("outer1"), tr.middleware("outer2")}
		s := newServer(opts)
		addEveryKind(s, tr.around("e"), func(*server.Request) error {
			tr.step("function")
			if fails {
				return errors.New("broken")
			}
			return nil
		})
		session := connect(t, s, era)
		checks := []string{"outer1", "outer2", "s-check", "e-check"}
		rest := []string{"s-run", "e-run", "s-call1", "s-call2", "e-call1", "e-call2", "function",
			"/e-call2", "/e-call1", "/s-call2", "/s-call1", "/e-run", "/s-run"}
		back := []string{"/outer2", "/outer1"}
		for _, test := range everyKind {
			for _, fails = range []bool{false, true} {
				tr.take()
				_, err := raw(t, session, test.method, test.params)
				if got, want := tr.take(), slices.Concat(checks, rest, back); !slices.Equal(got, want) {
					t.Errorf("%s %s: the call passes\n%q, want\n%q", test.kind, test.name, got, want)
				}
				if refused := fails && test.kind != "tool"; (err != nil) != refused {
					t.Errorf("%s %s: the error is %v", test.kind, test.name, err)
				}
			}
		}
		// Arguments that are not valid get as far as the checks.
		for _, test := range []struct{ method, params string }{
			{mcp.MethodToolsCall, `{"name":"tool","arguments":{"x":7}}`},
			{mcp.MethodToolsCall, `{"name":"tool","arguments":7}`},
			{mcp.MethodToolsCall, `{"name":"raw"}`},
			{mcp.MethodPromptsGet, `{"name":"prompt"}`},
		} {
			tr.take()
			_, _ = raw(t, session, test.method, test.params)
			if got, want := tr.take(), slices.Concat(checks, back); !slices.Equal(got, want) {
				t.Errorf("%s: the call passes\n%q, want\n%q", test.params, got, want)
			}
		}
	})
}

// TestMiddlewareIsCalledOnce checks that middleware is called once for each entry, so that it can
// keep state.
func TestMiddlewareIsCalledOnce(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		made := 0
		limit := func(next mcp.Handler) mcp.Handler {
			made++
			var calls int
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if calls++; calls > 2 {
					return nil, &jsonrpc.Error{Code: -429, Message: "too many"}
				}
				return next(ctx, call)
			}
		}
		limited := options{CallMiddleware: []mcp.Middleware{limit}}
		guard := withGuard(mcp.Guard{Name: "limit", Run: limit})
		atEntry, atServer, mounted := newServer(nil), newServer(guard.options()), newServer(nil)
		addEveryKind(atEntry, limited, func(*server.Request) error { return nil })
		addEveryKind(atServer, options{}, func(*server.Request) error { return nil })
		child := newServer(nil)
		addEveryKind(child, options{}, func(*server.Request) error { return nil })
		shutDownAtEnd(t, mounted)
		if err := mounted.Mount(child.Provider(), &server.MountOptions{Guards: guard.Guards}); err != nil {
			t.Fatal(err)
		}
		for where, s := range map[string]*server.Server{"entry": atEntry, "server": atServer, "mount": mounted} {
			session := connect(t, s, era)
			for _, test := range everyKind {
				if test.kind == "completion" {
					continue // it shares the function of its prompt or template
				}
				for n := range 4 {
					if n == 3 { // a change elsewhere changes nothing here
						replace(t, s, newTool(t, "other", ""))
						replace(t, child, newTool(t, "another", ""))
					}
					_, err := raw(t, session, test.method, test.params)
					if (n >= 2) != (err != nil) {
						t.Errorf("at the %s, call %d of %s: the error is %v", where, n+1, test.name, err)
					}
				}
			}
		}
		before := made
		session := connect(t, atEntry, era)
		for _, test := range everyKind {
			_, _ = raw(t, session, test.method, test.params)
		}
		if made != before {
			t.Errorf("calls have called the middleware %d times more", made-before)
		}
	})
}

// TestOptionsAreCopied checks entries whose options share slices.
func TestOptionsAreCopied(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		shared := append(make([]mcp.Middleware, 0, 8), tr.middleware("shared"))
		s := newServer(&server.Options{CallMiddleware: append(make([]mcp.Middleware, 0, 8), tr.middleware("server"))})
		for _, name := range []string{"a", "b"} {
			own := append(shared, tr.middleware(name)) // into the same array
			server.AddTool(s, server.Tool{Name: name, CallMiddleware: own}, nothing[struct{}])
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

// TestOptionsAreKept checks that later changes of the options have no effect.
func TestOptionsAreKept(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		around := func(where string) options {
			return options{Metadata: map[string]any{where: "kept"}, Guards: []mcp.Guard{{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
				if got := call.Target().Metadata[where]; got != "kept" {
					return fmt.Errorf("the metadata is %v", got)
				}
				return nil
			}}}}
		}
		ofServer, ofEntries := around("server"), around("entry")
		s := newMounted(t, ofServer, options{}, ofEntries, func(*server.Request) error { return nil })
		server.AddTool(s, server.Tool{Name: "own", Guards: ofEntries.Guards, Metadata: ofEntries.Metadata}, nothing[xIn])
		ofEntries.Metadata["entry"] = "changed"
		ofServer.Guards[0].Check, ofEntries.Guards[0].Check = nil, nil
		session := connect(t, s, era)
		call(t, session, "own", `{"x":""}`)
		for _, test := range mountedKinds("p_") {
			if _, err := raw(t, session, test.method, test.params); err != nil {
				t.Errorf("%s: %v", test.params, err)
			}
		}
	})
}

// TestCallMiddleware checks that middleware can read and replace the result, refuse, and repeat the
// call.
func TestCallMiddleware(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		runs := 0
		s := newServer(&server.Options{Logger: discardLogger()})
		add := func(name string, middleware mcp.Middleware) {
			server.AddTool(s, server.Tool{Name: name, CallMiddleware: []mcp.Middleware{middleware}},
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
			return func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, errors.New("the secret is 42") }
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
			runs       int
		}{{"twice", `{"x":1}`, 2}, {"replace", `true{"x":1}`, 1}} {
			runs = 0
			result := call(t, session, test.tool, `{"x":1}`)
			if textOf(result) != test.says || result.IsError || runs != test.runs {
				t.Errorf("%s says %q, error %t, after %d runs", test.tool, textOf(result), result.IsError, runs)
			}
		}
		_, err := session.CallTool(t.Context(), "forbid", jsonRaw(`{"x":1}`), nil)
		wantCode(t, err, -403)
		runs = 0
		_, err = session.CallTool(t.Context(), "late", jsonRaw(`{"x":1}`), nil)
		if wantCode(t, err, jsonrpc.InternalError); runs != 0 || !strings.Contains(message(err), "changed the arguments") {
			t.Errorf("the client is told %q, after %d runs", message(err), runs)
		}
		for _, tool := range []string{"refuse", "panic"} {
			_, err = session.CallTool(t.Context(), tool, jsonRaw(`{"x":1}`), nil)
			if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) {
				t.Errorf("%s: the client is told %q", tool, message(err))
			}
		}
	})
}

// TestChangedCall checks that the function gets what middleware changes on the call, except for the
// arguments.
func TestChangedCall(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		change := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if call.Target() == nil {
					return next(ctx, call)
				}
				params := fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"m":"changed"}}`, call.Target().Name, call.Member("arguments"))
				if uri := call.URI(); uri != "" {
					params = fmt.Sprintf(`{"uri":%q,"_meta":{"m":"changed"}}`, uri)
				}
				changed, err := call.WithParams(jsonRaw(params))
				if err != nil {
					return nil, err
				}
				caller := *call.Caller
				caller.Principal = "ada"
				changed.Caller = &caller
				return next(ctx, changed)
			}
		}
		for where, add := range map[string]func(opts *server.Options, entry *options){
			"middleware":        func(opts *server.Options, _ *options) { opts.Middleware = []mcp.Middleware{change} },
			"run of a guard":    func(opts *server.Options, _ *options) { opts.Guards = []mcp.Guard{{Name: "g", Run: change}} },
			"call middleware":   func(opts *server.Options, _ *options) { opts.CallMiddleware = []mcp.Middleware{change} },
			"at the entry":      func(_ *server.Options, entry *options) { entry.CallMiddleware = []mcp.Middleware{change} },
			"guard at an entry": func(_ *server.Options, entry *options) { entry.Guards = []mcp.Guard{{Name: "g", Run: change}} },
		} {
			opts, entry := &server.Options{Logger: discardLogger()}, options{}
			add(opts, &entry)
			seen := ""
			for _, mounted := range []bool{false, true} {
				s := newServer(opts)
				host := s
				if mounted {
					host = newServer(nil)
				}
				addEveryKind(host, entry, func(r *server.Request) error {
					seen = r.Caller().Principal + " " + string(r.Meta("m"))
					return nil
				})
				if mounted {
					mount(t, s, host, "")
				}
				session := connect(t, s, era)
				for _, test := range everyKind {
					if test.kind == "completion" {
						continue
					}
					seen = ""
					if _, err := raw(t, session, test.method, test.params); err != nil || seen != `ada "changed"` {
						t.Errorf("%s, mounted %t, %s: the function sees %q, %v", where, mounted, test.name, seen, err)
					}
				}
			}
		}
	})
}

// TestMiddlewareSeesAll checks that every request passes all middleware, with its target.
func TestMiddlewareSeesAll(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		look := func(name string) mcp.Middleware {
			return func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					target := "nothing"
					if t := call.Target(); t != nil {
						target = t.Name
					}
					tr.step(name + " " + call.Method() + " " + target)
					return next(ctx, call)
				}
			}
		}
		s := newServer(&server.Options{Middleware: []mcp.Middleware{look("outer"), look("inner")}, Guards: []mcp.Guard{denyGuard("shut")}, Logger: discardLogger()})
		addEveryKind(s, options{}, func(*server.Request) error { return nil })
		session := connect(t, s, era)
		for _, test := range []struct{ method, params, target string }{
			{mcp.MethodToolsList, `{}`, "nothing"}, {mcp.MethodToolsCall, `{"name":"tool"}`, "tool"}, {mcp.MethodToolsCall, `{"name":"unknown"}`, "nothing"},
			{mcp.MethodPromptsList, `{}`, "nothing"}, {mcp.MethodPromptsGet, `{"name":"prompt"}`, "prompt"}, {mcp.MethodResourcesList, `{}`, "nothing"},
			{mcp.MethodResourceTemplatesList, `{}`, "nothing"}, {mcp.MethodResourcesRead, `{"uri":"app:r"}`, "app:r"},
			{mcp.MethodResourcesRead, `{"uri":"app:t/9"}`, "app:t/{x}"}, {mcp.MethodResourcesRead, `{"uri":7}`, "nothing"},
			{mcp.MethodComplete, `{}`, "nothing"}, {mcp.MethodComplete, everyKind[5].params, "prompt"}, {"x/unknown", `{}`, "nothing"},
		} {
			tr.take()
			_, _ = raw(t, session, test.method, test.params) // most are refused
			wantSteps(t, &tr, "outer "+test.method+" "+test.target, "inner "+test.method+" "+test.target)
		}
	})
}

// TestMiddlewareRenames checks that a call with another name is for the entry with that name, and
// its guards.
func TestMiddlewareRenames(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		redirect := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				to, ok := map[string]string{`"a"`: `"b"`, `"c"`: `"shut"`, `"d"`: `"none"`}[string(call.Member("name"))]
				if !ok {
					return next(ctx, call)
				}
				changed, err := call.WithParams(jsonRaw(`{"name":` + to + `,"arguments":{"x":2},"_meta":{"m":"other"}}`))
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
		s := newServer(&server.Options{Middleware: []mcp.Middleware{redirect}, Logger: discardLogger()})
		server.AddTool(s, server.Tool{Name: "b"}, func(_ context.Context, r *server.Request, in point) (string, error) {
			return fmt.Sprint(in.X, string(r.Meta("m")), r.Call().Target().Name, string(r.Call().Member("arguments"))), nil
		})
		server.AddTool(s, server.Tool{Name: "shut", Guards: []mcp.Guard{denyGuard("shut")}}, nothing[point])
		returns(s, "c", "not guarded")
		session := connect(t, s, era)
		result, err := session.CallTool(t.Context(), "a", jsonRaw(`{"x":1}`), &client.CallOptions{Meta: mcp.Meta(`{"m":"own"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := textOf(result), `{"content":[{"type":"text","text":"2\"other\"b{\"x\":2}"}]}`; got != want {
			t.Errorf("the tool says %s, want %s", got, want)
		}
		if _, err = session.CallTool(t.Context(), "c", nil, nil); !client.IsForbidden(err) {
			t.Errorf("the guard of the other tool is passed by: %v", err)
		}
		_, err = session.CallTool(t.Context(), "d", nil, nil)
		if wantCode(t, err, jsonrpc.InvalidParams); message(err) != `unknown tool: "none"` {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestMiddlewareRefuses checks that a client gets protocol errors of middleware, and a reference
// for others.
func TestMiddlewareRefuses(t *testing.T) {
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
		s := newServer(&server.Options{Middleware: []mcp.Middleware{refuse}, Logger: discardLogger()})
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

// A shortage is an error with a type.
type shortage struct{ Of string }

func (s *shortage) Error() string { return "out of " + s.Of }

// TestErrorsAreRaw checks that middleware gets the function's own error through mounts, and that it
// is converted once.
func TestErrorsAreRaw(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var of string
		translate := func(where string) []mcp.Middleware {
			return []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					result, err := next(ctx, call)
					e, ok := errors.AsType[*shortage](err)
					tr.step(fmt.Sprint(where, " ", ok))
					if ok && e.Of == where {
						return mcp.Raw(`{"content":[],"contents":[],"messages":[],"completion":{"values":[]},"x":"` + where + `"}`), nil
					}
					return result, err
				}
			}}
		}
		child := newServer(&server.Options{CallMiddleware: translate("child"), Logger: discardLogger()})
		addEveryKind(child, options{}, func(*server.Request) error { return fmt.Errorf("baking: %w", &shortage{of}) })
		s := newServer(&server.Options{Middleware: translate("outer"), CallMiddleware: translate("server"), Logger: discardLogger()})
		mount(t, s, child, "p_")
		session := connect(t, s, era)
		for _, test := range mountedKinds("p_") {
			for _, of = range []string{"salt", "child", "server", "outer"} {
				tr.take()
				result, err := raw(t, session, test.method, test.params)
				switch {
				case of != "salt":
					if err != nil || !strings.Contains(result, `"x":"`+of+`"`) {
						t.Errorf("%s: the result is %s, %v", test.params, result, err)
					}
				case test.kind == "tool":
					if err != nil || !strings.Contains(result, "baking: out of salt") || !strings.Contains(result, `"isError":true`) {
						t.Errorf("%s: the result is %s, %v", test.params, result, err)
					}
				case protocolError(t, err).Code != jsonrpc.InternalError || message(err) != "baking: out of salt":
					t.Errorf("%s: the error is %v", test.params, err)
				}
				want := map[string][]string{
					"salt":   {"child true", "server true", "outer true"},
					"child":  {"child true", "server false", "outer false"},
					"server": {"child true", "server true", "outer false"},
					"outer":  {"child true", "server true", "outer true"},
				}[of]
				wantSteps(t, &tr, want...)
			}
		}
	})
}

// TestRecheck checks that a call that has waited finds out whether its target has changed.
func TestRecheck(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for name, test := range map[string]struct {
			meanwhile func(s, child *server.Server)
			code      jsonrpc.Code
		}{
			"nothing": {func(*server.Server, *server.Server) {}, 0},
			"other": {func(s, child *server.Server) {
				replace(t, s, newTool(t, "x", ""))
				replace(t, child, newTool(t, "y", ""))
			}, 0},
			"same again": {func(_, child *server.Server) { replace(t, child, newTool(t, "a", "again")) }, 0},
			"removed":    {func(_, child *server.Server) { child.Remove(mcp.KindTool, "a") }, jsonrpc.InvalidParams},
			"changed":    {func(_, child *server.Server) { replace(t, child, described(t, "a", "another")) }, jsonrpc.InvalidParams},
			"same elsewhere": {func(s, child *server.Server) {
				child.Remove(mcp.KindTool, "a")
				replace(t, s, newTool(t, "a", ""))
			}, jsonrpc.InvalidParams},
		} {
			for _, where := range []string{"server", "mount", "child", "entry"} {
				var s, child *server.Server
				wait := mcp.Guard{Name: "wait", Run: func(next mcp.Handler) mcp.Handler {
					return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
						test.meanwhile(s, child)
						if err := call.Recheck(ctx); err != nil {
							return nil, err
						}
						return next(ctx, call)
					}
				}}
				at := func(here string) []mcp.Guard {
					if here != where {
						return nil
					}
					return []mcp.Guard{wait}
				}
				s, child = newServer(&server.Options{Guards: at("server")}), newServer(&server.Options{Guards: at("child")})
				entry, err := server.NewTool(server.Tool{Name: "a", Guards: at("entry")}, nothing[struct{}])
				if err != nil {
					t.Fatal(err)
				}
				replace(t, child, entry)
				shutDownAtEnd(t, s)
				if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "p_", Guards: at("mount")}); err != nil {
					t.Fatal(err)
				}
				_, err = connect(t, s, era).CallTool(t.Context(), "p_a", nil, nil)
				if test.code == 0 && err != nil {
					t.Errorf("%s, at the %s: %v", name, where, err)
				}
				if test.code != 0 {
					wantCode(t, err, test.code)
				}
			}
		}
	})
}

// described is a tool with a description.
func described(t testing.TB, name, description string) *server.Entry {
	t.Helper()
	entry, err := server.NewTool(server.Tool{Name: name, Description: description}, nothing[struct{}])
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// TestValuesOfARun checks that guards of one run share values.
func TestValuesOfARun(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		type key struct{}
		guard := mcp.Guard{
			Name: "g", Check: func(_ context.Context, call *mcp.Call) error { call.Set(key{}, call.Target().Name); return nil },
			Run: func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if call.Get(key{}) != call.Target().Name {
						return nil, fmt.Errorf("the value is %v", call.Get(key{}))
					}
					return next(ctx, call)
				}
			},
		}
		audit := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				if call.Target() != nil && call.Get(key{}) == nil {
					t.Errorf("%s: the middleware does not see the value", call.Target().Name)
				}
				return result, err
			}
		}
		child := newServer(&server.Options{Guards: []mcp.Guard{guard}})
		addEveryKind(child, options{}, func(*server.Request) error { return nil })
		s := newServer(&server.Options{Middleware: []mcp.Middleware{audit}, Guards: []mcp.Guard{guard}})
		mount(t, s, child, "p_")
		session := connect(t, s, era)
		for _, test := range mountedKinds("p_") {
			if _, err := raw(t, session, test.method, test.params); err != nil {
				t.Errorf("%s: %v", test.params, err)
			}
		}
	})
}

var reference = regexp.MustCompile(`reference ([A-Z2-7]{26})$`)

// TestPanics checks that a panic fails one call, and that the client gets only a reference.
func TestPanics(t *testing.T) {
	const secret = "the safe is behind the picture"
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		server.AddTool(s, server.Tool{Name: "tool"}, func(context.Context, *server.Request, struct{}) (string, error) { panic(secret) })
		server.AddTool(s, server.Tool{Name: "nil"}, func(context.Context, *server.Request, struct{}) (string, error) {
			none := make([]string, 0)
			return none[len(secret)], nil
		})
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: []byte(`{"type":"object"}`)},
			func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) { panic(errors.New(secret)) })
		server.AddResource(s, server.Resource{URI: "app:r"}, func(context.Context, *server.Request) (string, error) { panic(secret) })
		server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}"}, func(context.Context, *server.Request, map[string]string) (string, error) { panic(secret) })
		server.AddPrompt(s, server.Prompt{Name: "prompt"}, func(context.Context, *server.Request, struct {
			X string `json:"x,omitempty"`
		}) (string, error) {
			panic(secret)
		})
		server.AddCompletion(s, server.Completion{Prompt: "prompt", Argument: "x"},
			func(context.Context, *server.Request, string, map[string]string) ([]string, error) { panic(secret) })
		returns(s, "alive", "yes")
		session := connect(t, s, era)
		for _, test := range []struct{ kind, method, params string }{
			{"tool", mcp.MethodToolsCall, `{"name":"tool"}`},
			{"tool", mcp.MethodToolsCall, `{"name":"nil"}`},
			{"tool", mcp.MethodToolsCall, `{"name":"raw"}`},
			{"resource", mcp.MethodResourcesRead, `{"uri":"app:r"}`},
			{"resource template", mcp.MethodResourcesRead, `{"uri":"app:t/1"}`},
			{"prompt", mcp.MethodPromptsGet, `{"name":"prompt"}`},
			{"completion", mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""}}`},
		} {
			log.Reset()
			_, err := raw(t, session, test.method, test.params)
			wantCode(t, err, jsonrpc.InternalError)
			found := reference.FindStringSubmatch(message(err))
			if found == nil || strings.Contains(err.Error(), "safe") {
				t.Errorf("%s %s: the client is told %q", test.method, test.params, err)
				continue
			}
			for _, want := range []string{found[1], "middleware_test.go", `"kind":"` + test.kind + `"`} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("%s %s: the log lacks %q: %s", test.method, test.params, want, &log)
				}
			}
		}
		if got := textOf(call(t, session, "alive", `{}`)); got != "yes" {
			t.Errorf("the server says %q", got)
		}
	})
}

// TestMiddlewarePanics checks the same for middleware.
func TestMiddlewarePanics(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{
			Logger: slog.New(slog.NewJSONHandler(&log, nil)),
			Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if call.Method() == mcp.MethodToolsCall {
						panic("intercepted")
					}
					return next(ctx, call)
				}
			}},
		})
		returns(s, "alive", "yes")
		session := connect(t, s, era)
		for range 2 {
			_, err := session.CallTool(t.Context(), "alive", nil, nil)
			wantCode(t, err, jsonrpc.InternalError)
			if !reference.MatchString(message(err)) || strings.Contains(err.Error(), "intercepted") || !strings.Contains(log.String(), "intercepted") {
				t.Errorf("the client is told %q, the operator %s", err, &log)
			}
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("a call that panicked counts as running: %v", err)
		}
	})
}

// TestServeErrors checks the error types of Serve.
func TestServeErrors(t *testing.T) {
	refuses := errors.New("not today")
	entry := func(name string, err error, guards ...mcp.Guard) *server.Entry {
		e := &server.Entry{
			Target: mcp.Target{Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(json.RawMessage(`{"name":"` + name + `"}`))},
			Handle: func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, err },
		}
		return e.Wrap(guards, nil)
	}
	s := newServer(&server.Options{Logger: discardLogger()})
	if err := s.Replace(
		entry("broken", errors.New("canary")),
		entry("forged", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "internal error, reference X"}),
		entry("refused", nil, mcp.Guard{Name: "g", Check: func(context.Context, *mcp.Call) error { return refuses }}),
		entry("hidden", nil, mcp.Guard{Name: "g", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }}),
	); err != nil {
		t.Fatal(err)
	}
	serve := func(name string) (wire *jsonrpc.Error, raw error) {
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{"name":"`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		_, err = s.Serve(t.Context(), &call)
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok {
			t.Fatalf("%s: there is no error for clients in %v", name, err)
		}
		return wire, err
	}
	wire, err := serve("broken")
	internal, ok := errors.AsType[*server.InternalError](err)
	if !ok || wire.Message != "internal error, reference "+internal.Reference || strings.Contains(err.Error(), "canary") {
		t.Errorf("a failure is %v, and for clients %v", err, wire)
	}
	if _, err := serve("forged"); errors.As(err, &internal) {
		t.Errorf("the error of a function is one of the server: %v", err)
	}
	wire, err = serve("refused")
	refused, ok := errors.AsType[*server.RefusedError](err)
	if !ok || refused.Guard != "g" || refused.Hidden || !errors.Is(err, refuses) || strings.Contains(wire.Message, "not today") {
		t.Errorf("a refusal is %v, and for clients %v", err, wire)
	}
	wire, err = serve("hidden")
	if refused, ok := errors.AsType[*server.RefusedError](err); !ok || !refused.Hidden || wire.Message != `unknown tool: "hidden"` {
		t.Errorf("a hidden tool is %v, and for clients %v", err, wire)
	}
}

// TestUnlistedEntryWithoutDefinition is mounted as any other.
func TestUnlistedEntryWithoutDefinition(t *testing.T) {
	m := newTestProvider()
	unlisted := m.toolEntries("unlisted")[0]
	unlisted.Definition = nil
	m.catalog.Store(server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
		if kind != mcp.KindTool || name != "unlisted" {
			return nil, nil
		}
		return unlisted, nil
	}}))
	for _, prefix := range []string{"", "p_"} {
		s := newServer(&server.Options{Logger: discardLogger()})
		mountProvider(t, s, m, prefix)
		session := connect(t, s, 0)
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		if _, err := raw(t, session, mcp.MethodToolsCall, `{"name":"`+prefix+`unlisted"}`); err != nil {
			t.Errorf("with the prefix %q: %v", prefix, err)
		}
	}
}

// TestErrorsNameNoTypes checks that error texts for callers have no Go types.
func TestErrorsNameNoTypes(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		addEveryKind(s, options{}, func(*server.Request) error { return fmt.Errorf("baking: %w", &shortage{"salt"}) })
		session := connect(t, s, era)
		for _, test := range everyKind {
			result, err := raw(t, session, test.method, test.params)
			if test.kind == "tool" {
				const want = `{"content":[{"type":"text","text":"baking: out of salt"}],"isError":true`
				if err != nil || !strings.HasPrefix(result, want) || strings.Contains(result, "shortage") {
					t.Errorf("%s: the result is %s, %v", test.params, result, err)
				}
				continue
			}
			e := protocolError(t, err)
			if e.Code != jsonrpc.InternalError || e.Message != "baking: out of salt" || e.Data != nil {
				t.Errorf("%s: the error is %+v", test.params, e)
			}
		}
	})
}

// TestInvalidMiddlewareResults checks that an invalid result is logged, and that the connection
// continues.
func TestInvalidMiddlewareResults(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		for name, nonsense := range map[string]mcp.Result{
			"number": mcp.Raw(`7`), "list": mcp.Raw(`[]`), "nothing": mcp.Raw(``), "nil_block": &mcp.CallToolResult{Content: []mcp.Content{nil}},
		} {
			server.AddTool(s, server.Tool{Name: name, CallMiddleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
				return func(context.Context, *mcp.Call) (mcp.Result, error) { return nonsense, nil }
			}}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", &shortage{"salt"} })
		}
		returns(s, "alive", "yes")
		session := connect(t, s, era)
		for _, tool := range []string{"number", "list", "nothing", "nil_block"} {
			log.Reset()
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) || log.Len() == 0 {
				t.Errorf("%s: the caller is told %v, the operator %s", tool, err, &log)
			}
			if got := textOf(call(t, session, "alive", `{}`)); got != "yes" {
				t.Errorf("after %s the server says %q", tool, got)
			}
		}
	})
}
