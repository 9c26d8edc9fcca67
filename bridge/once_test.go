package bridge_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A server that can run only once is started once for all clients of a user, whatever they can be asked, and for its lists. If
// users share it, it is started once for all of them. A further user's error says what to set.
func TestServerThatRunsOnce(t *testing.T) {
	elicit := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"City":"Bonn"}`)}, nil
	}
	sample := func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { return nil, nil }
	roots := func(context.Context) ([]mcp.Root, error) { return nil, nil }
	for name, c := range map[string]struct {
		behind client.Era
		user   string // the second one
		opts   bridge.ProxyOptions
		offer  func(t *testing.T, dialer transport.Dialer, opts bridge.ProxyOptions) server.Provider
	}{
		"proxy, legacy":           {client.Legacy, "ann", bridge.ProxyOptions{}, newProxyOf},
		"proxy, modern":           {client.Modern, "ann", bridge.ProxyOptions{}, newProxyOf},
		"proxy, lazy":             {client.Legacy, "ann", bridge.ProxyOptions{Lazy: true}, newProxyOf},
		"proxy, shared":           {client.Legacy, "bob", bridge.ProxyOptions{Sessions: 1}, newProxyOf},
		"proxy, of several users": {client.Legacy, "bob", bridge.ProxyOptions{}, newProxyOf},
		"bridge, legacy":          {client.Legacy, "ann", bridge.ProxyOptions{}, newBridgeOf},
		"bridge, shared":          {client.Modern, "bob", bridge.ProxyOptions{Sessions: 1}, newBridgeOf},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := filepath.Join(t.TempDir(), "lock")
			opts := c.opts
			opts.Era, opts.Logger = c.behind, quiet()
			frontend := mount(t, c.offer(t, child("once", lock), opts))
			var calls sync.WaitGroup
			for _, caller := range eras {
				for can := range 16 {
					o := client.Options{Era: caller}
					if can&1 != 0 {
						o.Elicit = elicit
					}
					if can&2 != 0 {
						o.Elicit, o.ElicitURLs = elicit, true
					}
					if can&4 != 0 {
						o.Sample = sample
					}
					if can&8 != 0 {
						o.Roots = roots
					}
					session := connect(t, pipeTo(as{frontend, "ann"}), o)
					result, err := session.CallTool(t.Context(), "ask", nil, nil)
					if answers := o.Elicit != nil; answers != (err == nil && !result.IsError && texts(t, result, err) == "Bonn") {
						t.Errorf("%v client with capabilities %04b: %v, %v", caller, can, result, err)
					}
					calls.Go(func() {
						result, err := session.CallTool(t.Context(), "add", map[string]int{"A": 1, "B": can}, nil)
						if err != nil || result.Text() != fmt.Sprint(can+1) {
							t.Errorf("%v client with capabilities %04b: %v, %v", caller, can, result, err)
						}
					})
				}
			}
			calls.Wait()
			session := connect(t, pipeTo(as{frontend, c.user}), client.Options{})
			_, err := session.CallTool(t.Context(), "add", map[string]int{"A": 1, "B": 1}, nil)
			if further := c.user != "ann" && opts.Sessions != 1; further != (err != nil) || further && !strings.Contains(err.Error(), "all users share one") {
				t.Errorf("a call of %s: %v", c.user, err)
			} else if starts, err := os.ReadFile(lock); !further && string(starts) != "started\n" {
				t.Errorf("the server was started %d times, %v", strings.Count(string(starts), "\n"), err)
			}
		})
	}
}

func newProxyOf(_ *testing.T, dialer transport.Dialer, opts bridge.ProxyOptions) server.Provider {
	return bridge.Proxy(dialer, &opts)
}

func newBridgeOf(t *testing.T, dialer transport.Dialer, opts bridge.ProxyOptions) server.Provider {
	b, err := bridge.New(&bridge.Options{Logger: quiet(), Unprefixed: true}, bridge.Config{Alias: "shop", Dialer: dialer, ProxyOptions: opts})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
