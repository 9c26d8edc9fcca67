package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// maxResident is what the process of a server with default options may need, in bytes.
const maxResident = 256 << 20

// serveDefaults is the main function of a server over HTTP with default options. It prints its
// address, and ends when its standard input ends.
func serveDefaults() error {
	quiet := slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "defaults", Version: "1"}, &server.Options{Logger: quiet})
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (string, error) {
		return in.Nonce, nil
	})
	server.AddRawTool(s, server.Tool{Name: "take", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
			return &mcp.CallToolResult{}, nil
		})
	server.AddRawTool(s, server.Tool{Name: "general", InputSchema: json.RawMessage(`{"type":"object","properties":{"list":{"type":"array"}},"unevaluatedProperties":false}`)},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
			return &mcp.CallToolResult{}, nil
		})
	server.AddRawTool(s, server.Tool{Name: "wait", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, _ *server.Request, _ json.RawMessage) (mcp.Result, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	server.AddTool(s, server.Tool{Name: "flood"}, func(ctx context.Context, r *server.Request, in floodIn) (string, error) {
		message := strings.Repeat("x", in.Size)
		for i := range in.Count {
			if err := r.Progress(ctx, float64(i+1), 0, message); err != nil {
				return "", err
			}
		}
		return "", ctx.Err()
	})
	overSSE, overWS := sse.Handler(s, &sse.Options{Logger: quiet}), ws.Handler(s, &ws.Options{Logger: quiet})
	mux := http.NewServeMux()
	mux.Handle("/sse", overSSE)
	mux.Handle("/ws", overWS)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
		Options:         streamable.Options{Logger: quiet},
		Other:           mux,
		ShutdownTimeout: time.Second,
		OnShutdown:      func() error { _ = overSSE.Close(); return overWS.Close() },
		OnListen:        func(at net.Addr) { fmt.Println(at) },
	})
	if ctx.Err() != nil {
		return nil // calls of sessions still wait
	}
	return err
}

// An attacker is one connection of an attack. It ends with its deadline.
type attacker struct {
	net.Conn
	in *bufio.Reader
}

// request sends a request. It leaves out the last bytes of the body.
func (a *attacker) request(path, header, body string, withheld int) {
	fmt.Fprintf(a, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n", path, header, len(body))
	_, _ = io.WriteString(a, body[:len(body)-withheld])
}

// response reads a response, or returns nil if none comes.
func (a *attacker) response() *http.Response {
	resp, err := http.ReadResponse(a.in, nil)
	if err != nil {
		return nil
	}
	return resp
}

// call sends a call and waits for its answer.
func (a *attacker) call(tool, arguments string, withheld int) (status int) {
	header, body := modernCall(1, tool, arguments)
	a.request("/mcp", header, body, withheld)
	resp := a.response()
	if resp == nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// frame sends a text frame. It leaves out the last bytes.
func (a *attacker) frame(message string, withheld int) {
	_, _ = a.Write(frameHeader(wsText|wsLast, uint64(len(message)), true))
	_, _ = io.WriteString(a, message[:len(message)-withheld])
}

// upgrade opens a WebSocket and its session.
func (a *attacker) upgrade() {
	_, _ = io.WriteString(a, wsHandshake)
	a.response()
	a.frame(legacyHello, 0)
}

// drip sends a text, and then one byte at a time, until it is cut off.
func (a *attacker) drip(text string) {
	for _, err := io.WriteString(a, text); err == nil; _, err = io.WriteString(a, " ") {
		<-time.After(100 * time.Millisecond)
	}
}

// openSSE opens an event stream and its session, and returns the path for messages.
func (a *attacker) openSSE() (path string) {
	fmt.Fprint(a, "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
	resp := a.response()
	if resp == nil {
		return ""
	}
	events := bufio.NewReader(resp.Body)
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			return ""
		}
		if path, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(path)
		}
	}
}

// almost is the length of the long argument of an attack: its message has nearly the maximum
// length.
const almost = 4<<20 - 1<<10

// An attack is the number of connections in a full run, and what each does until it is cut off or
// its deadline passes.
type attack struct {
	count int
	run   func(a *attacker, arguments string, deadline time.Time)
}

// attacks are ways to make a server hold memory and connections.
var attacks = map[string]attack{
	"large calls": {60, func(a *attacker, arguments string, _ time.Time) {
		for a.call("take", arguments, 0) != 0 {
		}
	}},
	"stalled bodies": {300, func(a *attacker, arguments string, _ time.Time) { a.call("take", arguments, 10) }},
	"waiting calls":  {300, func(a *attacker, arguments string, _ time.Time) { a.call("wait", arguments, 0) }},
	"waiting calls of sessions": {300, func(a *attacker, arguments string, _ time.Time) {
		a.request("/mcp", jsonHeader, legacyHello, 0)
		resp := a.response()
		if resp == nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		a.request("/mcp", jsonHeader+"Mcp-Session-Id: "+resp.Header.Get("Mcp-Session-Id")+"\r\n", legacyCall(1, "wait", arguments), 0)
		a.response()
	}},
	"unfinished WebSocket messages": {200, func(a *attacker, arguments string, _ time.Time) {
		a.upgrade()
		a.frame(legacyCall(1, "take", arguments), 10)
		_, _ = io.Copy(io.Discard, a.in)
	}},
	"waiting calls over WebSockets": {200, func(a *attacker, arguments string, _ time.Time) {
		a.upgrade()
		for id := range 4 {
			a.frame(legacyCall(id+1, "wait", arguments), 0)
		}
		_, _ = io.Copy(io.Discard, a.in)
	}},
	"dripped headers": {200, func(a *attacker, _ string, _ time.Time) {
		a.drip("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Filler: ")
	}},
	"dripped bodies": {200, func(a *attacker, arguments string, _ time.Time) {
		header, body := modernCall(1, "take", arguments)
		a.request("/mcp", header, body, len(body)-200<<10)
		a.drip("")
	}},
	"unread event streams": {200, func(a *attacker, _ string, _ time.Time) {
		header, body := modernCall(1, "flood", `{"count":1000,"size":20000}`)
		a.request("/mcp", header, body, 0)
		a.drip("") // of the next request
	}},
	"unread WebSockets": {200, func(a *attacker, _ string, _ time.Time) {
		a.upgrade()
		a.frame(legacyCall(1, "flood", `{"count":1000,"size":20000}`), 0)
		for {
			if _, err := a.Write(frameHeader(wsPong|wsLast, 0, true)); err != nil {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
	}},
	"waiting calls over event streams": {200, func(a *attacker, arguments string, deadline time.Time) {
		path := a.openSSE()
		for _, message := range []string{legacyHello, legacyCall(1, "wait", arguments), legacyCall(2, "wait", arguments)} {
			post, err := dialAttacker(a.RemoteAddr().String(), deadline)
			if err != nil {
				return
			}
			post.request(path, jsonHeader, message, 0)
			post.response()
			_ = post.Close()
		}
		_, _ = io.Copy(io.Discard, a.in)
	}},
}

func dialAttacker(addr string, deadline time.Time) (*attacker, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10) // so that responses are not read ahead
	_ = conn.SetDeadline(deadline)
	return &attacker{conn, bufio.NewReader(conn)}, nil
}

// A server with default options does not need more than 256 MiB, whatever large messages clients
// send, hold back or let wait, and however slowly they send and read. Small calls of others go on.
func TestAttacksDoNotExhaustMemory(t *testing.T) {
	arguments := `{"list":[0` + strings.Repeat(",0", almost/2) + `]}`
	attacks := maps.Clone(attacks)
	if fullRun { // a call takes a second of processor time
		attacks["large calls with a schema for the general validator"] = attack{60, func(a *attacker, arguments string, _ time.Time) {
			for a.call("general", arguments, 0) != 0 {
			}
		}}
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			if !fullRun {
				t.Parallel() // only memory is checked
			}
			count, lasts := scaled(t, 48, attack.count), time.Duration(scaled(t, 1, 5))*time.Second
			const attempts = 3 // other programs may need the processors
			for attempt := 1; ; attempt++ {
				p99 := attackDefaults(t, count, lasts, func(a *attacker, deadline time.Time) { attack.run(a, arguments, deadline) })
				if !fullRun || p99 < time.Second {
					break
				}
				if attempt == attempts {
					t.Errorf("p99 of small calls is %v, want at most 1 s", p99)
					break
				}
			}
		})
	}
}

// attackDefaults attacks a server with default options from many connections. It returns how long
// small calls of another client take at that time.
func attackDefaults(t *testing.T, count int, lasts time.Duration, run func(a *attacker, deadline time.Time)) (p99 time.Duration) {
	t.Helper()
	p := start(t, "default server")
	addr := p.line()
	caller := start(t, "small calls", addressVariable+"="+addr)
	caller.line() // the first call was answered
	var failed atomic.Int64
	p.costs(func() {
		deadline := time.Now().Add(lasts)
		var all sync.WaitGroup
		for range count {
			all.Go(func() {
				a, err := dialAttacker(addr, deadline)
				if err != nil {
					failed.Add(1)
					return
				}
				defer a.Close()
				run(a, deadline)
			})
		}
		all.Wait()
	})
	atMost(t, "the server", p.memory("VmHWM"), int64(scaled(t, maxResident/2, maxResident)))
	_ = caller.stdin.Close()
	report := caller.line()
	var calls int
	var median, longest string
	var nanoseconds int64
	if _, err := fmt.Sscan(report, &calls, &median, &nanoseconds, &longest); err != nil {
		t.Fatalf("small calls: %s", report)
	}
	p99 = time.Duration(nanoseconds)
	t.Logf("%d connections; %d small calls: median %s, p99 %v, longest %s", count, calls, median, p99, longest)
	if failed.Load() > 0 {
		t.Errorf("%d connections failed", failed.Load())
	}
	return p99
}

// makeSmallCalls is the main function of a client that makes small calls until its standard input
// ends. It prints a line after the first call, and at the end how long they took.
func makeSmallCalls() error {
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	conn, err := net.Dial("tcp", os.Getenv(addressVariable))
	if err != nil {
		return err
	}
	defer conn.Close()
	a := &attacker{conn, bufio.NewReader(conn)}
	var took []time.Duration
	for !over.Load() || len(took) < 2 {
		_ = conn.SetDeadline(time.Now().Add(timeout))
		began := time.Now()
		if status := a.call("echo", nonceJSON("small"), 0); status != http.StatusOK {
			return fmt.Errorf("call %d was answered with %d", len(took), status)
		}
		if took = append(took, time.Since(began)); len(took) == 1 {
			fmt.Println("ready")
		}
		<-time.After(5 * time.Millisecond)
	}
	slices.Sort(took)
	fmt.Println(len(took), took[len(took)/2], int64(took[len(took)*99/100]), took[len(took)-1])
	return nil
}
