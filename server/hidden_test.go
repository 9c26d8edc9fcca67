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
var staffOnly = server.Guard{Name: "staff", Hides: true, Allow: func(_ context.Context, r *server.Request) error {
	if r.Caller().Info == nil || r.Caller().Info.Name != "staff" {
		return errors.New("not of the staff")
	}
	return nil
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
		addEveryKind(s, server.Around{Guards: []server.Guard{staffOnly}}, func(*server.Request) error { return nil })
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

// TestHiddenWhateverTheError: no error of a hiding guard betrays what it hides, but a
// question does, and so what is asked about is listed.
func TestHiddenWhateverTheError(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		for name, allow := range map[string]func(context.Context, *server.Request) error{
			"protocol": func(context.Context, *server.Request) error {
				return &jsonrpc.Error{Code: -403, Message: "it is there"}
			},
			"panics": func(context.Context, *server.Request) error { panic("it is there") },
			"none":   nil,
			"asks": func(_ context.Context, r *server.Request) error {
				_, err := server.Elicit[sure](r, "sure", "Sure?")
				return err
			},
		} {
			server.AddTool(s, server.Tool{Name: name, Around: server.Around{Guards: []server.Guard{{Name: "g", Hides: true, Allow: allow}}}}, nothing[struct{}])
		}
		session := connectWith(t, s, accepting(era))
		if names := toolNames(t, session); !slices.Equal(names, []string{"asks"}) {
			t.Errorf("listed are %q", names)
		}
		for _, tool := range []string{"protocol", "panics", "none"} {
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams || e.Message != fmt.Sprintf("unknown tool: %q", tool) {
				t.Errorf("%s: the caller is told %+v", tool, e)
			}
		}
		if _, err := session.CallTool(t.Context(), "asks", nil, nil); err != nil {
			t.Error(err)
		}
		// Who cannot be asked does not see it.
		if names := toolNames(t, connect(t, s, era)); len(names) != 0 {
			t.Errorf("a client that cannot be asked sees %q", names)
		}
	})
}

// TestHiddenCompletion: a completion that is hidden leaves its prompt as it would be
// without, and one of a hidden prompt does not betray the prompt.
func TestHiddenCompletion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		complete := func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{"secret"}, nil
		}
		hiding := server.Around{Guards: []server.Guard{staffOnly}}
		server.AddPrompt(s, server.Prompt{Name: "shown"}, nothing[xIn])
		server.AddCompletion(s, server.Completion{Prompt: "shown", Argument: "x", Around: hiding}, complete)
		server.AddPrompt(s, server.Prompt{Name: "hidden", Around: hiding}, nothing[xIn])
		server.AddCompletion(s, server.Completion{Prompt: "hidden", Argument: "x"}, complete)
		staff, guest := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest")
		for _, prompt := range []string{"shown", "hidden"} {
			if got, err := staff.CompletePrompt(t.Context(), prompt, "x", "", nil); err != nil || !slices.Equal(got.Values, []string{"secret"}) {
				t.Errorf("for the staff %s is completed to %+v, %v", prompt, got, err)
			}
		}
		if got, err := guest.CompletePrompt(t.Context(), "shown", "x", "", nil); err != nil || len(got.Values) > 0 {
			t.Errorf("for a guest the prompt is completed to %+v, %v", got, err)
		}
		for _, prompt := range []string{"hidden", "absent"} {
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
				tool.Around.Guards = []server.Guard{staffOnly}
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
		server.AddTool(s, server.Tool{Name: "hidden", Around: server.Around{Guards: []server.Guard{staffOnly}}}, nothing[struct{}])
		if got := scope(); got != "private" {
			t.Errorf("something is hidden, and the scope is %q", got)
		}
	})
}

// TestHiddenAtOnce is for the race detector: callers who may see different things ask
// at the same time.
func TestHiddenAtOnce(t *testing.T) {
	s := newServer(&server.Options{Logger: quiet(), Around: server.Around{Guards: []server.Guard{staffOnly}}})
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
