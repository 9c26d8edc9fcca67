package streamable_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// echoing returns what makes a typed call over a network that takes a text and gives it
// back, both as structured content and as text, and checks it.
func echoing(tb testing.TB, size int) (makeCall func()) {
	session := echo(tb)
	given := hundredIn{strings.Repeat("x", size), 1234567}
	return func() {
		out, err := client.CallAs[hundredIn](tb.Context(), session, "echo", given)
		if err != nil || out != given {
			tb.Fatalf("got %d bytes, %v", len(out.Text), err)
		}
	}
}

func echo(tb testing.TB) *client.Session {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in hundredIn) (hundredIn, error) {
		return in, nil
	})
	endpoint := streamable.Handler(s, nil)
	web := httptest.NewServer(endpoint)
	session, err := client.Connect(tb.Context(), streamable.Dial(web.URL, nil), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		session.Close()
		endpoint.Close()
		web.Close()
	})
	return session
}

// What a caller has got stays as it is, whatever memory later calls use.
func TestLargeResultsStay(t *testing.T) {
	session := echo(t)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			var results []*mcp.CallToolResult
			var want []string
			for i := range 12 {
				text := strings.Repeat(fmt.Sprint(worker, i, ","), 1<<(5+i))
				result, err := session.CallTool(t.Context(), "echo", hundredIn{text, i}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				results, want = append(results, result), append(want, fmt.Sprintf(`{"text":"%s","n":%d}`, text, i))
			}
			for i, result := range results {
				if string(result.StructuredContent) != want[i] || result.Content[0].(*mcp.TextContent).Text != want[i] {
					t.Errorf("the result of %d bytes has changed", len(want[i]))
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkLargeCall(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			makeCall := echoing(b, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				makeCall()
			}
		})
	}
}

// A large call costs what both ends keep of it: the request's body, what is decoded from
// it, the result, and what is decoded from that. The rest is on loan.
func TestLargeCallBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	for size, most := range map[int]float64{10 << 10: 7, 1 << 20: 6} {
		makeCall := echoing(t, size)
		for range 10 {
			makeCall()
		}
		const calls = 40
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			makeCall()
		}
		runtime.ReadMemStats(&after)
		got := float64(after.TotalAlloc-before.TotalAlloc) / float64(calls*size)
		t.Logf("a call with %d bytes allocates %.1f times as much", size, got)
		if got > most {
			t.Errorf("a call with %d bytes allocates %.1f times as much, want at most %.1f", size, got, most)
		}
	}
}
