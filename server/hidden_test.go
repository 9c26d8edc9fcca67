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

// staffOnly hides from everybody but clients named staff.
var staffOnly = mcp.Guard{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
	return caller.Info != nil && caller.Info.Name == "staff"
}}

func connectAs(t testing.TB, s *server.Server, era client.Era, name string) *client.Session {
	t.Helper()
	return connectWith(t, s, &client.Options{Era: era, Info: mcp.Implementation{Name: name, Version: "1"}})
}

// listed are the names and URIs of all lists.
func listed(t testing.TB, session *client.Session) []string {
	t.Helper()
	names := toolNames(t, session)
	for resource, err := range session.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, resource.URI)
	}
	for template, err := range session.Templates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, template.URITemplate)
	}
	for prompt, err := range session.Prompts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, prompt.Name)
	}
	return names
}

// TestHidden: what is hidden from a caller is not listed, and a call for it is
// answered, to the byte, as a call for what does not exist.
func TestHidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		addEveryKind(s, guarded(staffOnly), func(*server.Request) error { return nil })
		returns(s, "open", "")
		empty := newServer(&server.Options{Logger: quiet()})
		staff, guest, lost := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest"), connectAs(t, empty, era, "guest")
		for range 3 { // in turn, so that no cache serves one what another may see
			if got, want := listed(t, staff), []string{"tool", "raw", "open", "app:r", "app:t/{x}", "prompt"}; !slices.Equal(got, want) {
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

// TestVisibleFailsClosed: an entry whose guard panics is hidden.
func TestVisibleFailsClosed(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		server.AddTool(s, server.Tool{Name: "panics", Guards: []mcp.Guard{{Name: "g", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool {
			panic("it is there")
		}}}}, nothing[struct{}])
		session := connect(t, s, era)
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		_, err := session.CallTool(t.Context(), "panics", nil, nil)
		if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams || e.Message != `unknown tool: "panics"` {
			t.Errorf("the caller is told %+v", e)
		}
	})
}

// TestCheckDecidesCalls: where a guard has Check, Visible is for lists only.
func TestCheckDecidesCalls(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		hidden := func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }
		s := newServer(&server.Options{Logger: quiet()})
		server.AddTool(s, server.Tool{Name: "callable", Guards: []mcp.Guard{{Name: "g", Visible: hidden, Check: allow}}}, nothing[struct{}])
		server.AddTool(s, server.Tool{Name: "refused", Guards: []mcp.Guard{{Name: "g", Visible: hidden, Check: denying("").Check}}}, nothing[struct{}])
		session := connect(t, s, era)
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		if _, err := session.CallTool(t.Context(), "callable", nil, nil); err != nil {
			t.Error(err)
		}
		if _, err := session.CallTool(t.Context(), "refused", nil, nil); !client.IsForbidden(err) {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestHiddenCompletion: the completion of a hidden prompt does not betray the prompt.
func TestHiddenCompletion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		server.AddPrompt(s, server.Prompt{Name: "hidden", Guards: []mcp.Guard{staffOnly}}, nothing[xIn])
		server.AddPrompt(s, server.Prompt{Name: "bare", Guards: []mcp.Guard{staffOnly}}, nothing[xIn])
		server.AddCompletion(s, server.Completion{Prompt: "hidden", Argument: "x"}, func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{"secret"}, nil
		})
		staff, guest := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest")
		if got, err := staff.CompletePrompt(t.Context(), "hidden", "x", "", nil); err != nil || !slices.Equal(got.Values, []string{"secret"}) {
			t.Errorf("for the staff the prompt is completed to %+v, %v", got, err)
		}
		for _, prompt := range []string{"hidden", "bare", "absent"} {
			_, err := guest.CompletePrompt(t.Context(), prompt, "x", "", nil)
			if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams || e.Message != fmt.Sprintf("there is no argument %q of %q", "x", prompt) {
				t.Errorf("%s: the error is %+v", prompt, e)
			}
		}
	})
}

// TestHiddenInPages: a page holds as much as one may, of what its reader may see.
func TestHiddenInPages(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{PageSize: 2, Logger: quiet()})
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

// TestHiddenListsArePrivate: a list that differs between callers is not to be shared
// by a cache on the way.
func TestHiddenListsArePrivate(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		if era != client.Modern {
			t.Skip("older versions have no cache hints")
		}
		s := newServer(&server.Options{CacheHint: mcp.CacheHint{TTLMs: 1000, Scope: mcp.CachePublic}, Logger: quiet()})
		session := connect(t, s, era)
		returns(s, "open", "")
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

// TestHiddenAtOnce is for the race detector: callers who may see different things ask
// at the same time.
func TestHiddenAtOnce(t *testing.T) {
	s := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{staffOnly}})
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
