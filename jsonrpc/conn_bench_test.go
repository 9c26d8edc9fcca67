package jsonrpc_test

import (
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// BenchmarkRoundTrip measures a call from its encoding to the decoded response.
func BenchmarkRoundTrip(b *testing.B) {
	for _, kind := range []struct {
		name string
		pair func(testing.TB) (x, y jsonrpc.Stream)
	}{
		{"memory", func(testing.TB) (x, y jsonrpc.Stream) { return transport.NewPipe() }},
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
	x, y := transport.NewPipe()
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

// The allocations of a round trip at both ends are limited. They are for the frames, the
// messages and the context of the call.
func TestConnAllocations(t *testing.T) {
	racetest.Skip(t)
	const budget = 16
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

// borrower is a handler that handles some notifications without retaining them.
type borrower struct {
	handler
	borrow func(note *jsonrpc.Request) bool
}

func (h borrower) Borrow(note *jsonrpc.Request) bool { return h.borrow(note) }

// Reusing the memory of borrowed notifications does not change the other ones.
func TestBorrowedNotifications(t *testing.T) {
	for kind, pair := range streams {
		t.Run(kind, func(t *testing.T) {
			const each = 100
			var borrowed []string
			var kept []*jsonrpc.Request
			done := make(chan struct{})
			h := borrower{
				handler{notified: func(_ jsonrpc.Peer, note *jsonrpc.Request) {
					if kept = append(kept, note); len(kept) == each {
						close(done)
					}
				}},
				func(note *jsonrpc.Request) bool {
					switch note.Method {
					case "borrow":
						borrowed = append(borrowed, string(note.Member("n")))
						return true
					case "panic":
						panic("borrowing")
					}
					return false
				},
			}
			near, far := pair(t)
			run(t, near, h)
			peer := run(t, far, handler{})
			var want []string
			for i := range each {
				want = append(want, fmt.Sprint(i))
				long := strings.Repeat("x", i*100)
				for _, method := range []string{"borrow", "panic", "keep"} {
					params := jsonrpc.Raw(fmt.Sprintf(`{"n":%d,"x":%q}`, i, long))
					if err := peer.Notify(context.Background(), method, params); err != nil {
						t.Fatal(err)
					}
				}
			}
			waittest.Receive(t, "the last notification", done)
			var got []string
			for i, note := range kept {
				if x := string(note.Member("x")); note.Method != "keep" || len(x) != i*100+2 {
					t.Errorf("notification %d is now %s %.80s", i, note.Method, note.Params)
				}
				got = append(got, string(note.Member("n")))
			}
			if !slices.Equal(borrowed, want) || !slices.Equal(got, want) {
				t.Errorf("borrowed %v\nand kept %v,\nwant each %v", borrowed, got, want)
			}
		})
	}
}

// A borrowed notification allocates nothing at either end.
func TestBorrowedNotificationAllocations(t *testing.T) {
	racetest.Skip(t)
	for kind, pair := range streams {
		t.Run(kind, func(t *testing.T) {
			came := make(chan struct{}, 1)
			near, far := pair(t)
			run(t, near, borrower{handler{}, func(*jsonrpc.Request) bool { came <- struct{}{}; return true }})
			peer := run(t, far, handler{})
			var params jsonrpc.Appender = paramsOf(100)
			allocs := testing.AllocsPerRun(500, func() {
				if err := peer.Notify(context.Background(), "notifications/progress", params); err != nil {
					t.Fatal(err)
				}
				<-came
			})
			if allocs >= 1 {
				t.Errorf("%.1f allocations, want none", allocs)
			}
		})
	}
}

// Consecutive calls run on the same goroutine.
func TestCallsShareGoroutines(t *testing.T) {
	for kind, pair := range streams {
		t.Run(kind, func(t *testing.T) {
			near, far := pair(t)
			run(t, near, handler{handle: echo})
			client := run(t, far, handler{})
			call := func() {
				if _, err := client.Call(context.Background(), "tools/call", paramsOf(10)); err != nil {
					t.Fatal(err)
				}
			}
			call()
			const calls = 1000
			before := goroutinesCreated()
			for range calls {
				call()
			}
			if created := goroutinesCreated() - before; created > calls/10 {
				t.Errorf("%d goroutines for %d calls, one after another", created, calls)
			}
		})
	}
}

func goroutinesCreated() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
