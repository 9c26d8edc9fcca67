package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// lazyShop returns a bridge to a lazy shop that takes ten seconds to start, to a server that
// cannot be started, and to another one.
func lazyShop(t testing.TB, dialer *faultyDialer, opts bridge.ProxyOptions) *bridge.Bridge {
	opts.Lazy, opts.Rename = true, map[string]string{"add": "sum"}
	b, err := bridge.New(&bridge.Options{Logger: quiet()},
		bridge.Config{Alias: "broken", Dialer: unreachable{}},
		bridge.Config{Alias: "shop", Dialer: delayed{dialer, 10 * time.Second}, ProxyOptions: opts},
		bridge.Config{Alias: "other", Dialer: pipeTo(echo(nil))})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLazyNames: entries of a lazy server can be called before they have been listed.
func TestLazyNames(t *testing.T) {
	for name, behind := range map[string]func(testing.TB, *bridge.Bridge) server.Provider{
		"a bridge": func(_ testing.TB, b *bridge.Bridge) server.Provider { return b },
		"pins": func(t testing.TB, b *bridge.Bridge) server.Provider {
			return pin.Wrap(b, "all", pin.NewLock(""), &pin.Options{TrustNew: true, Logger: quiet()})
		},
		"another server": func(t testing.TB, b *bridge.Bridge) server.Provider {
			inner := newServer("inner")
			if err := inner.Mount(b, nil); err != nil {
				t.Fatal(err)
			}
			return inner.Provider()
		},
	} {
		for method, test := range map[string]struct{ params, want string }{
			"tools/call":            {`{"name":"x_shop__sum","arguments":{"A":1,"B":2}}`, `"3"`},
			"prompts/get":           {`{"name":"x_shop__greet","arguments":{"Name":"Ann"}}`, "Hello Ann"},
			"resources/read":        {`{"uri":"note://1"}`, `"first"`},
			"resources/read 2":      {`{"uri":"day://monday"}`, "on monday"},
			"completion/complete":   {`{"ref":{"type":"ref/prompt","name":"x_shop__greet"},"argument":{"name":"Name","value":"A"}}`, `"Ann"`},
			"completion/complete 2": {`{"ref":{"type":"ref/resource","uri":"day://{day}"},"argument":{"name":"day","value":"A"}}`, `values`},
			// Names that the server does not have are unknown, whatever their prefix.
			"tools/call 2":     {`{"name":"x_shop__none"}`, "unknown tool"},
			"tools/call 3":     {`{"name":"x_shop__add"}`, "unknown tool"},
			"prompts/get 2":    {`{"name":"x_shop__none"}`, "unknown prompt"},
			"resources/read 3": {`{"uri":"none://1"}`, "resource not found"},
		} {
			t.Run(name+"/"+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dialer := dialerTo(newShop())
					frontend := newServer("frontend")
					if err := frontend.Mount(behind(t, lazyShop(t, dialer, bridge.ProxyOptions{})), &server.MountOptions{Prefix: "x_"}); err != nil {
						t.Fatal(err)
					}
					defer frontend.Shutdown(context.Background())
					began := time.Now()
					wantDuration(t, 10*time.Second, 10*time.Second, func() { // the lazy server's ConnectTimeout
						if err := frontend.Start(t.Context()); err != nil {
							t.Fatal(err)
						}
					})
					session := connect(t, pipeTo(frontend), client.Options{})
					method, _, _ := strings.Cut(method, " ")
					var callers sync.WaitGroup
					for range 2 {
						callers.Go(func() {
							result, err := session.Call(t.Context(), method, json.RawMessage(test.params), nil)
							if !strings.Contains(fmt.Sprint(string(result), err), test.want) {
								t.Errorf("%s gives %s, %v", test.params, result, err)
							}
							if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
								t.Errorf("it was answered after %v", took)
							}
						})
					}
					callers.Wait()
					if n := dialer.dials.Load(); n > 2 { // callers that cannot be asked may have another session
						t.Errorf("the server was started %d times", n)
					}
				})
			})
		}
	}
}

// TestLazyPins: the error of a quarantined tool is the same if its server has to be started.
func TestLazyPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pin.Wrap(lazyShop(t, dialerTo(newShop()), bridge.ProxyOptions{}), "all", pin.NewLock(""), &pin.Options{Logger: quiet()})
		session := connect(t, pipeTo(mount(t, p)), client.Options{})
		_, err := session.CallTool(t.Context(), "shop__sum", json.RawMessage(`{"A":1,"B":2}`), nil)
		if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(failed.Data), "QUARANTINED") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestLazySearch: search can call a tool that it has not found yet.
func TestLazySearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := search.New(lazyShop(t, dialerTo(newShop()), bridge.ProxyOptions{}), &search.Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		session := connect(t, pipeTo(mount(t, p)), client.Options{})
		result, err := session.CallTool(t.Context(), search.CallTool, json.RawMessage(`{"name":"shop__sum","arguments":{"A":1,"B":2}}`), nil)
		if got := texts(t, result, err); got != "3" {
			t.Errorf("it gives %q", got)
		}
		if _, err := session.ReadResource(t.Context(), "note://1", nil); err != nil {
			t.Error(err)
		}
	})
}

// TestLazyNamesChoose: a name starts the server with its prefix, and waits for no other one.
func TestLazyNamesChoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer := dialerTo(newShop())
		b := lazyShop(t, dialer, bridge.ProxyOptions{CachedCatalog: cached("work", `{"name":"work"}`)})
		session := connect(t, pipeTo(mount(t, b)), client.Options{})
		wantDuration(t, 0, 0, func() {
			for _, name := range []string{"other__none", "nothing", "shop", "sho__sum"} {
				_, err := session.CallTool(t.Context(), name, nil, nil)
				if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || failed.Code != jsonrpc.InvalidParams {
					t.Errorf("%s: %v", name, err)
				}
			}
			_, err := session.GetPrompt(t.Context(), "broken__greet", nil, nil)
			if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(failed.Data), `"UPSTREAM_UNAVAILABLE","server":"broken","executed":"no"`) {
				t.Errorf("of a server that cannot be started: %v", err)
			}
			// An idle server has the cached entries. Another URI does not start it.
			if _, err := session.ReadResource(t.Context(), "note://1", nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("an unknown resource: %v", err)
			}
		})
		if n := dialer.dials.Load(); n != 0 {
			t.Errorf("the lazy server was started %d times", n)
		}
		result, err := session.CallTool(t.Context(), "shop__sum", json.RawMessage(`{"A":1,"B":2}`), nil)
		if got := texts(t, result, err); got != "3" {
			t.Errorf("a tool that is new since the earlier run gives %q", got)
		}
		if _, err := session.ReadResource(t.Context(), "note://1", nil); err != nil {
			t.Errorf("then the resource is known: %v", err)
		}
	})
}

// TestUpdateAllAfterStart: a bridge runs when the server that it is mounted on has started.
func TestUpdateAllAfterStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 300 {
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "a", Dialer: pipeTo(toolsOnly(client.Legacy, "t"))})
			if err != nil {
				t.Fatal(err)
			}
			frontend := newServer("frontend")
			if err := frontend.Mount(b, nil); err != nil {
				t.Fatal(err)
			}
			if err := frontend.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.UpdateAll(t.Context(), bridge.Config{Alias: "b", Dialer: pipeTo(toolsOnly(client.Legacy, "u"))}); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			if got := names(frontend.Catalog(), mcp.KindTool); got != "b__u" {
				t.Fatalf("round %d: the tools are %s", i, got)
			}
			if err := frontend.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A call of a tool that Select does not offer starts no lazy server.
func TestLazySelect(t *testing.T) {
	proxy := bridge.Proxy(unreachable{}, &bridge.ProxyOptions{
		Lazy: true, CachedCatalog: server.NewCatalog(nil, nil), Rename: map[string]string{"add": "sum", "sub": "minus"}, Logger: quiet(),
		Select: func(kind mcp.Kind, name string) bool {
			return kind == mcp.KindTool && (name == "add" || name == "div")
		},
	})
	frontend := newServer("frontend")
	if err := frontend.Mount(proxy, &server.MountOptions{Prefix: "x_"}); err != nil {
		t.Fatal(err)
	}
	defer frontend.Shutdown(context.Background())
	session := connect(t, pipeTo(frontend), client.Options{})
	for name, unknown := range map[string]bool{"x_none": true, "x_minus": true, "x_sub": true, "x_add": true, "y": true, "x_sum": false, "x_div": false} {
		_, err := session.CallTool(t.Context(), name, nil, nil)
		if err == nil || strings.Contains(err.Error(), "unknown tool") != unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := session.GetPrompt(t.Context(), "x_sum", nil, nil); err == nil || !strings.Contains(err.Error(), "unknown prompt") {
		t.Errorf("a prompt: %v", err)
	}
}
