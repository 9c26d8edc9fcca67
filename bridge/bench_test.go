package bridge_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// hops are the ways to echo: by a client, by a client of a proxy, and by one of a bridge.
var hops = map[string]struct {
	tool string
	dial func(t testing.TB, era client.Era) transport.Dialer
}{
	"direct": {"echo", func(_ testing.TB, era client.Era) transport.Dialer { return lineTo(echo(nil)).of(era) }},
	"proxied": {"echo", func(t testing.TB, era client.Era) transport.Dialer {
		return pipeTo(mount(t, bridge.Proxy(lineTo(echo(nil)).of(era), &bridge.ProxyOptions{Logger: quiet()})))
	}},
	"bridged": {"a__echo", func(t testing.TB, era client.Era) transport.Dialer {
		return pipeTo(mountBridge(t, []bridge.Config{{Alias: "a", Dialer: lineTo(echo(nil)).of(era)}}))
	}},
}

// caller returns a function that calls echo.
func caller(t testing.TB, way string, era client.Era) func() {
	t.Helper()
	session := connect(t, hops[way].dial(t, era), client.Options{Era: era})
	params := jsonRaw(`{"name":"` + hops[way].tool + `","arguments":{"Text":"hello"}}`)
	return func() {
		if _, err := session.Call(t.Context(), mcp.MethodToolsCall, params, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A call that is passed on costs little more than the two that it consists of.
func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			direct := testing.AllocsPerRun(1000, caller(t, "direct", era))
			for way, most := range map[string]float64{"proxied": 20, "bridged": 20} {
				passed := testing.AllocsPerRun(1000, caller(t, way, era))
				t.Logf("%s: %v allocations, %v beyond two direct calls of %v", way, passed, passed-2*direct, direct)
				if passed-2*direct > most {
					t.Errorf("%s: %v allocations beyond two direct calls, want at most %v", way, passed-2*direct, most)
				}
			}
		})
	}
}

func benchmark(b *testing.B, way string) {
	for name, era := range eras {
		b.Run(name, func(b *testing.B) {
			call := caller(b, way, era)
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
