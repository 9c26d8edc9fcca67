package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// names returns the names of the entries of a kind, separated by spaces.
func names(offered *server.Catalog, kind mcp.Kind) string {
	var all []string
	for e := range offered.All(kind) {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

// started returns a proxy that has read its lists, and a client.
func started(t testing.TB, dialer *faultyDialer, opts bridge.ProxyOptions) (*bridge.Upstream, *client.Session) {
	t.Helper()
	opts.Logger = quiet()
	p := bridge.Proxy(dialer, &opts)
	return p, connect(t, pipeTo(mount(t, p)), client.Options{})
}

func TestSelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hidden := map[string]bool{"tool add": true, "prompt greet": true, "resource note://1": true, "resource template day://{day}": true}
		p, session := started(t, dialerTo(newShop()), bridge.ProxyOptions{
			Select: func(kind mcp.Kind, name string) bool { return !hidden[kind.String()+" "+name] },
		})
		offered := p.Catalog()
		if got := names(offered, mcp.KindTool); got != "ask work fail" {
			t.Errorf("the tools are %q", got)
		}
		if n := offered.Len(mcp.KindPrompt) + offered.Len(mcp.KindResource) + offered.Len(mcp.KindResourceTemplate); n != 0 {
			t.Errorf("%d hidden things are listed", n)
		}
		for method, params := range map[string]string{
			"tools/call":                   `{"name":"add","arguments":{"A":1,"B":2}}`,
			"prompts/get":                  `{"name":"greet","arguments":{"Name":"x"}}`,
			"resources/read":               `{"uri":"note://1"}`,
			"resources/read ":              `{"uri":"day://monday"}`,
			"completion/complete":          `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":""}}`,
			"completion/complete ":         `{"ref":{"type":"ref/resource","uri":"day://{day}"},"argument":{"name":"day","value":""}}`,
			"completion/complete of both":  `{"ref":{"type":"ref/resource","name":"ask","uri":"day://{day}"},"argument":{"name":"day","value":""}}`,
			"completion/complete of none":  `{"ref":{"name":"greet"},"argument":{"name":"Name","value":""}}`,
			"completion/complete of other": `{"ref":{"type":"ref/other","name":"greet"},"argument":{"name":"Name","value":""}}`,
		} {
			method, _, _ = strings.Cut(method, " ")
			if result, err := session.Call(t.Context(), method, json.RawMessage(params), nil); err == nil {
				t.Errorf("%s %s was answered: %s", method, params, result)
			}
		}
		for _, hidden := range []struct {
			kind mcp.Kind
			name string
		}{
			{mcp.KindTool, "add"}, {mcp.KindPrompt, "greet"}, {mcp.KindResource, "note://1"}, {mcp.KindResource, "day://monday"}, {mcp.KindResourceTemplate, "day://{day}"},
		} {
			if e := offered.Lookup(hidden.kind, hidden.name); e != nil {
				t.Errorf("the %v %s is offered by the proxy", hidden.kind, hidden.name)
			}
			if e, err := offered.Resolve(t.Context(), hidden.kind, hidden.name); e != nil {
				t.Errorf("the %v %s is found by the proxy, with error %v", hidden.kind, hidden.name, err)
			}
		}
	})
}

// A template does not match a resource that is not selected.
func TestSelectBehindTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, session := started(t, dialerTo(locations()), bridge.ProxyOptions{
			Select: func(_ mcp.Kind, name string) bool { return name != "file://secret" },
		})
		for uri, readable := range map[string]bool{"file://open": true, "file://other": true, "file://secret": false, "else://x": false} {
			if _, err := session.ReadResource(t.Context(), uri, nil); (err == nil) != readable {
				t.Errorf("%s: %v, want it readable: %v", uri, err, readable)
			}
		}
	})
}

func TestRename(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renamed := bridge.ProxyOptions{Rename: map[string]string{"add": "sum", "greet": "hello", "work": "twice", "fail": "twice"}, Logger: quiet()}
		frontend := newServer("frontend")
		if err := frontend.Mount(bridge.Proxy(dialerTo(newShop()), &renamed), nil); err != nil {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*server.CollisionError](frontend.Start(t.Context())); !ok {
			t.Error("it starts with two tools of one name")
		}
		renamed.Optional = true
		p, session := started(t, dialerTo(newShop()), renamed)
		if got := fmt.Sprint(p.State().NotOffered); got != `[a second tool "twice" of the server is not offered]` {
			t.Errorf("not offered are %s", got)
		}
		if got := names(p.Catalog(), mcp.KindTool); got != "sum ask" {
			t.Errorf("the tools are %q: of two with one name none is to be there", got)
		}
		result, err := session.CallTool(t.Context(), "sum", json.RawMessage(`{"A":1,"B":2}`), nil)
		if got := texts(t, result, err); got != "3" {
			t.Errorf("sum gave %q", got)
		}
		if _, err := session.CallTool(t.Context(), "add", json.RawMessage(`{"A":1,"B":2}`), nil); err == nil {
			t.Error("a tool is called by the name that it has no more")
		}
		if _, err := session.GetPrompt(t.Context(), "hello", map[string]string{"Name": "Ann"}, nil); err != nil {
			t.Error(err)
		}
		values, err := session.CompletePrompt(t.Context(), "hello", "Name", "A", nil, nil)
		if err != nil || values.Values[0] != "Ann" {
			t.Errorf("the completion is %v, %v", values, err)
		}
	})
}

func TestOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain, _ := started(t, dialerTo(newShop()), bridge.ProxyOptions{})
		p, _ := started(t, dialerTo(newShop()), bridge.ProxyOptions{
			Override: map[string]bridge.Override{"add": {Title: "Sum", Description: "Sums up."}, "ask": {}},
		})
		was, is := definitions(plain), definitions(p)
		want := strings.Replace(was[0], `"Adds."`, `"Sums up."`, 1)
		want = strings.TrimSuffix(want, "}") + `,"title":"Sum"}`
		if is[0] != want {
			t.Errorf("the tool is %s, want %s", is[0], want)
		}
		if is[1] != was[1] {
			t.Errorf("a tool that is not overridden is %s, was %s", is[1], was[1])
		}
	})
}

// definitions returns the definitions of the tools of a provider.
func definitions(p server.Provider) (all []string) {
	for e := range p.Catalog().All(mcp.KindTool) {
		all = append(all, string(e.Definition.JSON()))
	}
	return all
}

// addTool adds a tool that returns the name of its server.
func addTool(s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
}

// plainName keeps the names that tools have on their servers.
func plainName(_, name string) string { return name }

// wantCollision checks the name and both owners in an error.
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

// Two servers with tools of one name do not start together, whichever is ready first.
func TestCollisionAtStart(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b, err := bridge.New(&bridge.Options{Name: plainName, Logger: quiet()},
				bridge.Config{Alias: "a", Dialer: delayed{pipeTo(toolsOnly(client.Legacy, "t", "u")), late}},
				bridge.Config{Alias: "b", Dialer: pipeTo(toolsOnly(client.Legacy, "t"))})
			if err != nil {
				t.Fatal(err)
			}
			frontend := newServer("frontend")
			if err := frontend.Mount(b, nil); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(late/2, func() { b.Catalog() })
			wantCollision(t, frontend.Start(t.Context()), "t", `the server "b"`, `the server "a"`)
			_, err = b.Start(t.Context())
			wantCollision(t, err, "t", `the server "b"`, `the server "a"`)
			if state := b.States()[0]; state.Status != "stopped" {
				t.Errorf("after the error a server is %s", state.Status)
			}
		})
	}
}

// delayed is a dialer that waits before it dials.
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

// While a bridge runs, the server that has a name keeps it.
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
		advance(time.Second)
		if e := b.Catalog().Lookup(mcp.KindTool, "t"); e.Origin.Server != "b" {
			t.Errorf("the tool is from %+v", e.Origin)
		}
		states := b.States()
		if len(states[0].NotOffered) != 1 || len(states[1].NotOffered) != 0 {
			t.Fatalf("the states are %+v", states)
		}
		wantCollision(t, states[0].NotOffered[0], "t", `the server "a"`, `the server "b"`)
		second.Remove(mcp.KindTool, "t")
		advance(time.Second)
		if e := b.Catalog().Lookup(mcp.KindTool, "t"); e.Origin.Server != "a" || len(b.States()[0].NotOffered) != 0 {
			t.Errorf("then the tool is from %+v, and not offered are %v", e.Origin, b.States()[0].NotOffered)
		}
	})
}

// Known collisions are refused before anything starts or stops.
func TestCollisionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy := func(alias, tool string) bridge.Config {
			return bridge.Config{Alias: alias, Dialer: unreachable{}, Fingerprint: tool, ProxyOptions: bridge.ProxyOptions{
				Lazy: true, CachedCatalog: cached(tool, `{"name":"`+tool+`"}`),
			}}
		}
		opts := &bridge.Options{Name: plainName, Logger: quiet()}
		_, err := bridge.New(opts, lazy("a", "t"), lazy("b", "t"))
		wantCollision(t, err, "t", `the server "b"`, `the server "a"`)
		b := newBridge(t, opts, lazy("a", "t"))
		wantCollision(t, b.Update(lazy("a", "t"), lazy("b", "t")), "t", `the server "b"`, `the server "a"`)
		eager := bridge.Config{Alias: "c", Dialer: pipeTo(toolsOnly(client.Legacy, "t", "u"))}
		wantCollision(t, b.UpdateAll(t.Context(), eager, lazy("a", "t")), "t", `the server "c"`, `the server "a"`)
		if got := names(b.Catalog(), mcp.KindTool); got != "t" || len(b.States()) != 1 {
			t.Errorf("after errors the tools are %s, the states %+v", got, b.States())
		}
		if err := b.Update(lazy("b", "t")); err != nil {
			t.Errorf("the name cannot pass from one server to another: %v", err)
		}
	})
}

// A resource that a template of an earlier server covers is not offered, whichever server is
// ready first.
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
	result, err := session.ReadResource(t.Context(), uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.Contents[0].(*mcp.TextResourceContents).Text
}

// A name in the options that the server lacks is an error, or part of the state if the server is
// not required.
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
				frontend := newServer("frontend")
				if err := frontend.Mount(bridge.Proxy(pipeTo(newShop()), &opts), nil); err != nil {
					t.Fatal(err)
				}
				missing(frontend.Start(t.Context()), "")

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
				missing(b.UpdateAll(t.Context(), config), "a")
				config.Required = false
				if err := b.UpdateAll(t.Context(), config); err != nil {
					t.Error(err)
				}
				missing(errors.Join(b.States()[0].NotOffered...), "a")
			})
		})
	}
}

// A tool that the options name and that disappears is in the state until it is back.
func TestMissingWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newServer("up")
		addTool(up, "t")
		var logged atomic.Int32
		p := bridge.Proxy(pipeTo(up), &bridge.ProxyOptions{Expect: []string{"t"}, Logger: countingLogger(&logged)})
		mount(t, p)
		if state := p.State(); len(state.NotOffered) != 0 {
			t.Errorf("the state is %+v", state)
		}
		up.Remove(mcp.KindTool, "t")
		advance(time.Second)
		addTool(up, "u")
		advance(time.Second)
		if got := fmt.Sprint(p.State().NotOffered); got != `[the server does not list "t", which its options name]` || logged.Load() != 1 {
			t.Errorf("not offered are %s, logged %d times", got, logged.Load())
		}
		addTool(up, "t")
		advance(time.Second)
		if state := p.State(); len(state.NotOffered) != 0 {
			t.Errorf("the state is %+v", state)
		}
	})
}

// A counter is a log handler that counts warnings.
type counter struct {
	slog.Handler
	count *atomic.Int32
}

func (c counter) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (c counter) Handle(context.Context, slog.Record) error {
	c.count.Add(1)
	return nil
}

func countingLogger(count *atomic.Int32) *slog.Logger {
	return slog.New(counter{slog.DiscardHandler, count})
}

// A server cannot prevent the start of the server that the bridge is mounted on, nor take a resource
// of that server: the URI is reported and not offered.
func TestAListedURICannotPreventTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer // read after the log has ended
		frontend := server.New(mcp.Implementation{Name: "frontend"}, &server.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		server.AddResource(frontend, server.Resource{URI: "note://1", Name: "own"}, func(context.Context, *server.Request) (string, error) { return "own", nil })
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "evil", Dialer: pipeTo(newShop())})
		if err != nil {
			t.Fatal(err)
		}
		if err := frontend.Mount(b, nil); err != nil {
			t.Fatal(err)
		}
		defer frontend.Shutdown(context.Background())
		if err := frontend.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		session := connect(t, pipeTo(frontend), client.Options{})
		result, err := session.Call(t.Context(), mcp.MethodResourcesRead, jsonRaw(`{"uri":"note://1"}`), nil)
		if err != nil || !strings.Contains(string(result), `"own"`) {
			t.Errorf("the resource is %s, %v, want the resource of the server itself", result, err)
		}
		if err := frontend.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(logged.String(), "note://1") {
			t.Error("the collision was not logged")
		}
	})
}
