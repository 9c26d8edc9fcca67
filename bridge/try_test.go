package bridge_test

import (
	"context"
	"errors"
	"strings"
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

// The registry hears nothing of servers that are tried, unless all of them become the
// bridge's.
func TestTryAndTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegister()
		known := cached("known", `{"name":"known","inputSchema":{"type":"object"}}`)
		config := func(alias, tool string) bridge.Config {
			return bridge.Config{Alias: alias, Dialer: lineTo(toolsOnly(client.Legacy, tool)), Fingerprint: tool, ProxyOptions: bridge.ProxyOptions{CachedCatalog: known}}
		}
		b := newBridge(t, &bridge.Options{Registry: r}, bridge.Config{Alias: "one", Dialer: lineTo(toolsOnly(client.Legacy, "t1")), Fingerprint: "t1"})
		pass(time.Second)
		wrong := bridge.Config{Alias: "wrong", Dialer: nowhere{}, ProxyOptions: bridge.ProxyOptions{CachedCatalog: known}}
		if err := b.Try(t.Context(), config("one", "t2"), config("two", "t3"), wrong); err == nil {
			t.Error("one that cannot be started is taken")
		}
		pass(time.Second)
		if got := strings.Join(r.history, " "); got != "one[one__t1]" {
			t.Errorf("the registry was told %s", got)
		}
		if err := b.Try(t.Context(), config("one", "t2"), config("two", "t3")); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if got := r.String(); got != "one__t2 two__t3" {
			t.Errorf("the registry has %s", got)
		}
	})
}
