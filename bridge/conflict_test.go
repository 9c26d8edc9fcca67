package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// addTool adds a tool that gives the name of its server.
func addTool(s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
}

// plainName gives tools the names that their servers have for them.
func plainName(_, name string) string { return name }

// wantCollision checks that an error names what collides, and both owners.
func wantCollision(t testing.TB, err error, name, owner, other string) {
	t.Helper()
	collision, ok := errors.AsType[*server.CollisionError](err)
	if !ok {
		t.Fatalf("the error is %T %v, want a *server.CollisionError", err, err)
	}
	if want := (server.CollisionError{Kind: mcp.KindTool, Name: name, Owner: owner, Other: other}); *collision != want {
		t.Errorf("the error is %+v, want %+v", *collision, want)
	}
}

// Two servers whose tools have one name do not start together, whichever is ready first.
func TestCollisionAtStart(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b, err := bridge.New(&bridge.Options{Name: plainName, Logger: quiet()},
				bridge.Config{Alias: "a", Dialer: delayed{pipeTo(toolsOnly(client.Legacy, "t", "u")), late}},
				bridge.Config{Alias: "b", Dialer: pipeTo(toolsOnly(client.Legacy, "t"))})
			if err != nil {
				t.Fatal(err)
			}
			face := newServer("face")
			if err := face.Mount(b, nil); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(late/2, func() { b.Catalog() })
			wantCollision(t, face.Start(t.Context()), "t", `the server "b"`, `the server "a"`)
			_, err = b.Start(t.Context())
			wantCollision(t, err, "t", `the server "b"`, `the server "a"`)
			if state := b.States()[0]; state.Status != bridge.Stopped {
				t.Errorf("after the error a server is %s", state.Status)
			}
		})
	}
}

// delayed is a way to a server that takes its time.
type delayed struct {
	transport.Dialer
	by time.Duration
}

func (d delayed) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	select {
	case <-time.After(d.by):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return d.Dialer.Dial(ctx, handler)
}

// While a bridge runs, the server that has a name keeps it, and the state of the other says
// that it is not offered.
func TestCollisionWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newServer("first"), newServer("second")
		addTool(first, "own")
		addTool(second, "t")
		b, err := bridge.New(&bridge.Options{Name: plainName, Logger: quiet()},
			bridge.Config{Alias: "a", Dialer: pipeTo(first)}, bridge.Config{Alias: "b", Dialer: pipeTo(second)})
		if err != nil {
			t.Fatal(err)
		}
		mount(t, b)
		addTool(first, "t")
		pass(time.Second)
		if e := b.Catalog().Lookup(mcp.KindTool, "t"); e.Origin.Server != "b" {
			t.Errorf("the tool is that of %+v", e.Origin)
		}
		states := b.States()
		if len(states[0].NotOffered) != 1 || len(states[1].NotOffered) != 0 {
			t.Fatalf("the states are %+v", states)
		}
		wantCollision(t, states[0].NotOffered[0], "t", `the server "a"`, `the server "b"`)
		second.Remove(mcp.KindTool, "t")
		pass(time.Second)
		if e := b.Catalog().Lookup(mcp.KindTool, "t"); e.Origin.Server != "a" || len(b.States()[0].NotOffered) != 0 {
			t.Errorf("then the tool is that of %+v, and not offered are %v", e.Origin, b.States()[0].NotOffered)
		}
	})
}

// Names that are known to collide are refused before anything starts or stops.
func TestCollisionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy := func(alias, tool string) bridge.Config {
			return bridge.Config{Alias: alias, Dialer: nowhere{}, Fingerprint: tool, ProxyOptions: bridge.ProxyOptions{
				Lazy: true, CachedCatalog: cached(tool, `{"name":"`+tool+`"}`),
			}}
		}
		opts := &bridge.Options{Name: plainName, Logger: quiet()}
		_, err := bridge.New(opts, lazy("a", "t"), lazy("b", "t"))
		wantCollision(t, err, "t", `the server "b"`, `the server "a"`)
		b := newBridge(t, opts, lazy("a", "t"))
		wantCollision(t, b.Update(lazy("a", "t"), lazy("b", "t")), "t", `the server "b"`, `the server "a"`)
		eager := bridge.Config{Alias: "c", Dialer: pipeTo(toolsOnly(client.Legacy, "t", "u"))}
		wantCollision(t, b.Try(t.Context(), eager, lazy("a", "t")), "t", `the server "c"`, `the server "a"`)
		if got := names(b.Catalog(), mcp.KindTool); got != "t" || len(b.States()) != 1 {
			t.Errorf("after errors the tools are %s, the states %+v", got, b.States())
		}
		if err := b.Update(lazy("b", "t")); err != nil {
			t.Errorf("the name cannot pass from one server to another: %v", err)
		}
	})
}

// A resource that a template of an earlier server covers is not offered by a later one,
// whichever is ready first.
func TestTemplateOfAnEarlierServer(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			second := newServer("second")
			for _, uri := range []string{"file://stolen", "other://x"} {
				server.AddResource(second, server.Resource{URI: uri, Name: uri}, func(context.Context, *server.Request) (string, error) { return "of the second", nil })
			}
			b, err := bridge.New(&bridge.Options{Logger: quiet()},
				bridge.Config{Alias: "a", Dialer: delayed{pipeTo(locations()), late}}, bridge.Config{Alias: "b", Dialer: pipeTo(second)})
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(late/2, func() { b.Catalog() })
			session := connect(t, pipeTo(mount(t, b)), client.Options{})
			for uri, want := range map[string]string{"file://stolen": "stolen", "other://x": "of the second", "file://open": "file://open"} {
				if got := readText(t, session, uri); got != want {
					t.Errorf("%s is %q, want %q", uri, got, want)
				}
			}
			if got := names(b.Catalog(), mcp.KindResource); strings.Contains(got, "stolen") {
				t.Errorf("the resources are %s", got)
			}
			refused := b.States()[1].NotOffered
			want := server.CollisionError{Kind: mcp.KindResource, Name: "file://stolen", Owner: `the server "b"`, Other: `the server "a"`}
			if collision, ok := errors.AsType[*server.CollisionError](errors.Join(refused...)); !ok || *collision != want {
				t.Errorf("not offered are %v", refused)
			}
		})
	}
}

func readText(t testing.TB, session *client.Session, uri string) string {
	t.Helper()
	result, err := session.Read(t.Context(), uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.Contents[0].(*mcp.TextResourceContents).Text
}

// A server must have what its options name. Otherwise one that is required cannot be
// started, and the state of any other says what is missing.
func TestMissingNames(t *testing.T) {
	for name, opts := range map[string]bridge.ProxyOptions{
		"rename":   {Rename: map[string]string{"gone": "x", "add": "sum", "greet": "hello"}},
		"override": {Override: map[string]bridge.Override{"gone": {Title: "x"}, "add": {}}},
		"expect":   {Expect: []string{"add", "gone"}},
		"all":      {Rename: map[string]string{"gone": "x"}, Expect: []string{"gone", "gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				missing := func(err error, alias string) {
					t.Helper()
					if missing, ok := errors.AsType[*bridge.MissingError](err); !ok || *missing != (bridge.MissingError{Server: alias, Name: "gone"}) {
						t.Errorf("the error is %v", err)
					}
				}
				opts.Logger = quiet()
				face := newServer("face")
				if err := face.Mount(bridge.Proxy(pipeTo(newShop()), &opts), nil); err != nil {
					t.Fatal(err)
				}
				missing(face.Start(t.Context()), "")

				opts.Optional = true
				p := bridge.Proxy(pipeTo(newShop()), &opts)
				mount(t, p)
				if state := p.State(); len(state.NotOffered) != 1 || state.Tools != 4 {
					t.Errorf("the state is %+v", state)
				}
				missing(errors.Join(p.State().NotOffered...), "")

				config := bridge.Config{Alias: "a", Dialer: pipeTo(newShop()), ProxyOptions: opts, Required: true}
				b, err := bridge.New(&bridge.Options{Logger: quiet()}, config)
				if err != nil {
					t.Fatal(err)
				}
				_, err = b.Start(t.Context())
				missing(err, "a")
				b = newBridge(t, nil)
				missing(b.Try(t.Context(), config), "a")
				config.Required = false
				if err := b.Try(t.Context(), config); err != nil {
					t.Error(err)
				}
				missing(errors.Join(b.States()[0].NotOffered...), "a")
			})
		})
	}
}

// A tool that is named in the options and disappears is in the state until it is back.
func TestMissingWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newServer("up")
		addTool(up, "t")
		var logged atomic.Int32
		p := bridge.Proxy(pipeTo(up), &bridge.ProxyOptions{Expect: []string{"t"}, Logger: counting(&logged)})
		mount(t, p)
		if state := p.State(); len(state.NotOffered) != 0 {
			t.Errorf("the state is %+v", state)
		}
		up.Remove(mcp.KindTool, "t")
		pass(time.Second)
		addTool(up, "u")
		pass(time.Second)
		if got := fmt.Sprint(p.State().NotOffered); got != `[the server does not list "t", which its options name]` || logged.Load() != 1 {
			t.Errorf("not offered are %s, logged %d times", got, logged.Load())
		}
		addTool(up, "t")
		pass(time.Second)
		if state := p.State(); len(state.NotOffered) != 0 {
			t.Errorf("the state is %+v", state)
		}
	})
}

// counter counts warnings.
type counter struct {
	slog.Handler
	count *atomic.Int32
}

func (c counter) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (c counter) Handle(context.Context, slog.Record) error {
	c.count.Add(1)
	return nil
}

func counting(count *atomic.Int32) *slog.Logger { return slog.New(counter{slog.DiscardHandler, count}) }
