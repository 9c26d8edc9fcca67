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

// lazyShop is a bridge to a lazy shop that takes ten seconds to start, and to a server that
// never can be.
func lazyShop(t testing.TB, way *line, opts bridge.ProxyOptions) *bridge.Bridge {
	opts.Lazy, opts.Rename = true, map[string]string{"add": "sum"}
	b, err := bridge.New(&bridge.Options{Logger: quiet()},
		bridge.Config{Alias: "broken", Dialer: nowhere{}},
		bridge.Config{Alias: "shop", Dialer: delayed{way, 10 * time.Second}, ProxyOptions: opts},
		bridge.Config{Alias: "other", Dialer: pipeTo(echo(nil))})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLazyNames: what a lazy server has is found by those who call before it has been listed.
func TestLazyNames(t *testing.T) {
	for name, behind := range map[string]func(testing.TB, *bridge.Bridge) server.Provider{
		"a bridge": func(_ testing.TB, b *bridge.Bridge) server.Provider { return b },
		"pins": func(t testing.TB, b *bridge.Bridge) server.Provider {
			return pin.Guarded(b, "all", pin.NewLock(""), &pin.Options{TrustNew: true, Logger: quiet()})
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
			// What the server does not have is unknown once it has been asked, whatever
			// its name begins with.
			"tools/call 2":     {`{"name":"x_shop__none"}`, "unknown tool"},
			"tools/call 3":     {`{"name":"x_shop__add"}`, "unknown tool"},
			"prompts/get 2":    {`{"name":"x_shop__none"}`, "unknown prompt"},
			"resources/read 3": {`{"uri":"none://1"}`, "resource not found"},
		} {
			t.Run(name+"/"+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					way := lineTo(newShop())
					face := newServer("face")
					if err := face.Mount(behind(t, lazyShop(t, way, bridge.ProxyOptions{})), &server.MountOptions{Prefix: "x_"}); err != nil {
						t.Fatal(err)
					}
					defer face.Shutdown(context.Background())
					began := time.Now()
					within(t, 4*time.Second, 4*time.Second, func() {
						if err := face.Start(t.Context()); err != nil {
							t.Fatal(err)
						}
					})
					session := connect(t, pipeTo(face), client.Options{})
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
					if n := way.dials.Load(); n > 2 { // callers that cannot be asked may have another session
						t.Errorf("the server was started %d times", n)
					}
				})
			})
		}
	}
}

// TestLazyPins: a tool that has not been accepted is refused as such, not as one that does not
// exist, also if its server had to be waited for.
func TestLazyPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pin.Guarded(lazyShop(t, lineTo(newShop()), bridge.ProxyOptions{}), "all", pin.NewLock(""), &pin.Options{Logger: quiet()})
		session := connect(t, pipeTo(mount(t, p)), client.Options{})
		_, err := session.CallTool(t.Context(), "shop__sum", json.RawMessage(`{"A":1,"B":2}`), nil)
		if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(failed.Data), "QUARANTINED") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestLazySearch: search calls what has not been found yet.
func TestLazySearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := search.New(lazyShop(t, lineTo(newShop()), bridge.ProxyOptions{}), &search.Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		session := connect(t, pipeTo(mount(t, p)), client.Options{})
		result, err := session.CallTool(t.Context(), search.CallTool, json.RawMessage(`{"name":"shop__sum","arguments":{"A":1,"B":2}}`), nil)
		if got := texts(t, result, err); got != "3" {
			t.Errorf("it gives %q", got)
		}
		if _, err := session.Read(t.Context(), "note://1", nil); err != nil {
			t.Error(err)
		}
	})
}

// TestLazyNamesChoose: a name starts the server whose prefix it has, and no other one waits;
// the error of one that cannot be started says so.
func TestLazyNamesChoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := lineTo(newShop())
		b := lazyShop(t, way, bridge.ProxyOptions{CachedCatalog: cached("work", `{"name":"work"}`)})
		session := connect(t, pipeTo(mount(t, b)), client.Options{})
		within(t, 0, 0, func() {
			for _, name := range []string{"other__none", "nothing", "shop", "sho__sum"} {
				_, err := session.CallTool(t.Context(), name, nil, nil)
				if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || failed.Code != jsonrpc.InvalidParams {
					t.Errorf("%s: %v", name, err)
				}
			}
			_, err := session.Prompt(t.Context(), "broken__greet", nil, nil)
			if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(failed.Data), `"UPSTREAM_UNAVAILABLE","server":"broken","executed":"no"`) {
				t.Errorf("of a server that cannot be started: %v", err)
			}
			// What a server has that is not running is known from an earlier run; a URI
			// that is not among that does not start it.
			if _, err := session.Read(t.Context(), "note://1", nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("a resource that nobody has: %v", err)
			}
		})
		if n := way.dials.Load(); n != 0 {
			t.Errorf("the lazy server was started %d times", n)
		}
		result, err := session.CallTool(t.Context(), "shop__sum", json.RawMessage(`{"A":1,"B":2}`), nil)
		if got := texts(t, result, err); got != "3" {
			t.Errorf("a tool that is new since the earlier run gives %q", got)
		}
		if _, err := session.Read(t.Context(), "note://1", nil); err != nil {
			t.Errorf("then the resource is known: %v", err)
		}
	})
}

// TestTryAfterStart: a bridge runs when the server that it is mounted on has started.
func TestTryAfterStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 300 {
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "a", Dialer: pipeTo(toolsOnly(client.Legacy, "t"))})
			if err != nil {
				t.Fatal(err)
			}
			face := newServer("face")
			if err := face.Mount(b, nil); err != nil {
				t.Fatal(err)
			}
			if err := face.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.Try(t.Context(), bridge.Config{Alias: "b", Dialer: pipeTo(toolsOnly(client.Legacy, "u"))}); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			if got := names(face.Catalog(), mcp.KindTool); got != "b__u" {
				t.Fatalf("round %d: the tools are %s", i, got)
			}
			if err := face.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
