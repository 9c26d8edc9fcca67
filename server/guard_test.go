package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/guardtests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// everyKind has a call of each kind of entry that addEveryKind registers.
var everyKind = []struct{ kind, name, method, params string }{
	{"tool", "tool", mcp.MethodToolsCall, `{"name":"tool","arguments":{"x":"1"}}`},
	{"tool", "raw", mcp.MethodToolsCall, `{"name":"raw","arguments":{"x":"1"}}`},
	{"resource", "app:r", mcp.MethodResourcesRead, `{"uri":"app:r"}`},
	{"resource template", "app:t/{x}", mcp.MethodResourcesRead, `{"uri":"app:t/1"}`},
	{"prompt", "prompt", mcp.MethodPromptsGet, `{"name":"prompt","arguments":{"x":"1"}}`},
	{"completion", "prompt", mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""}}`},
	{"completion", "app:t/{x}", mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"app:t/{x}"},"argument":{"name":"x","value":""}}`},
}

// targetKinds are the kinds of their targets. A completion has the target that it completes.
var targetKinds = map[string]mcp.Kind{
	"tool": mcp.KindTool, "raw": mcp.KindTool, "app:r": mcp.KindResource, "app:t/{x}": mcp.KindResourceTemplate, "prompt": mcp.KindPrompt,
}

type xIn struct {
	X string `json:"x"`
}

// addEveryKind registers one entry of each kind, all with one function.
func addEveryKind(s *server.Server, a options, fn func(r *server.Request) error) {
	server.AddTool(s, server.Tool{Name: "tool", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request, _ xIn) (string, error) { return "", fn(r) })
	server.AddRawTool(s, server.Tool{
		Name: "raw", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata,
		InputSchema: jsonRaw(`{"type":"object","required":["x"]}`),
	}, func(_ context.Context, r *server.Request, _ jsonRaw) (mcp.Result, error) {
		return mcp.Raw(`{"content":[]}`), fn(r)
	})
	server.AddResource(s, server.Resource{URI: "app:r", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request) (string, error) { return "", fn(r) })
	server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request, _ xIn) (string, error) { return "", fn(r) })
	server.AddPrompt(s, server.Prompt{Name: "prompt", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request, _ xIn) (string, error) { return "", fn(r) })
	complete := func(_ context.Context, r *server.Request, _ string, _ map[string]string) ([]string, error) {
		return nil, fn(r)
	}
	server.AddCompletion(s, server.Completion{Prompt: "prompt", Argument: "x"}, complete)
	server.AddCompletion(s, server.Completion{Template: "app:t/{x}", Argument: "x"}, complete)
}

// TestGuardsOfCalls runs the tests of guards with direct calls.
func TestGuardsOfCalls(t *testing.T) { guardtests.Suite{Calls: guardtests.Direct()}.Run(t) }

func allow(context.Context, *mcp.Call) error { return nil }

// TestGuardsRunBeforeEverything checks that a refused call does nothing, wherever the guard is.
func TestGuardsRunBeforeEverything(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		deny := withGuard(denyGuard("nobody"))
		var runs atomic.Int64
		run := func(*server.Request) error { runs.Add(1); return nil }
		atEntry, atServer := newServer(&server.Options{Logger: discardLogger()}), newServer(deny.options())
		addEveryKind(atEntry, deny, run)
		returns(atEntry, "alive", "yes")
		addEveryKind(atServer, options{}, run)
		for where, s := range map[string]*server.Server{"entry": atEntry, "server": atServer} {
			session := connect(t, s, era)
			for _, test := range everyKind {
				_, err := raw(t, session, test.method, test.params)
				e, ok := errors.AsType[*jsonrpc.Error](err)
				want := fmt.Sprintf("Guard 'nobody' denied the %s call for '%s'", test.kind, test.name)
				if !ok || e.Code != jsonrpc.InternalError || e.Message != want || string(e.Data) != `{"type":"FORBIDDEN","guard":"nobody"}` {
					t.Errorf("at the %s, the %s %s: the error is %+v, want %s", where, test.kind, test.name, err, want)
				}
			}
		}
		if n := runs.Load(); n > 0 {
			t.Errorf("%d functions ran", n)
		}
		session := connect(t, atEntry, era)
		if got := textOf(call(t, session, "alive", `{}`)); got != "yes" {
			t.Errorf("after refusals the server says %q", got)
		}
		if names := toolNames(t, session); !slices.Equal(names, []string{"alive", "raw", "tool"}) {
			t.Errorf("the guarded tools are not listed: %q", names)
		}
	})
}

// TestGuardSeesTheCall checks what a guard gets before the arguments are validated.
func TestGuardSeesTheCall(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen string
		look := mcp.Guard{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
			target := call.Target()
			seen = fmt.Sprint(target.Kind, " ", target.Name, " ", target.Metadata["shared"], " ", target.Metadata["server"], " ", target.Metadata["entry"], " ", target.Metadata["none"],
				" ", call.Method(), " ", string(call.Params()) != "", " ", string(call.Member("_meta", "m")), " ", call.Caller.Info.Name)
			return nil
		}}
		s := newServer(&server.Options{Guards: []mcp.Guard{look}, Metadata: map[string]any{"shared": "of server", "server": 1}})
		addEveryKind(s, options{Metadata: map[string]any{"shared": "of entry", "entry": 2}}, func(*server.Request) error { return nil })
		session := connectWith(t, s, &client.Options{Era: era, Info: mcp.Implementation{Name: "baker", Version: "1"}})
		for _, test := range everyKind {
			params := strings.TrimSuffix(test.params, "}") + `,"_meta":{"m":7}}`
			if _, err := raw(t, session, test.method, params); err != nil {
				t.Errorf("%s: %v", params, err)
			}
			want := targetKinds[test.name].String() + " " + test.name + " of entry 1 2 <nil> " + test.method + " true 7 baker"
			if seen != want {
				t.Errorf("the guard sees %q, want %q", seen, want)
			}
		}
		for _, params := range []string{`{"name":"tool","arguments":{}}`, `{"name":"tool","arguments":7}`, `{"name":"raw"}`} {
			seen = ""
			if _, _ = raw(t, session, mcp.MethodToolsCall, params); seen == "" {
				t.Errorf("%s: the guard has not been asked", params)
			}
		}
		for tool := range session.Tools(t.Context(), nil) {
			if text, err := tool.MarshalJSON(); err != nil || strings.Contains(string(text), "of entry") || strings.Contains(string(text), "etadata") {
				t.Errorf("the list holds %s", text)
			}
		}
	})
}

// A modelRefusal is the error of a guard that refuses tools with a result, unless it is empty.
type modelRefusal string

func (e modelRefusal) Error() string { return "the secret reason" }

func (e modelRefusal) ToolResult() *mcp.CallToolResult {
	if e == "" {
		return nil
	}
	return &mcp.CallToolResult{IsError: true, Content: mcp.ContentList{mcp.Text(string(e))}}
}

// TestGuardRefusesWithResult checks that only the caller of a tool gets the ToolResult of a guard's
// error, from Check and Run alike. Callers of Serve get the error.
func TestGuardRefusesWithResult(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, text := range []modelRefusal{"ask Ann", ""} {
			check := mcp.Guard{Name: "g", Check: func(context.Context, *mcp.Call) error { return text }}
			run := mcp.Guard{Name: "g", Run: func(mcp.Handler) mcp.Handler {
				return func(context.Context, *mcp.Call) (mcp.Result, error) {
					return nil, fmt.Errorf("%w: %w", text, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "no"})
				}
			}}
			for _, guard := range []mcp.Guard{check, run} {
				s := newServer(&server.Options{Guards: []mcp.Guard{guard}, Logger: discardLogger()})
				server.AddTool(s, server.Tool{Name: "t"}, nothing[struct{}])
				server.AddResource(s, server.Resource{URI: "app:r", Name: "r"}, func(context.Context, *server.Request) (string, error) { return "", nil })
				session := connect(t, s, era)
				result, err := session.CallTool(t.Context(), "t", nil, nil)
				if text == "" {
					wantCode(t, err, jsonrpc.InternalError)
				} else if err != nil || !result.IsError || textOf(result) != string(text) {
					t.Errorf("the result is %+v, the error %v", result, err)
				}
				_, err = session.ReadResource(t.Context(), "app:r", nil)
				wantCode(t, err, jsonrpc.InternalError)

				request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, jsonRaw(`{"name":"t"}`))
				if err != nil {
					t.Fatal(err)
				}
				made := mcp.NewCall(request, &mcp.Caller{}, nil)
				_, err = s.Serve(t.Context(), &made)
				wantCode(t, err, jsonrpc.InternalError)
			}
		}
	})
}

// TestGuardStatesTheReason checks that callers of each kind of entry get the reason of a refusal that they may read.
func TestGuardStatesTheReason(t *testing.T) {
	refusal := &mcp.Refusal{Reason: "the token lacks the scope files:write"}
	for position, guard := range map[string]mcp.Guard{
		"Check": {Name: "scopes", Check: func(context.Context, *mcp.Call) error { return refusal }},
		"Run": {Name: "scopes", Run: func(mcp.Handler) mcp.Handler {
			return func(context.Context, *mcp.Call) (mcp.Result, error) {
				return nil, &mcp.Refusal{Reason: refusal.Reason, Guard: "scopes"}
			}
		}},
	} {
		s := newServer(&server.Options{Logger: discardLogger()})
		addEveryKind(s, withGuard(guard), func(*server.Request) error {
			t.Errorf("%s: the function runs", position)
			return nil
		})
		eachEra(t, func(t *testing.T, era client.Era) {
			session := connect(t, s, era)
			for _, entry := range everyKind {
				got, err := raw(t, session, entry.method, entry.params)
				if entry.kind == "tool" {
					var result mcp.CallToolResult
					if err != nil || result.UnmarshalJSON([]byte(got)) != nil {
						t.Errorf("%s %s %s: got %s, %v", position, entry.kind, entry.name, got, err)
						continue
					}
					err = &client.ToolError{Result: &result}
					if text := result.Text(); text != "the token lacks the scope files:write\nThe tool was not called." || !result.IsError {
						t.Errorf("%s %s %s: the model reads %q", position, entry.kind, entry.name, text)
					}
					got = string(result.Meta.Get(mcp.MetaRefusal))
				} else {
					wantCode(t, err, jsonrpc.InternalError)
					if message(err) != refusal.Reason {
						t.Errorf("%s %s %s: the error is %v", position, entry.kind, entry.name, err)
					}
					if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
						got = string(e.Data)
					}
				}
				if got != `{"type":"FORBIDDEN","guard":"scopes"}` || !client.IsForbidden(err) {
					t.Errorf("%s %s %s: the data is %s", position, entry.kind, entry.name, got)
				}
			}
		})
	}
	if refusal.Guard != "" {
		t.Error("the error of the guard was changed")
	}
}

// TestGuardRefusesBeforeValidation checks that a refused caller learns nothing about valid
// arguments.
func TestGuardRefusesBeforeValidation(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		addEveryKind(s, withGuard(denyGuard("shut")), func(*server.Request) error { return nil })
		session := connect(t, s, era)
		for _, test := range []struct{ method, params string }{
			{mcp.MethodToolsCall, `{"name":"tool","arguments":{"x":7}}`},
			{mcp.MethodToolsCall, `{"name":"tool","arguments":[]}`},
			{mcp.MethodToolsCall, `{"name":"raw","arguments":7}`},
			{mcp.MethodToolsCall, `{"name":"raw"}`},
			{mcp.MethodPromptsGet, `{"name":"prompt","arguments":{"y":"1"}}`},
			{mcp.MethodPromptsGet, `{"name":"prompt","arguments":7}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x"}}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""},"context":{"arguments":7}}`},
		} {
			if _, err := raw(t, session, test.method, test.params); !strings.HasPrefix(message(err), "Guard 'shut' denied") {
				t.Errorf("%s %s: the error is %v", test.method, test.params, err)
			}
		}
	})
}

// TestGuardsWithoutFunctions checks that guards without functions are rejected.
func TestGuardsWithoutFunctions(t *testing.T) {
	none := []mcp.Guard{{Name: "idle"}}
	for name, register := range map[string]func(s *server.Server) error{
		"tool": func(s *server.Server) error {
			_, err := server.NewTool(server.Tool{Name: "a", Guards: none}, nothing[struct{}])
			return err
		},
		"mount": func(s *server.Server) error {
			return s.Mount(newServer(nil).Provider(), &server.MountOptions{Guards: none})
		},
		"server": func(*server.Server) (err error) {
			defer func() { err = fmt.Errorf("panic: %v", recover()) }()
			newServer(&server.Options{Guards: none})
			return nil
		},
	} {
		if err := register(newServer(nil)); err == nil || !strings.Contains(err.Error(), `the guard "idle" has no function`) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// staffOnly hides entries from all clients except those named staff.
var staffOnly = mcp.Guard{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
	return caller.Info != nil && caller.Info.Name == "staff"
}}

func connectAs(t testing.TB, s *server.Server, era client.Era, name string) *client.Session {
	t.Helper()
	return connectWith(t, s, &client.Options{Era: era, Info: mcp.Implementation{Name: name, Version: "1"}})
}

// listed returns the names and URIs in all lists.
func listed(t testing.TB, session *client.Session) []string {
	t.Helper()
	return slices.Concat(toolNames(t, session),
		collectNames(t, session.Resources(t.Context(), nil), func(r *mcp.Resource) string { return r.URI }),
		collectNames(t, session.Templates(t.Context(), nil), func(r *mcp.ResourceTemplate) string { return r.URITemplate }),
		collectNames(t, session.Prompts(t.Context(), nil), func(p *mcp.Prompt) string { return p.Name }))
}

// TestHidden checks that a hidden entry is not listed, and that a call for it gets the same error
// as an unknown name.
func TestHidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		addEveryKind(s, withGuard(staffOnly), func(*server.Request) error { return nil })
		returns(s, "open", "")
		empty := newServer(&server.Options{Logger: discardLogger()})
		staff, guest, lost := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest"), connectAs(t, empty, era, "guest")
		for range 3 { // in turn, so that no cache serves one what another may see
			if got, want := listed(t, staff), []string{"open", "raw", "tool", "app:r", "app:t/{x}", "prompt"}; !slices.Equal(got, want) {
				t.Errorf("the staff sees %q, want %q", got, want)
			}
			if got, want := listed(t, guest), []string{"open"}; !slices.Equal(got, want) {
				t.Errorf("a guest sees %q, want %q", got, want)
			}
		}
		calls := everyKind
		for _, malformed := range []struct{ method, params string }{
			{mcp.MethodToolsCall, `{"name":"tool","arguments":7}`},
			{mcp.MethodToolsCall, `{"name":"tool"}`},
			{mcp.MethodPromptsGet, `{"name":"prompt","arguments":7}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x"}}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"y","value":""}}`},
		} {
			calls = append(slices.Clip(calls), struct{ kind, name, method, params string }{"", "", malformed.method, malformed.params})
		}
		for _, test := range calls {
			if _, err := raw(t, staff, test.method, test.params); test.kind != "" && err != nil {
				t.Errorf("%s: the staff gets %v", test.params, err)
			}
			_, err := raw(t, guest, test.method, test.params)
			_, want := raw(t, lost, test.method, test.params)
			if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
				t.Errorf("%s %s: a guest gets %v, would get %v if there were nothing", test.method, test.params, err, want)
			}
		}
	})
}

func protocolError(t testing.TB, err error) *jsonrpc.Error {
	t.Helper()
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	return e
}

// TestCheckDecidesSubscriptions checks the same for subscriptions.
func TestCheckDecidesSubscriptions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		server.AddResource(s, server.Resource{URI: "app:r", Guards: []mcp.Guard{{Name: "g", Check: allow, Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool {
			return false
		}}}}, func(context.Context, *server.Request) (string, error) { return "", nil })
		if err := subscribed(t.Context(), connect(t, s, era), "app:r"); err != nil {
			t.Error(err)
		}
	})
}

// TestVisibleOfEntries checks that an entry hidden by Entry.Visible is unknown to the caller: a
// literal, a wrapped entry and a copy in Map.
func TestVisibleOfEntries(t *testing.T) {
	for what, change := range map[string]func(*server.Entry) *server.Entry{
		"literal": func(e *server.Entry) *server.Entry { return e },
		"wrapped": func(e *server.Entry) *server.Entry { return e.Wrap([]mcp.Guard{{Name: "g", Check: allow}}, nil) },
		"copied": func(e *server.Entry) *server.Entry {
			changed := *e
			return &changed
		},
	} {
		t.Run(what, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				provider := newTestProvider()
				entries := provider.toolEntries("tool")
				entries = append(entries,
					provider.entry(mcp.KindPrompt, "prompt", `{"name":"prompt","arguments":[{"name":"x"}]}`),
					provider.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`),
					provider.entry(mcp.KindResourceTemplate, "app:t/{x}", `{"uriTemplate":"app:t/{x}","name":"t"}`))
				for i, e := range entries {
					e.Visible = func(_ context.Context, caller *mcp.Caller) bool { return caller.Info.Name == "staff" }
					entries[i] = change(e)
				}
				provider.setEntries(entries...)
				catalog := provider.Catalog().Map(change)
				provider.catalog.Store(catalog)
				s, empty := newServer(&server.Options{Logger: discardLogger()}), newServer(&server.Options{Logger: discardLogger()})
				mountProvider(t, s, provider, "")
				mountProvider(t, empty, newTestProvider(), "")
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				staff, guest, lost := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest"), connectAs(t, empty, era, "guest")
				if names := listed(t, guest); len(names) > 0 {
					t.Errorf("a guest sees %q", names)
				}
				for _, test := range everyKind {
					if test.name == "raw" {
						continue
					}
					if _, err := raw(t, staff, test.method, test.params); err != nil {
						t.Errorf("%s: the staff gets %v", test.params, err)
					}
					_, err := raw(t, guest, test.method, test.params)
					_, want := raw(t, lost, test.method, test.params)
					if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
						t.Errorf("%s %s: a guest gets %v, would get %v if there were nothing", test.method, test.params, err, want)
					}
				}
				for _, uri := range []string{"app:r", "app:t/1"} {
					if err := subscribed(t.Context(), staff, uri); err != nil {
						t.Errorf("the staff subscribes to %s: %v", uri, err)
					}
					if err := subscribed(t.Context(), guest, uri); !mcp.IsResourceNotFound(err) {
						t.Errorf("a guest subscribes to %s: %v", uri, err)
					}
				}
			})
		})
	}
}

// TestHiddenCompletion checks that the completion of a hidden prompt gets the error for an unknown
// prompt.
func TestHiddenCompletion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		server.AddPrompt(s, server.Prompt{Name: "hidden", Guards: []mcp.Guard{staffOnly}}, nothing[xIn])
		server.AddPrompt(s, server.Prompt{Name: "bare", Guards: []mcp.Guard{staffOnly}}, nothing[xIn])
		server.AddCompletion(s, server.Completion{Prompt: "hidden", Argument: "x"}, func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{"secret"}, nil
		})
		staff, guest := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest")
		if got, err := staff.CompletePrompt(t.Context(), "hidden", "x", "", nil, nil); err != nil || !slices.Equal(got.Values, []string{"secret"}) {
			t.Errorf("for the staff the prompt is completed to %+v, %v", got, err)
		}
		for _, prompt := range []string{"hidden", "bare", "absent"} {
			_, err := guest.CompletePrompt(t.Context(), prompt, "x", "", nil, nil)
			if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams || e.Message != fmt.Sprintf("there is no argument %q of %q", "x", prompt) {
				t.Errorf("%s: the error is %+v", prompt, e)
			}
		}
	})
}

// TestHiddenInPages checks that pages are full without hidden entries.
func TestHiddenInPages(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{PageSize: 2, Logger: discardLogger()})
		for i := range 9 {
			tool := server.Tool{Name: fmt.Sprint("tool", i)}
			if i%3 > 0 {
				tool.Guards = []mcp.Guard{staffOnly}
			}
			server.AddTool(s, tool, nothing[struct{}])
		}
		guest := connectAs(t, s, era, "guest")
		names, next := page(t, guest, "")
		if !slices.Equal(names, []string{"tool0", "tool3"}) || next == "" {
			t.Errorf("the first page is %q, then %q", names, next)
		}
		names, next = page(t, guest, next)
		if !slices.Equal(names, []string{"tool6"}) || next != "" {
			t.Errorf("the second page is %q, then %q", names, next)
		}
		if names := toolNames(t, connectAs(t, s, era, "staff")); len(names) != 9 {
			t.Errorf("the staff sees %q", names)
		}
	})
}

// TestHiddenListsArePrivate checks the cache scope of lists that differ between callers.
func TestHiddenListsArePrivate(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{CacheHint: mcp.CacheHint{TTLMs: 1000, Scope: mcp.CachePublic}, Logger: discardLogger()})
		session := connect(t, s, era)
		returns(s, "open", "")
		if era == client.Legacy { // older versions have no cache hints
			if result, err := raw(t, session, mcp.MethodToolsList, `{}`); err != nil || strings.Contains(result, "ttlMs") {
				t.Errorf("the list is %s, %v", result, err)
			}
			return
		}
		scope := func() string {
			result, err := raw(t, session, mcp.MethodToolsList, `{}`)
			if err != nil || !strings.Contains(result, `"ttlMs":1000`) {
				t.Errorf("the list is %s, %v", result, err)
			}
			_, after, _ := strings.Cut(result, `"cacheScope":"`)
			scope, _, _ := strings.Cut(after, `"`)
			return scope
		}
		if got := scope(); got != "public" {
			t.Errorf("nothing is hidden, and the scope is %q", got)
		}
		server.AddTool(s, server.Tool{Name: "hidden", Guards: []mcp.Guard{staffOnly}}, nothing[struct{}])
		if got := scope(); got != "private" {
			t.Errorf("something is hidden, and the scope is %q", got)
		}
	})
}

// TestHiddenConcurrently lists as different callers at the same time, for the race detector.
func TestHiddenConcurrently(t *testing.T) {
	s := newServer(&server.Options{Logger: discardLogger(), Guards: []mcp.Guard{staffOnly}})
	returns(s, "tool", "")
	var work sync.WaitGroup
	for name, want := range map[string]int{"staff": 1, "guest": 0} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			session := connectInMemory(t, s, &client.Options{Era: era, Info: mcp.Implementation{Name: name, Version: "1"}})
			work.Go(func() {
				for range 50 {
					if names := toolNames(t, session); len(names) != want {
						t.Errorf("%s sees %q", name, names)
					}
				}
			})
		}
	}
	work.Wait()
}
