package search_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// hiding hides tools with the prefix from all callers but the staff.
func hiding(prefix string) mcp.Guard {
	return mcp.Guard{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, target *mcp.Target) bool {
		return !strings.HasPrefix(target.Name, prefix) || caller.Info.Name == "staff"
	}}
}

// refusing refuses calls of tools with the prefix to all callers but the staff.
func refusing(prefix string) mcp.Guard {
	return mcp.Guard{Name: "staff", Check: func(_ context.Context, call *mcp.Call) error {
		if strings.HasPrefix(call.Target().Name, prefix) && call.Caller.Info.Name != "staff" {
			return errors.New("not of the staff")
		}
		return nil
	}}
}

func as(name string, era client.Era) *client.Options {
	return &client.Options{Era: era, Info: mcp.Implementation{Name: name, Version: "1"}}
}

// TestHiddenTools: hidden tools are not found, and calling one fails exactly like calling an
// unknown tool.
func TestHiddenTools(t *testing.T) {
	const shown, hidden = `{"name":"open","description":"unlock a door","inputSchema":{"type":"object"}}`, `{"name":"secret_door","description":"unlock another","inputSchema":{"type":"object"}}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(t, newSource(hidden, shown), hiding("secret"))
		without := newServer(t, newSource(shown))
		staff, guest, lost := connect(t, s, as("staff", era)), connect(t, s, as("guest", era)), connect(t, without, as("guest", era))
		for range 3 { // alternating, so that a cache shared by callers would be noticed
			for query, want := range map[string]string{"unlock": "secret_door open", "secret_door": "secret_door open", "": "secret_door open"} {
				if got := foundNames(t, staff, query); got != want {
					t.Errorf("%q: the staff finds %q, want %q", query, got, want)
				}
			}
			for query, want := range map[string]string{"unlock": "open", "secret_door": "open", "secret": "", "": "open"} {
				if got := foundNames(t, guest, query); got != want {
					t.Errorf("%q: a guest finds %q, want %q", query, got, want)
				}
			}
		}
		if _, err := callInner(t, staff, "secret_door", `{}`); err != nil {
			t.Error(err)
		}
		for _, arguments := range []string{`{}`, `{"x":1}`, `null`} {
			_, err := callInner(t, guest, "secret_door", arguments)
			_, want := callInner(t, lost, "secret_door", arguments)
			if fmt.Sprintf("%+v", protocolError(t, err)) != fmt.Sprintf("%+v", protocolError(t, want)) {
				t.Errorf("a guest gets %v, would get %v if there were nothing", err, want)
			}
		}
	})
}

// TestGuardedTools can be found, and the guard sees the tool that is called.
func TestGuardedTools(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newServer(t, newSource("open", "secret"), refusing("secret")), as("guest", era))
		if got := foundNames(t, session, "secret"); got != "secret" {
			t.Errorf("found is %q", got)
		}
		if _, err := callInner(t, session, "open", "{}"); err != nil {
			t.Error(err)
		}
		for _, arguments := range []string{`{}`, `{"name":"open"}`} {
			_, err := callInner(t, session, "secret", arguments)
			if e := protocolError(t, err); e.Message != "Guard 'staff' denied the tool call for 'secret'" || !strings.Contains(string(e.Data), "FORBIDDEN") {
				t.Errorf("the error is %+v", e)
			}
		}
	})
}

// TestGuardOfTheInnerTool: Check of a guard sees the arguments of the tool, its metadata
// and the _meta of the request. Visible, which a search asks, sees the same target.
func TestGuardOfTheInnerTool(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen []string
		about := func(target *mcp.Target) string {
			return fmt.Sprint(target.Kind, " ", target.Name, " ", target.Metadata["level"], " ", string(target.Definition.InputSchema()))
		}
		guard := mcp.Guard{
			Visible: func(_ context.Context, caller *mcp.Caller, target *mcp.Target) bool {
				seen = append(seen, fmt.Sprint(about(target), " ", caller.Info.Name))
				return true
			},
			Check: func(_ context.Context, call *mcp.Call) error {
				seen = append(seen, fmt.Sprint(about(call.Target()), " ", call.Caller.Info.Name, " ", call.Method(), " ",
					string(call.Member("arguments")), " ", string(call.Member("_meta", "vendor/token"))))
				return nil
			},
		}
		from := newSource()
		add := from.tools("add")[0]
		add.Metadata = map[string]any{"level": 3}
		from.show(add)
		session := connect(t, newServer(t, from, guard), as("guest", era))
		for params, want := range map[string]string{
			`{"name":"call_tool","arguments":{"name":"add","arguments":{"a":1.0}},"_meta":{"vendor/token":"t"}}`: `tool add 3 {"type":"object"} guest tools/call {"a":1.0} "t"`,
			`{"name":"search_tools","arguments":{"query":"add"},"_meta":{"vendor/token":"t"}}`:                   `tool add 3 {"type":"object"} guest`,
		} {
			seen = nil
			if _, err := session.Call(t.Context(), mcp.MethodToolsCall, []byte(params), nil); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(seen, []string{want}) {
				t.Errorf("%s: the guard sees %q, want %q", params, seen, want)
			}
		}
	})
}

// TestAskingGuard: a guard may ask the caller during a call. A search asks nothing.
func TestAskingGuard(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		guard := mcp.Guard{
			Name: "approval",
			Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
				return caller.Capabilities.Elicitation != nil
			},
			Check: func(_ context.Context, call *mcp.Call) error {
				_, err := confirm(call, "May "+call.Target().Name+" be called?")
				return err
			},
		}
		var mu sync.Mutex
		var asked []string
		asks := accepting(era)
		accept := asks.Elicit
		asks.Elicit = func(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, p.Message)
			return accept(ctx, p)
		}
		s := newServer(t, newSource("launch"), guard)
		session := connect(t, s, asks)
		if got := foundNames(t, session, "launch"); got != "launch" || len(asked) != 0 {
			t.Errorf("found is %q, asked is %q", got, asked)
		}
		if _, err := callInner(t, session, "launch", "{}"); err != nil || !slices.Equal(asked, []string{"May launch be called?"}) {
			t.Errorf("asked is %q, %v", asked, err)
		}
		other := connect(t, s, &client.Options{Era: era})
		if got := foundNames(t, other, "launch"); got != "" {
			t.Errorf("a caller that cannot be asked finds %q", got)
		}
		if _, err := callInner(t, other, "launch", "{}"); err == nil {
			t.Error("a caller that cannot be asked may call it")
		}
	})
}

// TestOneGuardOfBothCalls: a guard of CallTool and of the tools of the source asks about each of the two calls, and does not take
// what it has noted about one for the other.
func TestOneGuardOfBothCalls(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		type key struct{}
		guard := mcp.Guard{Name: "approval", Check: func(_ context.Context, call *mcp.Call) error {
			if call.Method() != mcp.MethodToolsCall || call.Get(key{}) != nil {
				return nil // it has decided already
			}
			call.Set(key{}, true)
			_, err := confirm(call, "May "+call.Target().Name+" be called?")
			return err
		}}
		var asked []string
		asks := accepting(era)
		accept := asks.Elicit
		asks.Elicit = func(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked = append(asked, p.Message)
			return accept(ctx, p)
		}
		s := mounted(t, newProvider(t, newSource("launch"), guard), "", &server.Options{Guards: []mcp.Guard{guard}})
		if _, err := callInner(t, connect(t, s, asks), "launch", "{}"); err != nil {
			t.Fatal(err)
		}
		if want := []string{"May call_tool be called?", "May launch be called?"}; !slices.Equal(asked, want) {
			t.Errorf("asked is %q, want %q", asked, want)
		}
	})
}

// TestCallMiddleware: CallMiddleware sees calls of the source's tools. Middleware of the server
// that the provider is mounted on sees the two tools.
func TestCallMiddleware(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var inner, outer []string
		recording := func(notes *[]string) mcp.Middleware {
			return func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if strings.HasPrefix(call.Method(), "tools/") {
						*notes = append(*notes, call.Method()+" "+string(call.Member("name"))+" of "+call.Target().Name)
					}
					return next(ctx, call)
				}
			}
		}
		failing := errors.New("out of order")
		mapping := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				if errors.Is(err, failing) {
					return text("try later"), nil
				}
				return result, err
			}
		}
		from := newSource("add", "sub")
		p, err := search.New(from, &search.Options{CallMiddleware: []mcp.Middleware{recording(&inner), mapping}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		session := connect(t, mounted(t, p, "", &server.Options{Middleware: []mcp.Middleware{recording(&outer)}}), &client.Options{Era: era})
		if got := foundNames(t, session, ""); got != "add sub" {
			t.Errorf("found is %q", got)
		}
		from.answer = func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, failing }
		if result, err := callInner(t, session, "add", "{}"); err != nil || texts(result) != "try later" {
			t.Errorf("the tool gives %+v, %v", result, err)
		}
		if want := []string{`tools/call "add" of add`}; !slices.Equal(inner, want) {
			t.Errorf("CallMiddleware sees %q, want %q", inner, want)
		}
		if want := []string{`tools/call "search_tools" of search_tools`, `tools/call "call_tool" of call_tool`}; !slices.Equal(outer, want) {
			t.Errorf("Middleware sees %q, want %q", outer, want)
		}
	})
}

// edited is a provider that changes the entries of another.
type edited struct {
	server.Provider
	edit func(*server.Entry) *server.Entry
}

func (e edited) Catalog() *server.Catalog {
	c := e.Provider.Catalog()
	return c.Memo("edited", func() any { return c.Map(e.edit) }).(*server.Catalog)
}

// TestEditedTools: found are the tools of the source, as it changes them.
func TestEditedTools(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		from := newSource("add", "sub")
		edit := func(e *server.Entry) *server.Entry {
			if e.Name != "sub" {
				return nil
			}
			changed := *e
			changed.Definition = mcp.NewDefinition([]byte(`{"name":"sub","description":"another","inputSchema":{"type":"object"}}`))
			return &changed
		}
		session := connect(t, newServer(t, edited{from, edit}), &client.Options{Era: era})
		if got := found(t, session, `{"query":""}`); len(got) != 1 || string(got[0]) != `{"name":"sub","description":"another","inputSchema":{"type":"object"}}` {
			t.Errorf("found is %s", got)
		}
		if got := foundNames(t, session, "another"); got != "sub" {
			t.Errorf("by the other description found is %q", got)
		}
		if _, err := callInner(t, session, "sub", "{}"); err != nil {
			t.Error(err)
		}
		_, err := callInner(t, session, "add", "{}")
		if e := protocolError(t, err); e.Message != `unknown tool: "add"` {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestFailingVisible: a tool is hidden if the guard panics.
func TestFailingVisible(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		guard := mcp.Guard{Name: "broken", Visible: func(_ context.Context, _ *mcp.Caller, target *mcp.Target) bool {
			if target.Name == "add" {
				panic("out of order")
			}
			return true
		}}
		session := connect(t, newServer(t, newSource("add", "sub"), guard), &client.Options{Era: era})
		if got := foundNames(t, session, ""); got != "sub" {
			t.Errorf("found is %q", got)
		}
		_, err := callInner(t, session, "add", "{}")
		if e := protocolError(t, err); e.Message != `unknown tool: "add"` {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestVariants: of a tool with variants, a caller finds and calls the one that it sees.
func TestVariants(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		from := newSource()
		var entries []*server.Entry
		for _, color := range []string{"gold", "blue"} {
			e := from.tools(`{"name":"door","description":"unlock the ` + color + ` door","inputSchema":{"type":"object"}}`)[0]
			e.Visible = func(_ context.Context, caller *mcp.Caller) bool { return strings.Contains(caller.Info.Name, color) }
			e.Handle = func(context.Context, *mcp.Call) (mcp.Result, error) { return text(color), nil }
			entries = append(entries, e)
		}
		from.show(append(entries, from.tools("window")...)...)
		s := newServer(t, from)
		for caller, want := range map[string]string{"gold": "door window", "blue": "door window", "guest": "window", "gold and blue": "window"} {
			session := connect(t, s, as(caller, era))
			if got := foundNames(t, session, ""); got != want {
				t.Errorf("%s finds %q, want %q", caller, got, want)
			}
			got, err := callInner(t, session, "door", `{}`)
			if (err == nil) != strings.Contains(want, "door") || err == nil && texts(got) != caller {
				t.Errorf("%s gets %v, %v", caller, got, err)
			}
		}
	})
}
