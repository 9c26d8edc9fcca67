//go:build unix

package stdio_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A round trip to a child process and back.
func BenchmarkCommand(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "100KB": 100_000} {
		params := jsonrpc.Raw(`["` + strings.Repeat("x", size) + `"]`)
		b.Run(name, func(b *testing.B) {
			conn := dial(b, "kit", nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Call(b.Context(), "echo", params); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			conn := dial(b, "kit", nil)
			b.ReportAllocs()
			b.SetParallelism(16)
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
