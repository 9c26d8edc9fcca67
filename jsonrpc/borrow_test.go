package jsonrpc_test

import (
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// borrower is a handler that is done with some notifications at once.
type borrower struct {
	handler
	borrow func(note *jsonrpc.Request) bool
}

func (h borrower) Borrow(_ jsonrpc.Peer, note *jsonrpc.Request) bool { return h.borrow(note) }

// What is kept of one notification stays as it is, whatever becomes of the memory of
// those that were borrowed.
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
			<-done
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

// A notification that is borrowed costs both ends nothing that lasts.
func TestBorrowedNotificationAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
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

// A call runs on a goroutine that has run one before: to grow a stack costs more than
// the call.
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

// Dispatch says what was borrowed, and such a notification costs nothing that lasts,
// whoever decodes it.
func TestDispatchBorrows(t *testing.T) {
	h := borrower{handler{notified: func(jsonrpc.Peer, *jsonrpc.Request) {}}, func(note *jsonrpc.Request) bool { return note.Method == "borrow" }}
	h.handle = echo
	d := jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler { return h }, nil)
	defer d.Close()
	route := d.Route(context.Background(), new(tray))
	dispatch := func(text string) bool {
		msg, err := jsonrpc.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return route.Dispatch(msg)
	}
	for text, want := range map[string]bool{
		note("borrow", `{"n":1}`): true, note("keep", `{"n":1}`): false,
		result(8, `{}`): false, call(1, "borrow", `[1]`): false,
	} {
		if got := dispatch(text); got != want {
			t.Errorf("%s: borrowed is %v", text, got)
		}
	}
	if raced {
		return // the race detector allocates
	}
	text := []byte(note("borrow", `{"progressToken":"1","progress":1}`))
	if allocs := testing.AllocsPerRun(500, func() {
		msg, _ := jsonrpc.Decode(text)
		route.Dispatch(msg)
	}); allocs >= 1 {
		t.Errorf("%.1f allocations, want none", allocs)
	}
}
