package server_test

import (
	"context"
	"errors"
	"fmt"
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
func (tr *trace) around(where string) surround {
	return surround{
		Guards: []mcp.Guard{{
			Name: "g", Check: func(context.Context, *mcp.Call) error { tr.step(where + "-check"); return nil },
			Run: tr.middleware(where + "-run"),
		}},
		CallMiddleware: []mcp.Middleware{tr.middleware(where + "-call1"), tr.middleware(where + "-call2")},
	}
}

// TestChain: what a call passes on its way to the function, and in which order.
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

// TestMiddlewareIsCalledOnce for each entry, so that a limiter that it declares counts all
// calls.
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
		limited := surround{CallMiddleware: []mcp.Middleware{limit}}
		guard := guarded(mcp.Guard{Name: "limit", Run: limit})
		atEntry, atServer, mounted := newServer(nil), newServer(guard.options()), newServer(nil)
		addEveryKind(atEntry, limited, func(*server.Request) error { return nil })
		addEveryKind(atServer, surround{}, func(*server.Request) error { return nil })
		child := newServer(nil)
		addEveryKind(child, surround{}, func(*server.Request) error { return nil })
		shutsDown(t, mounted)
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

// TestSurroundIsCopied: entries may share slices with others that grow.
func TestSurroundIsCopied(t *testing.T) {
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

// TestSurroundIsKept as it was when it was given.
func TestSurroundIsKept(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		around := func(where string) surround {
			return surround{Metadata: map[string]any{where: "kept"}, Guards: []mcp.Guard{{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
				if got := call.Target().Metadata[where]; got != "kept" {
					return fmt.Errorf("the metadata is %v", got)
				}
				return nil
			}}}}
		}
		ofServer, ofEntries := around("server"), around("entry")
		s := newMounted(t, ofServer, surround{}, ofEntries, func(*server.Request) error { return nil })
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

// TestCallMiddleware may look at the result, replace it, refuse and run the function again.
func TestCallMiddleware(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		runs := 0
		s := newServer(&server.Options{Logger: quiet()})
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
			if texts(result) != test.says || result.IsError || runs != test.runs {
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
		for _, tool := range []string{"refuse", "panic"} {
			_, err = session.CallTool(t.Context(), tool, jsonRaw(`{"x":1}`), nil)
			if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) {
				t.Errorf("%s: the client is told %q", tool, message(err))
			}
		}
	})
}

// TestChangedCall: what a middleware changes on the call, except the arguments, is what
// the function gets, wherever the middleware is.
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
		for where, add := range map[string]func(opts *server.Options, entry *surround){
			"middleware":        func(opts *server.Options, _ *surround) { opts.Middleware = []mcp.Middleware{change} },
			"run of a guard":    func(opts *server.Options, _ *surround) { opts.Guards = []mcp.Guard{{Name: "g", Run: change}} },
			"call middleware":   func(opts *server.Options, _ *surround) { opts.CallMiddleware = []mcp.Middleware{change} },
			"at the entry":      func(_ *server.Options, entry *surround) { entry.CallMiddleware = []mcp.Middleware{change} },
			"guard at an entry": func(_ *server.Options, entry *surround) { entry.Guards = []mcp.Guard{{Name: "g", Run: change}} },
		} {
			opts, entry := &server.Options{Logger: quiet()}, surround{}
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

// TestMiddlewareSeesAll: every request passes all of it, the first outermost, and it knows
// what the request is for.
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
		s := newServer(&server.Options{Middleware: []mcp.Middleware{look("outer"), look("inner")}, Guards: []mcp.Guard{denying("shut")}, Logger: quiet()})
		addEveryKind(s, surround{}, func(*server.Request) error { return nil })
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

// TestMiddlewareRenames: a call that is passed on with another name is for what has that
// name, whose guards decide.
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
		s := newServer(&server.Options{Middleware: []mcp.Middleware{redirect}, Logger: quiet()})
		server.AddTool(s, server.Tool{Name: "b"}, func(_ context.Context, r *server.Request, in point) (string, error) {
			return fmt.Sprint(in.X, string(r.Meta("m")), r.Call().Target().Name, string(r.Call().Member("arguments"))), nil
		})
		server.AddTool(s, server.Tool{Name: "shut", Guards: []mcp.Guard{denying("shut")}}, nothing[point])
		returns(s, "c", "not guarded")
		session := connect(t, s, era)
		result, err := session.CallTool(t.Context(), "a", jsonRaw(`{"x":1}`), &client.CallOptions{Meta: mcp.Meta(`{"m":"own"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := texts(result), `{"content":[{"type":"text","text":"2\"other\"b{\"x\":2}"}]}`; got != want {
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

// TestMiddlewareRefuses: an error of the protocol reaches the client, any other is replaced
// by a reference.
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
		s := newServer(&server.Options{Middleware: []mcp.Middleware{refuse}, Logger: quiet()})
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

// TestErrorsAreRaw: every middleware, however many mounts are between, sees the error of
// the function itself and may make a result of it; what none does is converted once.
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
		child := newServer(&server.Options{CallMiddleware: translate("child"), Logger: quiet()})
		addEveryKind(child, surround{}, func(*server.Request) error { return fmt.Errorf("baking: %w", &shortage{of}) })
		s := newServer(&server.Options{Middleware: translate("outer"), CallMiddleware: translate("server"), Logger: quiet()})
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

// TestRecheck: a call that has waited learns whether its target is still what it was.
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
				shutsDown(t, s)
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

// TestValuesOfARun: what a guard finds out, the others of the same run can use.
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
		addEveryKind(child, surround{}, func(*server.Request) error { return nil })
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
