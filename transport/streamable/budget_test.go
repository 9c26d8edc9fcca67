package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A sink is a response that nobody reads, and that costs nothing.
type sink struct {
	header http.Header
	status int
	size   int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { s.size += len(p); return len(p), nil }

func (*sink) SetReadDeadline(time.Time) error  { return nil }
func (*sink) SetWriteDeadline(time.Time) error { return nil }

// A replay is a body that is read again and again.
type replay struct{ *strings.Reader }

func (replay) Close() error { return nil }

// asker returns what makes the same request again and again.
func asker(tb testing.TB, endpoint *streamable.Endpoint, header http.Header, body string) (ask func() *sink) {
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "http://localhost/mcp", nil)
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.ContentLength = int64(len(body))
	text := replay{strings.NewReader(body)}
	r.Body = text
	w := &sink{header: http.Header{}}
	return func() *sink {
		text.Reset(body)
		*w = sink{header: w.header}
		endpoint.ServeHTTP(w, r)
		return w
	}
}

// listing returns what asks for a list of so many tools.
func listing(tb testing.TB, tools int) (ask func() *sink) {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	for i := range tools {
		server.AddTool(s, server.Tool{Name: fmt.Sprint("sum", i), Description: "Adds two numbers."}, func(context.Context, *server.Request, sumIn) (string, error) { return "", nil })
	}
	endpoint := streamable.Handler(s, nil)
	tb.Cleanup(func() { endpoint.Close() })
	return asker(tb, endpoint,
		http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}},
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`)
}

// A list costs the same however long it is: it is made once.
func TestListBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const most = 15
	var costs []float64
	for _, tools := range []int{10, 50, 100} {
		ask := listing(t, tools)
		if w := ask(); w.status != http.StatusOK || w.size < 100*tools {
			t.Fatalf("%d tools: status %d, %d bytes", tools, w.status, w.size)
		}
		costs = append(costs, testing.AllocsPerRun(500, func() { ask() }))
	}
	t.Logf("a list of 10, 50 and 100 tools takes %v allocations", costs)
	if slices.Max(costs) > most || slices.Max(costs) > slices.Min(costs) {
		t.Errorf("a list of 10, 50 and 100 tools takes %v allocations, want at most %d, whatever its length", costs, most)
	}
}

func BenchmarkList(b *testing.B) {
	for _, tools := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(tools, "-tools"), func(b *testing.B) {
			ask := listing(b, tools)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}

type hundredIn struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

// hundred is 100 bytes of arguments.
var hundred = hundredIn{strings.Repeat("x", 77), 1234567}

// caller returns what makes a typed call over a network, and checks its result.
func caller(tb testing.TB, era client.Era) (makeCall func()) {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in hundredIn) (string, error) {
		return in.Text, nil
	})
	endpoint := streamable.Handler(s, nil)
	web := httptest.NewServer(endpoint)
	session, err := client.Connect(tb.Context(), streamable.Dial(web.URL, nil), &client.Options{Era: era})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		session.Close()
		endpoint.Close()
		web.Close()
	})
	return func() {
		out, err := client.CallAs[string](tb.Context(), session, "echo", hundred)
		if err != nil || out != hundred.Text {
			tb.Fatalf("got %q, %v", out, err)
		}
	}
}

// A whole call, both ends and net/http between them.
func TestCallBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const mostAllocations, mostBytes = 121, 10_500
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		makeCall := caller(t, era)
		for range 100 {
			makeCall()
		}
		const calls = 1000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			makeCall()
		}
		runtime.ReadMemStats(&after)
		allocations, size := float64(after.Mallocs-before.Mallocs)/calls, float64(after.TotalAlloc-before.TotalAlloc)/calls
		t.Logf("%v: a call takes %.1f allocations, %.0f bytes", era, allocations, size)
		if allocations > mostAllocations || size > mostBytes {
			t.Errorf("%v: a call takes %.1f allocations and %.0f bytes, want at most %d and %d", era, allocations, size, mostAllocations, mostBytes)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		b.Run(fmt.Sprint(era), func(b *testing.B) {
			makeCall := caller(b, era)
			b.ReportAllocs()
			for b.Loop() {
				makeCall()
			}
		})
	}
}

// progressor returns what makes a call that tells of so much progress, all of which must
// come in order.
func progressor(tb testing.TB, era client.Era, notifications int) (makeCall func()) {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "count"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range notifications {
			if err := r.Progress(ctx, float64(i+1), float64(notifications), ""); err != nil {
				return "", err
			}
		}
		return "counted", nil
	})
	endpoint := streamable.Handler(s, nil)
	web := httptest.NewServer(endpoint)
	session, err := client.Connect(tb.Context(), streamable.Dial(web.URL, nil), &client.Options{Era: era})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		session.Close()
		endpoint.Close()
		web.Close()
	})
	return func() {
		came := 0
		_, err := session.CallTool(tb.Context(), "count", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
			if came++; p.Progress != float64(came) {
				tb.Errorf("progress %v came as number %d", p.Progress, came)
			}
		}})
		if err != nil || came != notifications {
			tb.Fatalf("%d notifications came, want %d; %v", came, notifications, err)
		}
	}
}

// A notification of progress costs both ends together what the callback gets, which may
// keep it; in a session also what is kept for a client that comes back.
func TestProgressBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const notifications = 1000
	for era, most := range map[client.Era]float64{client.Modern: 1.5, client.Legacy: 5.5} {
		makeCall := progressor(t, era, notifications)
		got := testing.AllocsPerRun(20, makeCall) / notifications
		t.Logf("%v: %.2f allocations for each notification", era, got)
		if got > most {
			t.Errorf("%v: %.2f allocations for each notification, want at most %v", era, got, most)
		}
	}
}

func BenchmarkProgress(b *testing.B) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		b.Run(fmt.Sprint(era), func(b *testing.B) {
			makeCall := progressor(b, era, 1000)
			b.ReportAllocs()
			for b.Loop() {
				makeCall()
			}
		})
	}
}
