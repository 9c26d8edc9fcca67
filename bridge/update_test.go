package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialers := make(map[string]*faultyDialer)
		config := func(alias, fingerprint string) bridge.Config {
			key := alias + " " + fingerprint
			if dialers[key] == nil {
				dialers[key] = dialerTo(toolsOnly(client.Legacy, "t"+fingerprint))
			}
			return bridge.Config{Alias: alias, Dialer: dialers[key], Fingerprint: fingerprint}
		}
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, config("keep", "1"), config("change", "1"), config("go", "1"))
		if err != nil {
			t.Fatal(err)
		}
		g := newClient(t, mount(t, b), client.Legacy)
		g.received()
		dials := dialers["keep 1"].dials.Load()
		check := func(what, want string) {
			t.Helper()
			advance(time.Second)
			if got := names(b.Catalog(), mcp.KindTool); got != want {
				t.Errorf("%s: the tools are %q, want %q", what, got, want)
			}
			if got := g.tools(t); got != want {
				t.Errorf("%s: the frontend has %q, want %q", what, got, want)
			}
			if dialers["keep 1"].dials.Load() != dials {
				t.Errorf("%s: the server that is kept was started again", what)
			}
		}
		check("at first", "keep__t1 change__t1 go__t1")
		update := func(configs ...bridge.Config) {
			t.Helper()
			if err := b.Update(configs...); err != nil {
				t.Fatal(err)
			}
		}
		update(config("new", "1"), config("keep", "1"), config("change", "2"))
		check("updated", "new__t1 keep__t1 change__t2")
		if got := g.received(); !slices.Contains(got, mcp.Change{Kind: mcp.KindTool}) {
			t.Errorf("received %v", got)
		}
		for _, gone := range []string{"change 1", "go 1"} {
			if n := dialers[gone].dials.Load(); n > 2 {
				t.Errorf("%s was started %d times", gone, n)
			}
		}
		if err := b.Update(config("new", "2"), config("a__b", "1")); err == nil {
			t.Error("a wrong alias is taken")
		}
		check("after an error", "new__t1 keep__t1 change__t2")
		update(config("new", "1"), config("keep", "1"), config("change", "2"))
		if got := g.received(); len(got) != 0 {
			t.Errorf("nothing has changed, but got %v", got)
		}
		unmarked := config("keep", "1")
		update(unmarked)
		check("fewer", "keep__t1")
		unmarked.Fingerprint = ""
		update(unmarked)
		advance(time.Second)
		if n := dialers["keep 1"].dials.Load(); n == dials {
			t.Error("a server without a fingerprint was not started anew")
		}
		update()
		dials = dialers["keep 1"].dials.Load()
		check("none", "")
	})
}

// Updates and calls run at the same time.
func TestUpdateUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep, other := dialerTo(echo(nil)), dialerTo(echo(nil))
		configs := func(i int) []bridge.Config {
			return []bridge.Config{
				{Alias: "keep", Dialer: keep, Fingerprint: "1"},
				{Alias: "other", Dialer: other, Fingerprint: fmt.Sprint(i)},
			}
		}
		b := newBridge(t, nil, configs(0)...)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				for ctx.Err() == nil {
					if text, err := callEcho(t.Context(), b, "keep__echo", "x"); err != nil || text != "x" {
						t.Errorf("it says %q, %v", text, err)
						return
					}
					_, _ = callEcho(t.Context(), b, "other__echo", "x")
					<-time.After(time.Millisecond)
				}
			})
		}
		var updates sync.WaitGroup
		for i := range 50 {
			updates.Go(func() {
				<-time.After(time.Duration(1+i/2) * 10 * time.Millisecond)
				if err := b.Update(configs(i)...); err != nil {
					t.Error(err)
				}
			})
		}
		updates.Wait()
		cancel()
		running.Wait()
		if n := keep.dials.Load(); n > 2 {
			t.Errorf("the server that is kept was started %d times", n)
		}
	})
}

// unreachable is a dialer that fails.
type unreachable struct{}

func (unreachable) Dial(context.Context, jsonrpc.Handler) (transport.Conn, error) {
	return nil, errors.New("there is no such program")
}

// UpdateAll changes everything with one notification, or nothing.
func TestUpdateAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := func(alias, tool string) bridge.Config {
			return bridge.Config{Alias: alias, Dialer: dialerTo(toolsOnly(client.Legacy, tool)), Fingerprint: tool}
		}
		one := config("one", "t1")
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, one)
		if err != nil {
			t.Fatal(err)
		}
		g := newClient(t, mount(t, b), client.Legacy)
		check := func(what, want string, received int) {
			t.Helper()
			advance(time.Second)
			if got := g.tools(t); got != want {
				t.Errorf("%s: the tools are %q, want %q", what, got, want)
			}
			if got := g.received(); len(got) != received || received > 0 && got[0].Kind != mcp.KindTool {
				t.Errorf("%s: received %v", what, got)
			}
		}
		advance(time.Second)
		g.received()
		if err := b.UpdateAll(t.Context(), one, config("two", "t2"), config("three", "t3")); err != nil {
			t.Fatal(err)
		}
		check("added", "one__t1 two__t2 three__t3", 1)
		if err := b.UpdateAll(t.Context(), one, config("two", "t4")); err != nil {
			t.Fatal(err)
		}
		check("replaced and removed", "one__t1 two__t4", 1)
		before := g.tools(t)
		err = b.UpdateAll(t.Context(), one, config("two", "t5"), bridge.Config{Alias: "four", Dialer: unreachable{}})
		if err == nil || !strings.Contains(err.Error(), `"four"`) || !strings.Contains(err.Error(), "no such program") {
			t.Errorf("the error is %v", err)
		}
		check("failed", before, 0)
		if err := b.UpdateAll(t.Context(), config("a__b", "t1")); err == nil {
			t.Error("a wrong alias is taken")
		}
		check("refused", before, 0)
		if err := b.UpdateAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("all gone", "", 1)
	})
}

// While UpdateAll waits, nothing of the new servers is offered or reported.
func TestUpdateAllFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := cached("known", `{"name":"known","inputSchema":{"type":"object"}}`)
		config := func(alias, tool string) bridge.Config {
			return bridge.Config{Alias: alias, Dialer: dialerTo(toolsOnly(client.Legacy, tool)), Fingerprint: tool, ProxyOptions: bridge.ProxyOptions{CachedCatalog: known}}
		}
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "one", Dialer: dialerTo(toolsOnly(client.Legacy, "t1")), Fingerprint: "t1"})
		if err != nil {
			t.Fatal(err)
		}
		var received atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx, func() {}, func(mcp.Change) { received.Add(1) }) }()
		advance(time.Second)
		received.Store(0)
		wrong := bridge.Config{Alias: "wrong", Dialer: unreachable{}, ProxyOptions: bridge.ProxyOptions{CachedCatalog: known}}
		if err := b.UpdateAll(t.Context(), config("one", "t2"), config("two", "t3"), wrong); err == nil {
			t.Error("one that cannot be started is taken")
		}
		advance(time.Second)
		if got := names(b.Catalog(), mcp.KindTool); got != "one__t1" || received.Load() != 0 {
			t.Errorf("the tools are %s after %d changes", got, received.Load())
		}
		if err := b.UpdateAll(t.Context(), config("one", "t2"), config("two", "t3")); err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		if got := names(b.Catalog(), mcp.KindTool); got != "one__t2 two__t3" || received.Load() != 1 {
			t.Errorf("the tools are %s after %d changes", got, received.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
