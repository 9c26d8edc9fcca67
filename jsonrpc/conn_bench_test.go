package jsonrpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A round trip of a small call: encoded, sent, handled, answered, decoded.
func BenchmarkRoundTrip(b *testing.B) {
	for _, kind := range []struct {
		name string
		pair func(testing.TB) (x, y jsonrpc.Stream)
	}{
		{"memory", func(testing.TB) (x, y jsonrpc.Stream) { return transport.Streams() }},
		{"lines on os.Pipe", osPipes},
	} {
		for _, size := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("%s/%dB", kind.name, size), func(b *testing.B) {
				x, y := kind.pair(b)
				client := run(b, x, handler{})
				run(b, y, handler{handle: echo})
				params := paramsOf(size)
				b.ReportAllocs()
				b.SetBytes(int64(2 * size))
				for b.Loop() {
					if _, err := client.Call(context.Background(), "tools/call", params); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/%dB/parallel", kind.name, size), func(b *testing.B) {
				x, y := kind.pair(b)
				client := run(b, x, handler{})
				run(b, y, handler{handle: echo})
				params := paramsOf(size)
				b.ReportAllocs()
				b.SetBytes(int64(2 * size))
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := client.Call(context.Background(), "tools/call", params); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

func BenchmarkNotify(b *testing.B) {
	x, y := transport.Streams()
	client := run(b, x, handler{})
	run(b, y, handler{})
	params := paramsOf(100)
	b.ReportAllocs()
	for b.Loop() {
		if err := client.Notify(context.Background(), "notifications/progress", params); err != nil {
			b.Fatal(err)
		}
	}
}

func paramsOf(size int) jsonrpc.Raw {
	return jsonrpc.Raw(`{"name":"echo","arguments":{"message":"` + strings.Repeat("x", size) + `"}}`)
}

// What a round trip may allocate, both ends together: the frames, the messages,
// the call's context.
func TestConnAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const budget = 12
	for kind, pair := range streams {
		t.Run(kind, func(t *testing.T) {
			x, y := pair(t)
			client := run(t, x, handler{})
			run(t, y, handler{handle: echo})
			params := paramsOf(100)
			allocs := testing.AllocsPerRun(500, func() {
				if _, err := client.Call(context.Background(), "tools/call", params); err != nil {
					t.Fatal(err)
				}
			})
			if allocs > budget {
				t.Errorf("%.1f allocations, want at most %d", allocs, budget)
			}
		})
	}
}
