package sse_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// A round trip, both ends.
func BenchmarkCall(b *testing.B) {
	url, _ := serve(b, transporttest.Server(), nil)
	conn := dial(b, sse.Dial(url, nil), silent{})
	for _, size := range []int{100, 10_000, 1_000_000} {
		params := jsonrpc.Raw(`["` + strings.Repeat("x", size) + `"]`)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Call(b.Context(), "echo", params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := conn.Call(b.Context(), "echo", raw1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// Notifications of the server, many a call.
func BenchmarkNotifications(b *testing.B) {
	url, _ := serve(b, transporttest.Server(), nil)
	conn := dial(b, sse.Dial(url, nil), silent{})
	b.ReportAllocs()
	if _, err := conn.Call(b.Context(), "notify", jsonrpc.Raw(fmt.Sprintf(`{"count":%d}`, b.N))); err != nil {
		b.Fatal(err)
	}
}

// callBudget is the maximum number of allocations of a small call at both ends, including
// about 80 of net/http.
const callBudget = 120

func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	url, _ := serve(t, transporttest.Server(), nil)
	conn := dial(t, sse.Dial(url, nil), silent{})
	ctx := t.Context()
	if got := testing.AllocsPerRun(200, func() {
		if _, err := conn.Call(ctx, "echo", raw1); err != nil {
			t.Error(err)
		}
	}); got > callBudget {
		t.Errorf("a call takes %v allocations, at most %d are allowed", got, callBudget)
	}
}
