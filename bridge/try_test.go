package bridge_test

import (
	"context"
	"errors"
	"strings"
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

// nowhere is the way to a server that cannot be started.
type nowhere struct{}

func (nowhere) Dial(context.Context, jsonrpc.Handler) (transport.Conn, error) {
	return nil, errors.New("there is no such program")
}

// Servers that can be started come and go with one notice, others not at all.
func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := func(alias, tool string) bridge.Config {
			return bridge.Config{Alias: alias, Dialer: lineTo(toolsOnly(client.Legacy, tool)), Fingerprint: tool}
		}
		one := config("one", "t1")
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, one)
		if err != nil {
			t.Fatal(err)
		}
		g := newGuest(t, mount(t, b), client.Legacy)
		check := func(what, want string, told int) {
			t.Helper()
			pass(time.Second)
			if got := g.tools(t); got != want {
				t.Errorf("%s: the tools are %q, want %q", what, got, want)
			}
			if got := g.told(); len(got) != told || told > 0 && got[0].Kind != mcp.KindTool {
				t.Errorf("%s: told %v", what, got)
			}
		}
		pass(time.Second)
		g.told()
		if err := b.Try(t.Context(), one, config("two", "t2"), config("three", "t3")); err != nil {
			t.Fatal(err)
		}
		check("added", "one__t1 two__t2 three__t3", 1)
		if err := b.Try(t.Context(), one, config("two", "t4")); err != nil {
			t.Fatal(err)
		}
		check("replaced and removed", "one__t1 two__t4", 1)
		before := g.tools(t)
		err = b.Try(t.Context(), one, config("two", "t5"), bridge.Config{Alias: "four", Dialer: nowhere{}})
		if err == nil || !strings.Contains(err.Error(), `"four"`) || !strings.Contains(err.Error(), "no such program") {
			t.Errorf("the error is %v", err)
		}
		check("failed", before, 0)
		if err := b.Try(t.Context(), config("a__b", "t1")); err == nil {
			t.Error("a wrong alias is taken")
		}
		check("refused", before, 0)
		if err := b.Try(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("all gone", "", 1)
	})
}

// Nothing is told of servers that are tried, and their tools are not offered, unless all of
// them become the bridge's.
func TestTryTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := cached("known", `{"name":"known","inputSchema":{"type":"object"}}`)
		config := func(alias, tool string) bridge.Config {
			return bridge.Config{Alias: alias, Dialer: lineTo(toolsOnly(client.Legacy, tool)), Fingerprint: tool, ProxyOptions: bridge.ProxyOptions{CachedCatalog: known}}
		}
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "one", Dialer: lineTo(toolsOnly(client.Legacy, "t1")), Fingerprint: "t1"})
		if err != nil {
			t.Fatal(err)
		}
		var told atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx, func() {}, func(mcp.Change) { told.Add(1) }) }()
		pass(time.Second)
		told.Store(0)
		wrong := bridge.Config{Alias: "wrong", Dialer: nowhere{}, ProxyOptions: bridge.ProxyOptions{CachedCatalog: known}}
		if err := b.Try(t.Context(), config("one", "t2"), config("two", "t3"), wrong); err == nil {
			t.Error("one that cannot be started is taken")
		}
		pass(time.Second)
		if got := names(b.Catalog(), mcp.KindTool); got != "one__t1" || told.Load() != 0 {
			t.Errorf("the tools are %s after %d changes", got, told.Load())
		}
		if err := b.Try(t.Context(), config("one", "t2"), config("two", "t3")); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if got := names(b.Catalog(), mcp.KindTool); got != "one__t2 two__t3" || told.Load() != 1 {
			t.Errorf("the tools are %s after %d changes", got, told.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
