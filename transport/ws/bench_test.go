package ws_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A call and its answer over a socket of this machine, both ends.
func BenchmarkCall(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "10KB": 10_000, "1MB": 1_000_000} {
		params := jsonrpc.Raw(`["` + strings.Repeat("x", size-4) + `"]`)
		b.Run(name, func(b *testing.B) {
			conn, err := ws.Dial(serve(b, binder(echoing), nil), nil).Dial(b.Context(), handler(refuse))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Call(b.Context(), "echo", params); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" parallel", func(b *testing.B) {
			conn, err := ws.Dial(serve(b, binder(echoing), nil), nil).Dial(b.Context(), handler(refuse))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := conn.Call(b.Context(), "echo", params); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
