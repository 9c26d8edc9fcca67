package bridge_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// maxFrames is the longest way that a proxied call may take from the goroutine of the face's
// connection to (*jsonrpc.Conn).Call, in frames, without that one.
const maxFrames = 19

// A tracer is a dialer that remembers the frames of the last call of a tool.
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

// Call has the place of (*jsonrpc.Conn).Call.
func (c *tracedConn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	if method == mcp.MethodToolsCall {
		c.tracer.frames = framesAbove()
	}
	return c.Conn.Call(ctx, method, params)
}

// framesAbove are the frames from that of the caller's caller to that of the goroutine.
func framesAbove() []runtime.Frame {
	pcs := make([]uintptr, 100)
	pcs = pcs[:runtime.Callers(3, pcs)]
	var found []runtime.Frame
	for frames := runtime.CallersFrames(pcs); ; {
		frame, more := frames.Next()
		if frame.Function != "" && frame.Function != "runtime.goexit" {
			found = append(found, frame)
		}
		if !more {
			return found
		}
	}
}

// TestCallFrames prints the way of a proxied call over a pipe, and bounds it.
func TestCallFrames(t *testing.T) {
	for way, test := range map[string]struct {
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
		t.Run(way, func(t *testing.T) {
			eachPair(t, func(t *testing.T, caller, behind client.Era) {
				to := &tracer{Dialer: lineTo(echo(nil)).of(behind)}
				session := connect(t, pipeTo(mount(t, test.front(to))), client.Options{Era: caller})
				if _, err := session.CallTool(t.Context(), test.tool, map[string]string{"Text": "x"}, nil); err != nil {
					t.Fatal(err)
				}
				for _, frame := range slices.Backward(to.frames) {
					file := frame.File[strings.LastIndex(frame.File, "/dovetail/")+1:]
					t.Logf("%s (%s:%d)", frame.Function[strings.LastIndex(frame.Function, "/")+1:], file, frame.Line)
				}
				t.Logf("%s: %d frames", way, len(to.frames))
				if len(to.frames) > maxFrames {
					t.Errorf("%s: the call passes %d frames before (*jsonrpc.Conn).Call, want at most %d", way, len(to.frames), maxFrames)
				}
			})
		})
	}
}

// counted is a provider that lists nothing, so that each look-up of a name asks it.
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
		bridge.Config{Alias: "a", Dialer: lineTo(echo(nil))})
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
