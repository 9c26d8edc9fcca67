package bridge_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// twoServers are servers of which each has a tool of its own, and both have one called shared.
func twoServers() []bridge.Config {
	return []bridge.Config{
		{Alias: "one", Dialer: pipeTo(toolsOnly(client.Legacy, "add", "shared")), ProxyOptions: bridge.ProxyOptions{Rename: map[string]string{"add": "plus"}}},
		{Alias: "two", Dialer: pipeTo(toolsOnly(client.Modern, "draw", "shared"))},
	}
}

// A tool can be called by its name on its server if it is the only one of that name.
func TestUnprefixedNames(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := bridge.New(&bridge.Options{Logger: quiet(), Unprefixed: true}, twoServers()...)
				if err != nil {
					t.Fatal(err)
				}
				inner := newServer("inner")
				if err := inner.Mount(b, nil); err != nil {
					t.Fatal(err)
				}
				session := connect(t, pipeTo(mount(t, inner.Provider())), client.Options{Era: era})
				for called, want := range map[string]string{"add": "add", "draw": "draw", "one__plus": "add", "two__shared": "shared", "shared": "", "plus": "", "none": ""} {
					result, err := session.CallTool(t.Context(), called, nil, nil)
					switch {
					case err == nil && result.Text() != want:
						t.Errorf("%s calls %q, want %q", called, result.Text(), want)
					case err != nil && (want != "" || !strings.Contains(err.Error(), "unknown tool")):
						t.Errorf("%s: %v", called, err)
					}
				}
				var listed []string
				for tool, err := range session.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					listed = append(listed, tool.Name)
				}
				if got := strings.Join(listed, " "); got != "one__plus one__shared two__draw two__shared" {
					t.Errorf("the list has %s", got)
				}
			})
		})
	}
}

// Without the option only names of the list can be called.
func TestUnprefixedNamesAreOff(t *testing.T) {
	b := newBridge(t, nil, twoServers()...)
	if _, err := b.CallTool(t.Context(), "draw", nil); !errors.Is(err, bridge.ErrUnknownTool) {
		t.Errorf("the error is %v", err)
	}
}

// Guards and pins apply to a call of a tool, whatever name the caller uses.
func TestUnprefixedNamesAreGuarded(t *testing.T) {
	rules, err := policy.Parse([]byte(`{"deny": ["two__draw"]}`))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	var checked []string
	record := mcp.Guard{Name: "record", Check: func(_ context.Context, call *mcp.Call) error {
		checked = append(checked, call.Target().Name)
		return nil
	}}
	b := newBridge(t, &bridge.Options{Unprefixed: true, Guards: []mcp.Guard{policy.Guard(compiled, nil), record}}, twoServers()...)
	if _, err := b.CallTool(t.Context(), "add", nil); err != nil {
		t.Error(err)
	}
	if strings.Join(checked, " ") != "one__plus" {
		t.Errorf("the guard has checked %q", checked)
	}
	if result, err := b.CallTool(t.Context(), "draw", nil); err == nil && !result.IsError {
		t.Error("a denied tool was called by its other name")
	}

	for name, trusted := range map[string]bool{"accepted": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t, &bridge.Options{Unprefixed: true}, twoServers()...)
			frontend := server.New(mcp.Implementation{Name: "frontend"}, &server.Options{Logger: quiet()})
			if err := frontend.Mount(stillRunning{pin.Wrap(b, "all", pin.NewLock(""), &pin.Options{TrustNew: trusted, Logger: quiet()})}, nil); err != nil {
				t.Fatal(err)
			}
			defer frontend.Shutdown(context.Background())
			session := connect(t, pipeTo(frontend), client.Options{})
			result, err := session.CallTool(t.Context(), "draw", nil, nil)
			if trusted && (err != nil || result.Text() != "draw") || !trusted && err == nil && !result.IsError {
				t.Errorf("it returns %v, %v", result, err)
			}
		})
	}
}

// A call under the other name needs the scopes of the tool.
func TestUnprefixedNamesNeedTheScopes(t *testing.T) {
	b := newBridge(t, &bridge.Options{Unprefixed: true}, twoServers()...)
	s := newServer("scoped")
	if err := s.Mount(stillRunning{b}, &server.MountOptions{Scopes: []string{"draw"}}); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	refused := &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "the token lacks a scope"}
	authorize := func(_ context.Context, req *jsonrpc.Request) error {
		if slices.Contains(s.Scopes(req.Method, jsonscan.Unquote(req.Member("name"))), "draw") {
			return refused
		}
		return nil
	}
	session := connect(t, pipeTo(s), client.Options{})
	if result, err := session.CallTool(t.Context(), "draw", nil, nil); err != nil || result.Text() != "draw" {
		t.Errorf("without an authorizer the call returns %v, %v", result, err)
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(`{"name":"draw"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := authorize(t.Context(), request); err != nil {
		t.Fatalf("the test needs a name whose scopes are unknown: %v", err)
	}
	call := mcp.NewCall(request, &mcp.Caller{}, nil)
	if _, err := s.Serve(transport.WithAuthorizer(t.Context(), authorize), &call); !errors.Is(err, refused) {
		t.Errorf("the error is %v, want the error of the authorizer", err)
	}
}

// A tool cannot have the name of a tool of another server.
func TestUnprefixedNamesOfOtherServers(t *testing.T) {
	b := newBridge(t, &bridge.Options{Unprefixed: true},
		bridge.Config{Alias: "good", Dialer: pipeTo(toolsOnly(client.Legacy, "add"))},
		bridge.Config{Alias: "evil", Dialer: pipeTo(toolsOnly(client.Legacy, "good__delete"))},
	)
	if result, err := b.CallTool(t.Context(), "good__delete", nil); !errors.Is(err, bridge.ErrUnknownTool) {
		t.Errorf("it returns %v, %v, want an unknown tool", result, err)
	}
}

// stillRunning is a provider that runs already.
type stillRunning struct{ server.Provider }

func (stillRunning) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}
