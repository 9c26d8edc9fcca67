package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A registry gets the tools of each server, and calls them by their names in the bridge.
func ExampleOptions_onConnect() {
	calc := server.New(mcp.Implementation{Name: "calc", Version: "1"}, nil)
	server.AddTool(calc, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})

	called := make(chan string)
	register := func(ctx context.Context, b *bridge.Bridge, alias string, tools []mcp.Tool) {
		result, err := b.CallTool(ctx, tools[0].Name, json.RawMessage(`{"A":1,"B":2}`))
		if err != nil {
			log.Print(err)
			return
		}
		called <- fmt.Sprint(alias, " has ", tools[0].Name, ": ", result.Text())
	}
	b, err := bridge.New(&bridge.Options{OnConnect: register, Logger: slog.New(slog.DiscardHandler)}, bridge.Config{Alias: "calc", Dialer: transport.Pipe(calc)})
	if err != nil {
		log.Fatal(err)
	}
	stop, err := b.Start(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	fmt.Println(<-called)
	// Output: calc has calc__add: 3
}

// OnConnect is called once for each connection, with the tools that callers without a principal see.
func TestOnConnect(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []string // only one server has connections
				dialer := dialerTo(toolsOnly(era, "one", "hidden", "two"))
				opts := &bridge.Options{
					Logger: quiet(),
					Guards: []mcp.Guard{{Name: "hide", Visible: func(_ context.Context, _ *mcp.Caller, t *mcp.Target) bool { return t.Origin.Name != "hidden" }}},
					OnConnect: func(ctx context.Context, b *bridge.Bridge, alias string, tools []mcp.Tool) {
						for _, tool := range tools {
							result, err := b.CallTool(ctx, tool.Name, nil)
							if err != nil {
								t.Error(err)
								continue
							}
							text, _ := llm.Text(result)
							events = append(events, alias+" "+tool.Name+"="+text)
						}
						<-ctx.Done()
						events = append(events, "ended")
					},
				}
				refused := dialerTo(toolsOnly(era, "never"))
				refused.refuse.Store(true)
				b, err := bridge.New(opts, bridge.Config{Alias: "s", Dialer: dialer}, bridge.Config{Alias: "dead", Dialer: refused})
				if err != nil {
					t.Fatal(err)
				}
				stop, err := b.Start(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				connected := []string{"s s__one=one", "s s__two=two"}
				want := slices.Clone(connected)
				check := func(what string) {
					t.Helper()
					advance(time.Minute)
					if !slices.Equal(events, want) {
						t.Errorf("%s: %s, want %s", what, strings.Join(events, ", "), strings.Join(want, ", "))
					}
				}
				check("connected")
				dialer.cut()
				want = slices.Concat(want, []string{"ended"}, connected)
				check("connected again")
				stop()
				want = append(want, "ended")
				check("stopped")
			})
		})
	}
}

// A new server is announced when it belongs to the bridge, so that its tools can be called.
func TestOnConnectOfNewServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan string, 10)
		b := newBridge(t, &bridge.Options{OnConnect: func(ctx context.Context, b *bridge.Bridge, alias string, tools []mcp.Tool) {
			for _, tool := range tools {
				_, err := b.CallTool(ctx, tool.Name, nil)
				events <- fmt.Sprint(alias, " ", tool.Name, " ", err)
			}
		}})
		slow := dialerTo(toolsOnly(client.Modern, "slow"))
		slow.hang.Store(true)
		quick := bridge.Config{Alias: "quick", Dialer: dialerTo(toolsOnly(client.Modern, "quick"))}
		err := b.UpdateAll(t.Context(), quick, bridge.Config{Alias: "slow", Dialer: slow})
		if _, failed := errors.AsType[*bridge.UpstreamError](err); !failed || len(events) > 0 {
			t.Errorf("a server does not start: %v, and %d events", err, len(events))
		}
		if err := b.UpdateAll(t.Context(), quick); err != nil {
			t.Fatal(err)
		}
		if got, want := <-events, "quick quick__quick <nil>"; got != want {
			t.Errorf("announced %q, want %q", got, want)
		}
	})
}
