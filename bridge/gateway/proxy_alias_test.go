package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// TestProxyPathsNameNoOtherTool: neither that of another server, nor one that has been renamed.
func TestProxyPathsNameNoOtherTool(t *testing.T) {
	s := newStub(`{"type":"object"}`, "b__c")
	if w := send(s.gateway(t, gateway.Options{}).Proxy(), "POST", "/s__b/tools/c", `{}`); w.Code != 404 || len(s.called) != 0 {
		t.Errorf("the tool b__c of s is called: %d %s", w.Code, w.Body)
	}

	skills := func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		t.Error("the tool a__b of a pseudo-server is called")
		return nil, nil
	}
	pseudo := gateway.New(operator{pseudo: map[string]gateway.ToolFunc{"skills": skills}}.serving(t), &gateway.Options{Access: newAccess(t, gateway.AccessOptions{Open: true}), Logger: quiet()})
	if w := send(pseudo.Proxy(), "POST", "/skills__a/tools/b", `{}`); w.Code != 404 {
		t.Errorf("of a server that is not there: %d %s", w.Code, w.Body)
	}

	files := newShelf()
	renamed := to("files", files)
	renamed.Rename = map[string]string{"read": "get"}
	known := newBridge(t, renamed)
	g := gateway.New(operator{}.serving(t, known), &gateway.Options{States: known.States, Access: newAccess(t, gateway.AccessOptions{Open: true}), Logger: quiet()})
	w := send(g.Proxy(), "POST", "/files/tools/get", `{}`)
	if w.Code != 200 || w.Body.String() != `{"success":false,"result":null,"error":"there is no such tool","is_error":false}` {
		t.Errorf("what the bridge calls get: %d %s", w.Code, w.Body)
	}
	if n := files.calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	if w := send(g.Proxy(), "POST", "/files/tools/read", `{}`); files.calls.Load() != 1 {
		t.Errorf("what the server calls read: %d %s", w.Code, w.Body)
	}
}

// TestServersStartedByACall: their tools have the servers' names from the first call on, also if
// they are renamed, or mounted with a prefix.
func TestServersStartedByACall(t *testing.T) {
	for _, prefix := range []string{"", "p_"} {
		for own, wants := range map[string]int32{"get": 0, "read": 1, "none": 0} {
			files := newShelf()
			lazy := to("files", files)
			lazy.Lazy, lazy.Rename = true, map[string]string{"read": "get"}
			known := newBridge(t, lazy)
			s := operator{}.serving(t)
			if err := s.Mount(known, &server.MountOptions{Prefix: prefix}); err != nil {
				t.Fatal(err)
			}
			g := gateway.New(s, &gateway.Options{States: known.States, Access: newAccess(t, gateway.AccessOptions{Open: true}), Logger: quiet()})
			w := send(g.Proxy(), "POST", "/files/tools/"+own, `{}`)
			if w.Code != 200 || files.calls.Load() != wants {
				t.Errorf("with the prefix %q, %s: %d %s, after %d calls", prefix, own, w.Code, w.Body, files.calls.Load())
			}
		}
	}
}

// TestUnlistedServers: if tools cannot be listed, the servers are not said to be none. A call
// that is denied lists them once.
func TestUnlistedServers(t *testing.T) {
	s := newStub(`{"type":"object"}`, "a")
	var lists int
	broken := errors.New("broken")
	g := s.behind(t, gateway.Options{}, operator{Options: server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			switch {
			case call.Method() == mcp.MethodToolsCall:
				return nil, &policy.DeniedError{Kind: mcp.KindTool, Name: "s__a"}
			case broken != nil:
				return nil, broken
			}
			lists++
			return mcp.Raw(`{"tools":[]}`), nil
		}
	}}}})
	for _, w := range []struct{ method, path string }{{"GET", "/servers"}, {"POST", "/s/tools/a"}, {"POST", "/other/tools/a"}} {
		if got := send(g.Proxy(), w.method, w.path, `{}`); got.Code != 500 || !strings.HasPrefix(got.Body.String(), `{"detail":"internal error, reference `) {
			t.Errorf("%s %s: %d %s", w.method, w.path, got.Code, got.Body)
		}
	}
	broken = nil
	const none = `{"detail":"MCP server 's' is not running. Available servers: []"}`
	if got := send(g.Proxy(), "POST", "/s/tools/a", `{}`); got.Code != 404 || got.Body.String() != none || lists != 1 {
		t.Errorf("denied: %d %s, after %d lists", got.Code, got.Body, lists)
	}
}

// A restless provider has another catalog each time.
type restless struct{ *stub }

func (r restless) Catalog() *server.Catalog {
	return r.stub.catalog.Map(func(e *server.Entry) *server.Entry { return e })
}

// TestRestlessProvider: an entry says itself of which server it is, in whatever catalog.
func TestRestlessProvider(t *testing.T) {
	s := newStub(`{"type":"object"}`, "a")
	g := gateway.New(operator{}.serving(t, restless{s}), &gateway.Options{Access: newAccess(t, gateway.AccessOptions{Open: true}), Logger: quiet()})
	if w := send(g.Proxy(), "POST", "/s/tools/a", `{}`); w.Code != 200 || len(s.called) != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(g.Proxy(), "POST", "/s/tools/b", `{}`); len(s.called) != 1 {
		t.Errorf("what is not there is called: %d %s", w.Code, w.Body)
	}
}
