package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// repeater is a server whose calls cost next to nothing: the result is the arguments.
func repeater() *server.Server {
	return newServer(&server.Options{
		Capabilities: &offersAll,
		Middleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
			return func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				return mcp.Raw(call.Member("arguments")), nil
			}
		}},
	})
}

// payload are the params of a call with arguments of about that size.
func payload(size int) json.RawMessage {
	return json.RawMessage(`{"name":"t","arguments":{"content":[{"type":"text","text":"` + strings.Repeat("a", max(size-50, 0)) + `"}]}}`)
}

// hops are a caller that calls the repeater itself, and one that calls it by a forwarder.
func hops(tb testing.TB, callerEra, serverEra client.Era, can *mcp.ClientCapabilities) (direct, forwarded *client.Session) {
	direct = connect(tb, transport.Pipe(repeater()), client.Options{Era: callerEra})
	upstream := connect(tb, transport.Pipe(repeater()), client.Options{Era: serverEra, Capabilities: can})
	opts := client.Options{Era: callerEra}
	if can.Roots != nil {
		opts.Roots = func(context.Context) ([]mcp.Root, error) { return nil, nil }
	}
	return direct, connect(tb, transport.Pipe(forwarder(upstream, nil)), opts)
}

func benchmarkCall(b *testing.B, s *client.Session, params json.RawMessage) {
	b.ReportAllocs()
	b.SetBytes(int64(len(params)))
	for b.Loop() {
		if _, err := s.Call(b.Context(), mcp.MethodToolsCall, params, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkForward(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		for _, size := range []int{100, 100 << 10, 1 << 20} {
			direct, forwarded := hops(b, era, era, &mcp.ClientCapabilities{})
			b.Run(fmt.Sprint(size, " direct"), func(b *testing.B) { benchmarkCall(b, direct, payload(size)) })
			b.Run(fmt.Sprint(size, " forwarded"), func(b *testing.B) { benchmarkCall(b, forwarded, payload(size)) })
		}
	})
}

// TestForwardBudget: forwarding costs at most 20 allocations beyond the two hops' own.
func TestForwardBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const budget = 20
	params := payload(100)
	for _, can := range []mcp.ClientCapabilities{{}, {Roots: &mcp.RootsCapability{}}} {
		eachEra(t, func(t *testing.T, callerEra client.Era) {
			eachEra(t, func(t *testing.T, serverEra client.Era) {
				direct, forwarded := hops(t, callerEra, serverEra, &can)
				ownHop, _ := hops(t, serverEra, serverEra, &can)
				cost := func(s *client.Session) float64 {
					return testing.AllocsPerRun(200, func() {
						if _, err := s.Call(t.Context(), mcp.MethodToolsCall, params, nil); err != nil {
							t.Fatal(err)
						}
					})
				}
				first, second, both := cost(direct), cost(ownHop), cost(forwarded)
				t.Logf("%.0f and %.0f directly, %.0f forwarded, %.0f beyond; can be asked: %t", first, second, both, both-first-second, can.Roots != nil)
				if both-first-second > budget {
					t.Errorf("forwarding costs %.0f allocations beyond the hops' own, want at most %d", both-first-second, budget)
				}
			})
		})
	}
}
