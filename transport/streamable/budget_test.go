package streamable_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A sink is a response writer without cost.
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

// A replay is a body that can be read again.
type replay struct{ *strings.Reader }

func (replay) Close() error { return nil }

// repeater returns a function that repeats a request.
func repeater(tb testing.TB, endpoint httptransport.Endpoint, header http.Header, body string) (request func() *sink) {
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

// listing returns a function that lists the given number of tools.
func listing(tb testing.TB, tools int) (request func() *sink) {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	for i := range tools {
		server.AddTool(s, server.Tool{Name: fmt.Sprint("sum", i), Description: "Adds two numbers."}, func(context.Context, *server.Request, sumIn) (string, error) { return "", nil })
	}
	endpoint := streamable.Handler(s, nil)
	tb.Cleanup(func() { endpoint.Close() })
	return repeater(tb, endpoint,
		http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}},
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`)
}

// The cost of a list does not depend on its length, since it is encoded once.
func TestListBudget(t *testing.T) {
	racetest.Skip(t)
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

// connect connects a client to a server over a real network.
func connect(tb testing.TB, s *server.Server, era client.Era) *client.Session {
	tb.Helper()
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
	return session
}

// measure returns the allocations and bytes of one call, after some calls to warm up.
func measure(warmup, calls int, makeCall func()) (allocations, size float64) {
	for range warmup {
		makeCall()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		makeCall()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(calls), float64(after.TotalAlloc-before.TotalAlloc) / float64(calls)
}

type hundredIn struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

// hundred is 100 bytes of arguments.
var hundred = hundredIn{strings.Repeat("x", 77), 1234567}

// caller returns a function that makes a typed call over a network and checks the result.
func caller(tb testing.TB, era client.Era) (makeCall func()) {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in hundredIn) (string, error) {
		return in.Text, nil
	})
	session := connect(tb, s, era)
	return func() {
		out, err := client.CallAs[string](tb.Context(), session, "echo", hundred, nil)
		if err != nil || out != hundred.Text {
			tb.Fatalf("got %q, %v", out, err)
		}
	}
}

// A whole call, both ends and net/http between them.
func TestCallBudget(t *testing.T) {
	racetest.Skip(t)
	const mostAllocations, mostBytes = 125, 10_800
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		makeCall := caller(t, era)
		allocations, size := measure(100, 1000, makeCall)
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

// progressCaller returns a function that makes a call with the given number of progress
// notifications, which must arrive in order.
func progressCaller(tb testing.TB, era client.Era, notifications int) (makeCall func()) {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "count"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range notifications {
			if err := r.Progress(ctx, float64(i+1), float64(notifications), ""); err != nil {
				return "", err
			}
		}
		return "counted", nil
	})
	session := connect(tb, s, era)
	return func() {
		received := 0
		_, err := session.CallTool(tb.Context(), "count", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
			if received++; p.Progress != float64(received) {
				tb.Errorf("progress %v is notification %d", p.Progress, received)
			}
		}})
		if err != nil || received != notifications {
			tb.Fatalf("got %d notifications, want %d; %v", received, notifications, err)
		}
	}
}

// The cost of a progress notification is what the callback gets, plus the stored event in
// a session.
func TestProgressBudget(t *testing.T) {
	racetest.Skip(t)
	const notifications = 1000
	for era, most := range map[client.Era]float64{client.Modern: 1.5, client.Legacy: 5.5} {
		makeCall := progressCaller(t, era, notifications)
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
			makeCall := progressCaller(b, era, 1000)
			b.ReportAllocs()
			for b.Loop() {
				makeCall()
			}
		})
	}
}

// echoing returns a function that makes a typed call with a text and checks that the
// result has it as text and as structured content.
func echoing(tb testing.TB, size int) (makeCall func()) {
	session := echo(tb)
	given := hundredIn{strings.Repeat("x", size), 1234567}
	return func() {
		out, err := client.CallAs[hundredIn](tb.Context(), session, "echo", given, nil)
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
	return connect(tb, s, client.Modern)
}

// Later calls do not modify the result of an earlier call.
func TestLargeResultsAreNotOverwritten(t *testing.T) {
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

// A large call allocates the request body and the smaller buffers that it outgrows, the decoded
// arguments, the result and the decoded result. Other buffers are pooled.
func TestLargeCallBudget(t *testing.T) {
	racetest.Skip(t)
	for size, most := range map[int]float64{10 << 10: 7, 1 << 20: 7.5} {
		makeCall := echoing(t, size)
		_, allocated := measure(10, 40, makeCall)
		got := allocated / float64(size)
		t.Logf("a call with %d bytes allocates %.1f times as much", size, got)
		if got > most {
			t.Errorf("a call with %d bytes allocates %.1f times as much, want at most %.1f", size, got, most)
		}
	}
}

// A reconnectingClient is a client that disconnects at any time and resumes where it was.
type reconnectingClient struct {
	*testing.T
	web     *httptest.Server
	session string
	random  *rand.Rand
	last    string
}

func (w *reconnectingClient) request(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.web.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
	}
	if w.last != "" {
		req.Header.Set("Last-Event-ID", w.last)
	}
	return w.web.Client().Do(req)
}

// read reads for a while, and returns the messages.
func (w *reconnectingClient) read(resp *http.Response) (got []string) {
	events := sse.NewReader(io.LimitReader(resp.Body, w.random.Int64N(4000)), 1<<20)
	for {
		event, err := events.Next()
		if err != nil {
			return got
		}
		w.last = event.ID
		if len(event.Data) > 0 {
			got = append(got, string(event.Data))
		}
	}
}

// A client that reconnects often gets every message of its call once, in order.
func TestReconnectingClients(t *testing.T) {
	const steps = 200
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			endpoint := streamable.Handler(newServer(), nil)
			web := httptest.NewUnstartedServer(endpoint)
			web.EnableHTTP2 = http2
			web.Config.ErrorLog = log.New(io.Discard, "", 0) // discards aborted handshakes
			web.StartTLS()
			defer web.Close()
			defer endpoint.Close()
			var all sync.WaitGroup
			for i := range 8 {
				w := &reconnectingClient{T: t, web: web, random: rand.New(rand.NewPCG(1, uint64(i)))}
				all.Go(func() { w.reconnect(steps) })
			}
			all.Wait()
		})
	}
}

func (w *reconnectingClient) reconnect(steps int) {
	resp, err := w.request(w.Context(), http.MethodPost, initialize(mcp.Version20251125))
	if err != nil {
		w.Error(err)
		return
	}
	w.session = resp.Header.Get("Mcp-Session-Id")
	resp.Body.Close()
	ctx, disconnect := context.WithCancel(w.Context())
	resp, err = w.request(ctx, http.MethodPost, call(1, "steps", fmt.Sprintf(`{"a":%d,"b":0}`, steps)))
	var got []string
	for range 1000 {
		if err != nil || resp.StatusCode != http.StatusOK {
			w.Errorf("after %q: %v, %v", w.last, resp, err)
			break
		}
		got = append(got, w.read(resp)...)
		if len(got) > 0 && strings.Contains(got[len(got)-1], `"result"`) {
			break
		}
		if w.last == "" { // the client has no event id yet
			got = append(got, w.read(resp)...)
			if w.last == "" {
				continue
			}
		}
		body, leave := resp.Body, disconnect
		ctx, disconnect = context.WithCancel(w.Context())
		if w.random.IntN(2) == 0 {
			leave()
			body.Close()
			resp, err = w.request(ctx, http.MethodGet, "")
		} else { // resume while the old response is open
			resp, err = w.request(ctx, http.MethodGet, "")
			leave()
			body.Close()
		}
	}
	disconnect()
	if err == nil {
		resp.Body.Close()
	}
	for i, message := range got {
		want := fmt.Sprintf(`"progress":%d,`, i+1)
		if i == steps {
			want = `"text":"done"`
		}
		if !strings.Contains(message, want) {
			w.Errorf("message %d is %s, want it to contain %s", i, message, want)
			break
		}
	}
	if len(got) != steps+1 {
		w.Errorf("got %d messages, want %d", len(got), steps+1)
	}
}

// An idle session costs little memory, as an endpoint may have many.
func TestIdleSessionBudget(t *testing.T) {
	racetest.Skip(t)
	const sessions, most = 4000, 2500
	endpoint := streamable.Handler(newServer(), &streamable.Options{Logger: quiet})
	defer endpoint.Close()
	request := repeater(t, endpoint, http.Header{}, initialize(mcp.Version20251125))
	inUse := func() int64 {
		runtime.GC()
		runtime.GC() // what pools keep outlives the first
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	open := func(n int) {
		for range n {
			if w := request(); w.status != http.StatusOK {
				t.Fatalf("status %d", w.status)
			}
		}
	}
	open(100)
	before := inUse()
	open(sessions)
	got := (inUse() - before) / sessions
	t.Logf("an idle session takes %d bytes", got)
	if got > most {
		t.Errorf("an idle session takes %d bytes, want at most %d", got, most)
	}
}

// An idle stream waits with a stack of 8 KB, and its connection with one of 2 KB: a request needs more, but the garbage
// collector halves a stack that is used to less than a quarter.
func TestIdleStreamStack(t *testing.T) {
	racetest.Skip(t)
	const streams, most = 200, 14 << 10
	endpoint := streamable.Handler(newServer(), &streamable.Options{Logger: quiet})
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		endpoint.Close()
		web.Close()
	})
	stacks := func() int64 {
		runtime.GC()
		runtime.GC() // each halves a stack
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.StackInuse)
	}
	open := func(n int) {
		for range n {
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"+
				"MCP-Protocol-Version: %s\r\nMcp-Method: %s\r\nContent-Length: %d\r\n\r\n%s", mcp.Version20260728, mcp.MethodSubscriptionsListen, len(listen), listen)
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
				t.Fatalf("the response begins with %q, %v", line, err)
			}
		}
	}
	open(10)
	before := stacks()
	open(streams)
	if got := (stacks() - before) / streams; got > most {
		t.Errorf("an idle stream has %d bytes of stacks, want at most %d", got, most)
	}
}
