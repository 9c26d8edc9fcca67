package search_test

import (
	"context"
	"encoding/json"
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

// guarding refuses calls of tools whose names begin with the prefix, but for the staff.
func guarding(prefix string, hides bool) server.Around {
	return server.Around{Guards: []server.Guard{{Name: "staff", Hides: hides, Allow: func(_ context.Context, r *server.Request) error {
		if strings.HasPrefix(r.Name(), prefix) && r.Caller().Info.Name != "staff" {
			return errors.New("not of the staff")
		}
		return nil
	}}}}
}

func as(name string, era client.Era) *client.Options {
	return &client.Options{Era: era, Info: mcp.Implementation{Name: name, Version: "1"}}
}

// TestHiddenTools are not found by who may not see them, and a call for one is answered,
// to the byte, as a call for what does not exist.
func TestHiddenTools(t *testing.T) {
	const shown, hidden = `{"name":"open","description":"unlock a door","inputSchema":{"type":"object"}}`, `{"name":"secret_door","description":"unlock another","inputSchema":{"type":"object"}}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newFace(t, newSource(hidden, shown), guarding("secret", true))
		without := newFace(t, newSource(shown), server.Around{})
		staff, guest, lost := connect(t, s, as("staff", era)), connect(t, s, as("guest", era)), connect(t, without, as("guest", era))
		for range 3 { // in turn, so that no cache serves one what another may see
			for query, want := range map[string]string{"unlock": "open secret_door", "secret_door": "secret_door open", "": "secret_door open"} {
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
		session := connect(t, newFace(t, newSource("open", "secret"), guarding("secret", false)), as("guest", era))
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

// TestGuardOfTheInnerTool sees its arguments, what was registered for guards, and the
// request's _meta, in a search as well.
func TestGuardOfTheInnerTool(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen []string
		around := server.Around{Metadata: map[string]any{"level": 3}, Guards: []server.Guard{{Hides: true, Allow: func(_ context.Context, r *server.Request) error {
			seen = append(seen, fmt.Sprint(r.Kind(), " ", r.Name(), " ", r.Call().Method(), " ", string(r.Call().Member("arguments")), " ",
				r.Metadata("level"), " ", string(r.Meta("vendor/token"))))
			return nil
		}}}}
		session := connect(t, newFace(t, newSource("add"), around), &client.Options{Era: era})
		for params, want := range map[string]string{
			`{"name":"call_tool","arguments":{"name":"add","arguments":{"a":1.0}},"_meta":{"vendor/token":"t"}}`: `tool add tools/call {"a":1.0} 3 "t"`,
			`{"name":"search_tools","arguments":{"query":"add"},"_meta":{"vendor/token":"t"}}`:                   `tool add tools/list  3 "t"`,
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

// TestAskingGuard asks when the tool is called; in a search the tool is there for who
// can be asked.
func TestAskingGuard(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		around := server.Around{Guards: []server.Guard{{Name: "approval", Hides: true, Allow: func(_ context.Context, r *server.Request) error {
			_, err := server.Elicit[struct{}](r, "sure", "May "+r.Name()+" be called?")
			return err
		}}}}
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
		s := newFace(t, newSource("launch"), around)
		session := connect(t, s, asks)
		if got := foundNames(t, session, "launch"); got != "launch" || len(asked) != 0 {
			t.Errorf("found is %q, asked is %q", got, asked)
		}
		if _, err := callInner(t, session, "launch", "{}"); err != nil || !slices.Equal(asked, []string{"May launch be called?"}) {
			t.Errorf("asked is %q, %v", asked, err)
		}
		mute := connect(t, s, &client.Options{Era: era})
		if got := foundNames(t, mute, "launch"); got != "" {
			t.Errorf("who cannot be asked finds %q", got)
		}
		if _, err := callInner(t, mute, "launch", "{}"); err == nil {
			t.Error("who cannot be asked may call it")
		}
	})
}

// TestInterceptors see calls of the tools and searches as lists, and decide what is
// found of these, and how it is described. What stands around the server where the
// provider is mounted sees the two tools.
func TestInterceptors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var inner, outer []string
		noting := func(notes *[]string) mcp.Middleware {
			return func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if strings.HasPrefix(call.Method(), "tools/") {
						*notes = append(*notes, call.Method()+" "+string(call.Member("name")))
					}
					return next(ctx, call)
				}
			}
		}
		editing := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if call.Method() == mcp.MethodToolsList {
					return &mcp.ListToolsResult{Tools: []mcp.Tool{{Name: "sub", Description: "another"}, {Name: "added"}}}, nil
				}
				return next(ctx, call)
			}
		}
		failing := errors.New("out of order")
		mapped := func(_ context.Context, _ *server.Request, err error) (mcp.Result, error) {
			if errors.Is(err, failing) {
				return text("try later"), nil
			}
			return nil, nil
		}
		from := newSource("add", "sub")
		p := newProvider(t, from, server.Around{Outer: []mcp.Middleware{noting(&inner), editing}, Mappers: []server.ErrorMapper{mapped}})
		session := connect(t, mounted(t, p, "", &server.Options{Around: server.Around{Outer: []mcp.Middleware{noting(&outer)}}}), &client.Options{Era: era})
		if got := found(t, session, `{"query":""}`); len(got) != 1 || string(got[0]) != `{"name":"sub","description":"another","inputSchema":{"type":"object"}}` {
			t.Errorf("found is %s", got)
		}
		from.answer = func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, failing }
		if result, err := callInner(t, session, "add", "{}"); err != nil || texts(result) != "try later" {
			t.Errorf("the tool gives %+v, %v", result, err)
		}
		if want := []string{"tools/list ", `tools/call "add"`}; !slices.Equal(inner, want) {
			t.Errorf("around the tools is seen %q, want %q", inner, want)
		}
		if want := []string{`tools/call "search_tools"`, `tools/call "call_tool"`}; !slices.Equal(outer, want) {
			t.Errorf("around the server is seen %q, want %q", outer, want)
		}
	})
}

// TestSearchFails when the tools cannot be listed: none is shown that might be hidden.
func TestSearchFails(t *testing.T) {
	for name, answer := range map[string]func() (mcp.Result, error){
		"refused":   func() (mcp.Result, error) { return nil, &jsonrpc.Error{Code: -429, Message: "too many"} },
		"no list":   func() (mcp.Result, error) { return mcp.Raw(`{"tools":{}}`), nil },
		"nothing":   func() (mcp.Result, error) { return mcp.Raw(`{}`), nil },
		"no object": func() (mcp.Result, error) { return mcp.Raw(`[]`), nil },
		"no entry":  func() (mcp.Result, error) { return mcp.Raw(`{"tools":[7]}`), nil },
		"no JSON":   func() (mcp.Result, error) { return mcp.Raw(`{"tools":[`), nil },
		"no encoding": func() (mcp.Result, error) {
			return &mcp.ListToolsResult{Tools: []mcp.Tool{{InputSchema: json.RawMessage(`{`)}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			around := server.Around{Outer: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
				return func(context.Context, *mcp.Call) (mcp.Result, error) { return answer() }
			}}}
			session := connect(t, newFace(t, newSource("add"), around), nil)
			result, err := session.CallTool(t.Context(), "search_tools", json.RawMessage(`{"query":"add"}`), nil)
			if err == nil {
				t.Errorf("the search gives %s", texts(result))
			}
		})
	}
}
