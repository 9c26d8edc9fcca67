package bridge_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// wantCycle checks that a bridge reports that a server leads back to it, and offers nothing of it.
func wantCycle(t *testing.T, b *bridge.Bridge, alias string) {
	t.Helper()
	for _, state := range b.States() {
		if state.Alias != alias {
			continue
		}
		if _, ok := errors.AsType[*bridge.CycleError](state.Err); !ok {
			t.Errorf("the state of %q has the error %v, want a *CycleError", alias, state.Err)
		}
		reported := slices.ContainsFunc(state.NotOffered, func(err error) bool {
			_, ok := errors.AsType[*bridge.CycleError](err)
			return ok
		})
		if !reported || state.Tools > 0 {
			t.Errorf("%q offers %d tools, and reports %v", alias, state.Tools, state.NotOffered)
		}
	}
}

// A late dialer is set after the bridge that dials it was made.
type lateDialer struct {
	to atomic.Pointer[transport.Dialer]
}

func (l *lateDialer) set(to transport.Dialer) { l.to.Store(&to) }

func (l *lateDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	return (*l.to.Load()).Dial(ctx, handler)
}

// cyclic returns a server with a tool of its own and a bridge to the given servers.
func cyclic(t *testing.T, configs ...bridge.Config) (*server.Server, *bridge.Bridge) {
	t.Helper()
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	s := echo(nil)
	// A wrapped provider must not hide the cycle.
	if err := s.Mount(pin.Wrap(b, "all", pin.NewLock(""), &pin.Options{TrustNew: true, Logger: quiet()}), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s, b
}

func toolsOf(s *server.Server) string { return names(s.Catalog(), mcp.KindTool) }

// A bridge that has the server that it is mounted on as one of its servers offers it nothing twice.
func TestABridgeToItself(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var itself lateDialer
				s, b := cyclic(t, bridge.Config{Alias: "self", Dialer: &itself, ProxyOptions: bridge.ProxyOptions{Era: era}},
					bridge.Config{Alias: "other", Dialer: pipeTo(echo(nil))})
				itself.set(transport.Pipe(s))
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				advance(time.Hour)
				if got := toolsOf(s); got != "echo other__echo" {
					t.Errorf("the tools are %.300q, want echo other__echo", got)
				}
				wantCycle(t, b, "self")
			})
		})
	}
}

// The same with the URL of an HTTP endpoint, which is added while the bridge runs.
func TestTheURLOfTheBridgeItself(t *testing.T) {
	s, b := cyclic(t)
	handler := streamable.Handler(s, nil)
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := b.UpdateAll(t.Context(), bridge.Config{Alias: "self", Dialer: streamable.Dial(web.URL, nil)})
	if _, ok := errors.AsType[*bridge.CycleError](err); !ok {
		t.Errorf("the error is %v, want a *CycleError", err)
	}
	if got := toolsOf(s); got != "echo" {
		t.Errorf("the tools are %.300q, want echo", got)
	}
}

// Bridges that have each other as servers, in a ring, offer a bounded number of tools, whatever the
// order in which they start. When one of them is removed, the others are offered again.
func TestARingOfBridges(t *testing.T) {
	for _, length := range []int{2, 3} {
		for name, era := range eras {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					next := make([]lateDialer, length)
					servers, bridges := make([]*server.Server, length), make([]*bridge.Bridge, length)
					for i := range length {
						servers[i], bridges[i] = cyclic(t, bridge.Config{Alias: "next", Dialer: &next[i], ProxyOptions: bridge.ProxyOptions{Era: era}})
					}
					for i := range length {
						next[i].set(transport.Pipe(servers[(i+1)%length]))
					}
					for _, s := range servers {
						go s.Start(t.Context()) // at the same time
					}
					synctest.Wait()
					advance(time.Hour)
					cycles := 0
					for i, s := range servers {
						if n := s.Catalog().Len(mcp.KindTool); n > length {
							t.Errorf("server %d has %d tools: %.300s", i, n, toolsOf(s))
						}
						if _, ok := errors.AsType[*bridge.CycleError](bridges[i].States()[0].Err); ok {
							cycles++
						}
					}
					if cycles == 0 {
						t.Error("no bridge reports the cycle")
					}
					if err := bridges[length-1].Update(); err != nil {
						t.Fatal(err)
					}
					advance(time.Hour)
					for i := range length - 1 {
						if n := servers[i].Catalog().Len(mcp.KindTool); n != length-i {
							t.Errorf("without the cycle, server %d has the tools %q (%v)", i, toolsOf(servers[i]), bridges[i].States()[0].Err)
						}
					}
				})
			})
		}
	}
}

// A server that reports strange ids of bridges is offered like any other.
func TestStrangeIDsOfBridges(t *testing.T) {
	for name, ids := range map[string]string{
		"a string": `"x"`, "numbers": `[1,2]`, "empty": `["",""]`, "long": `["` + strings.Repeat("x", 1000) + `"]`,
		"many": `["` + strings.Repeat(`a","`, 10_000) + `b"]`, "null": `null`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := lister(client.Legacy, func(method, _ string) (string, error) {
					if method != mcp.MethodToolsList {
						return "", nil
					}
					return `{"tools":[{"name":"a"}],"_meta":{"` + mcp.MetaBridges + `":` + ids + `}}`, nil
				})
				p, _ := started(t, dialerTo(up), bridge.ProxyOptions{})
				if got := names(p.Catalog(), mcp.KindTool); got != "a" {
					t.Errorf("the tools are %q, want a (%v)", got, p.State().Err)
				}
			})
		})
	}
}
