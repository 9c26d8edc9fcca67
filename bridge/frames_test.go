package bridge_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/calltest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// The bounds of a proxied call from the goroutine of the client's connection to
// (*jsonrpc.Conn).Call: the frames it may pass, and the files they are in.
const (
	maxFrames = 17
	maxFiles  = 12
)

// A tracer is a dialer that records the frames of the last call of a tool.
type tracer struct {
	transport.Dialer
	frames []runtime.Frame
}

func (tr *tracer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := tr.Dialer.Dial(ctx, handler)
	return &tracedConn{conn, tr}, err
}

type tracedConn struct {
	transport.Conn
	tracer *tracer
}

// Call records the callers of (*jsonrpc.Conn).Call.
func (c *tracedConn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	if method == mcp.MethodToolsCall {
		c.tracer.frames = calltest.Callers()
	}
	return c.Conn.Call(ctx, method, params)
}

// TestCallFrames logs the frames of a proxied call over a pipe, and bounds them.
func TestCallFrames(t *testing.T) {
	for path, test := range map[string]struct {
		tool  string
		front func(to transport.Dialer) server.Provider
	}{
		"proxy": {"echo", func(to transport.Dialer) server.Provider {
			return bridge.Proxy(to, &bridge.ProxyOptions{Logger: quiet()})
		}},
		"bridge": {"a__echo", func(to transport.Dialer) server.Provider {
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "a", Dialer: to})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}},
	} {
		t.Run(path, func(t *testing.T) {
			eachPair(t, func(t *testing.T, caller, behind client.Era) {
				to := &tracer{Dialer: dialerTo(echo(nil)).speaks(behind)}
				session := connect(t, pipeTo(mount(t, test.front(to))), client.Options{Era: caller})
				if _, err := session.CallTool(t.Context(), test.tool, map[string]string{"Text": "x"}, nil); err != nil {
					t.Fatal(err)
				}
				calltest.WantAtMost(t, to.frames, maxFrames, maxFiles)
			})
		})
	}
}

// A counted provider lists nothing and counts look-ups.
type counted struct {
	server.Provider
	catalog *server.Catalog
	lookups atomic.Int32
}

func newCounted(p server.Provider) *counted {
	c := &counted{Provider: p}
	c.catalog = server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
		c.lookups.Add(1)
		return p.Catalog().Lookup(kind, name), nil
	}})
	return c
}

func (c *counted) Catalog() *server.Catalog { return c.catalog }

// TestLookedUpOnce: the name of a call is looked up once, by the server that receives it.
func TestLookedUpOnce(t *testing.T) {
	b, err := bridge.New(&bridge.Options{Logger: quiet(), Guards: []mcp.Guard{{Name: "g", Check: func(context.Context, *mcp.Call) error { return nil }}}},
		bridge.Config{Alias: "a", Dialer: dialerTo(echo(nil))})
	if err != nil {
		t.Fatal(err)
	}
	front := newCounted(b)
	inner := newServer("inner")
	if err := inner.Mount(front, &server.MountOptions{Prefix: "in_"}); err != nil {
		t.Fatal(err)
	}
	session := connect(t, pipeTo(mount(t, inner.Provider())), client.Options{})
	for range 3 {
		front.lookups.Store(0)
		result, err := session.CallTool(t.Context(), "in_a__echo", map[string]string{"Text": "x"}, nil)
		if got := texts(t, result, err); got != "x" || front.lookups.Load() != 1 {
			t.Errorf("the call gives %q after %d look-ups", got, front.lookups.Load())
		}
	}
}

// paths are dialers to a server with echo: directly, through a proxy, and through a bridge.
var paths = map[string]struct {
	tool string
	dial func(t testing.TB, era client.Era) transport.Dialer
}{
	"direct": {"echo", func(_ testing.TB, era client.Era) transport.Dialer { return dialerTo(echo(nil)).speaks(era) }},
	"proxied": {"echo", func(t testing.TB, era client.Era) transport.Dialer {
		return pipeTo(mount(t, bridge.Proxy(dialerTo(echo(nil)).speaks(era), &bridge.ProxyOptions{Logger: quiet()})))
	}},
	"bridged": {"a__echo", func(t testing.TB, era client.Era) transport.Dialer {
		return pipeTo(mountBridge(t, []bridge.Config{{Alias: "a", Dialer: dialerTo(echo(nil)).speaks(era)}}))
	}},
}

// caller returns a function that calls echo.
func caller(t testing.TB, path string, era client.Era) func() {
	t.Helper()
	session := connect(t, paths[path].dial(t, era), client.Options{Era: era})
	params := jsonRaw(`{"name":"` + paths[path].tool + `","arguments":{"Text":"hello"}}`)
	return func() {
		if _, err := session.Call(t.Context(), mcp.MethodToolsCall, params, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A forwarded call allocates little more than two direct calls.
func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			direct := testing.AllocsPerRun(1000, caller(t, "direct", era))
			for path, most := range map[string]float64{"proxied": 20, "bridged": 20} {
				passed := testing.AllocsPerRun(1000, caller(t, path, era))
				t.Logf("%s: %v allocations, %v beyond two direct calls of %v", path, passed, passed-2*direct, direct)
				if passed-2*direct > most {
					t.Errorf("%s: %v allocations beyond two direct calls, want at most %v", path, passed-2*direct, most)
				}
			}
		})
	}
}

// Each call looks up the catalog, however many servers there are.
func TestCatalogAllocations(t *testing.T) {
	racetest.Skip(t)
	var configs []bridge.Config
	for i := range 50 {
		configs = append(configs, bridge.Config{Alias: fmt.Sprint("server", i), Dialer: dialerTo(echo(nil))})
	}
	b, err := bridge.New(nil, configs...)
	if err != nil {
		t.Fatal(err)
	}
	front := server.New(mcp.Implementation{Name: "front"}, nil)
	for i := range 50 {
		if err := front.Mount(echo(nil).Provider(), &server.MountOptions{Prefix: fmt.Sprint("server", i, "_")}); err != nil {
			t.Fatal(err)
		}
	}
	for of, p := range map[string]interface{ Catalog() *server.Catalog }{"bridge": b, "server": front} {
		if n := testing.AllocsPerRun(100, func() { p.Catalog() }); n > 0 {
			t.Errorf("the catalog of a %s takes %v allocations, want none", of, n)
		}
	}
}

func benchmark(b *testing.B, path string) {
	for name, era := range eras {
		b.Run(name, func(b *testing.B) {
			call := caller(b, path, era)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

func BenchmarkDirectCall(b *testing.B)  { benchmark(b, "direct") }
func BenchmarkProxiedCall(b *testing.B) { benchmark(b, "proxied") }
func BenchmarkBridgedCall(b *testing.B) { benchmark(b, "bridged") }
