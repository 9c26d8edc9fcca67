package soak

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

type sizeIn struct {
	Size int `json:"size"`
}

// serveRetaining is the main function of a server over HTTP with default options that offers everything that clients can
// leave behind. It prints its address, and ends when its standard input ends.
func serveRetaining() error {
	t := newTarget()
	webhooks, err := webhook.New(&webhook.Options{Logger: t.quiet, Verified: func(context.Context, string, string) bool { return true }})
	if err != nil {
		return err
	}
	asks, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}})
	if err != nil {
		return err
	}
	t.mcp = server.New(mcp.Implementation{Name: "retaining", Version: "1"}, &server.Options{Logger: t.quiet, Webhooks: webhooks})
	server.AddTool(t.mcp, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (string, error) {
		return in.Nonce, nil
	})
	server.AddTool(t.mcp, server.Tool{Name: "result", Task: server.TaskRequired, TTL: taskTTL}, func(_ context.Context, _ *server.Request, in sizeIn) (string, error) {
		return strings.Repeat("x", in.Size), nil
	})
	object := json.RawMessage(`{"type":"object"}`)
	server.AddRawTool(t.mcp, server.Tool{Name: "wait", InputSchema: object, Task: server.TaskRequired, TTL: taskTTL},
		func(ctx context.Context, _ *server.Request, _ json.RawMessage) (mcp.Result, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	server.AddRawTool(t.mcp, server.Tool{Name: "approved", InputSchema: object, Guards: []mcp.Guard{approval.Guard(asks, approval.Elicitation(), &approval.Options{Logger: t.quiet})}},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
			return &mcp.CallToolResult{}, nil
		})
	server.AddTemplate(t.mcp, server.Template{Name: "note", URITemplate: "note://{name}"}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
		return vars["name"], nil
	})
	server.AddEvent[map[string]string, map[string]string](t.mcp, server.Event{Name: "changed"}, nil)

	quiet := t.quiet
	overStreamable, overSSE, overWS := streamable.Handler(t.mcp, &streamable.Options{Logger: quiet}), sse.Handler(t.mcp, &sse.Options{Logger: quiet}), ws.Handler(t.mcp, &ws.Options{Logger: quiet})
	mux := http.NewServeMux()
	mux.Handle("/mcp", authenticated(overStreamable))
	mux.Handle("/sse", authenticated(overSSE))
	mux.Handle("/ws", authenticated(overWS))
	mux.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(t.state()) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := httptransport.NewServer(mux)
	s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = overStreamable.Close()
		_ = overSSE.Close()
		_ = overWS.Close()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_ = t.mcp.Shutdown(ctx)
		_ = s.Close()
	}()
	if err := s.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// taskTTL is how long the server keeps tasks.
const taskTTL = 3 * time.Second

// attackers is how many addresses leave things behind. One may hold half of the bytes, and each of the others an eighth.
func attackers(t testing.TB) int { return scaled(t, 2, 4) }

// A hoarder is a client at one address that leaves something behind again and again.
type hoarder struct {
	testing.TB
	server  string // address
	number  int    // of its own address
	next    int    // number of the next thing
	refused int
	kept    int
	last    string // refusal

	open []net.Conn
	undo []func(a *attacker) // what ends what was left
}

// dial opens a connection, which stays open until the hoarder leaves.
func (h *hoarder) dial() *attacker {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(h.number))}}
	conn, err := dialer.Dial("tcp", h.server)
	if err != nil {
		h.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(timeout))
	h.open = append(h.open, conn)
	return &attacker{conn, bufio.NewReader(conn)}
}

// opened notes a session.
func (h *hoarder) opened(resp *http.Response) (id string) {
	if id = resp.Header.Get("Mcp-Session-Id"); id != "" {
		h.undo = append(h.undo, func(a *attacker) {
			fmt.Fprintf(a, "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: %s\r\n\r\n", id)
			if resp := a.response(); resp != nil {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		})
	}
	return id
}

// leave closes all connections, and ends what outlives them, except tasks.
func (h *hoarder) leave() {
	a := h.dial()
	for _, undo := range h.undo {
		undo(a)
	}
	for _, conn := range h.open {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// answered counts an answer, and reports whether the hoarder goes on.
func (h *hoarder) answered(status int, text string) {
	switch {
	case status == http.StatusServiceUnavailable, strings.Contains(text, `"code":429`), strings.Contains(text, "may be open"), strings.Contains(text, `"limit":"`):
		h.refused++
		h.last = fmt.Sprintf("%d %.300s", status, text)
	case strings.Contains(text, `"error"`), status >= http.StatusBadRequest, status == 0:
		h.Fatalf("thing %d: status %d, %.300s", h.next, status, text)
	default:
		h.kept++
	}
	h.next++
}

// refusals is how many things in a row are refused until a hoarder gives up.
func (h *hoarder) goesOn() bool { return h.refused < scaled(h, 3, 50) && h.next < 20_000 }

// post sends a request and reads the answer, of a stream the first event.
func (a *attacker) post(path, header, body string) (*http.Response, string) {
	a.request(path, header, body, 0)
	resp := a.response()
	if resp == nil {
		return &http.Response{}, ""
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text, _ := io.ReadAll(resp.Body)
		return resp, string(text)
	}
	text, events := "", bufio.NewReader(resp.Body)
	for {
		line, err := events.ReadString('\n')
		if text += line; err != nil || strings.HasPrefix(line, `data: {`) {
			return resp, text
		}
	}
}

// modernAll is modern with the capabilities of a client that supports everything.
func modernAll(id int, method, name, params string) (header, body string) {
	header, body = modern(id, method, name, params)
	return header, strings.Replace(body, fmt.Sprintf("%q:{}", mcp.MetaClientCapabilities), fmt.Sprintf(`%q:{"elicitation":{},"extensions":{%q:{},%q:{}}}`, mcp.MetaClientCapabilities, mcp.ExtensionTasks, mcp.ExtensionEvents), 1)
}

func hello(experimental string) string {
	return strings.Replace(legacyHello, `"capabilities":{}`, `"capabilities":{"experimental":`+experimental+`}`, 1)
}

// longHello is a handshake with one long capability, and manyHello one with many short ones.
var longHello, manyHello = hello(`{"long":{"text":"` + strings.Repeat("x", 60<<10) + `"}}`), hello(manyMembers(60 << 10))

func manyMembers(size int) string {
	var b strings.Builder
	b.WriteString(`{"first":{}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,"%x":{}`, i)
	}
	b.WriteString("}")
	return b.String()
}

// longURI is a URI of 8 KiB.
func longURI(i int) string { return fmt.Sprintf("note://%d-%s", i, strings.Repeat("x", 8<<10-20)) }

func watchRequest(i int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, i+1, longURI(i))
}

// handshakes opens sessions over one connection.
func (h *hoarder) handshakes(message string) {
	a := h.dial()
	for h.goesOn() {
		resp, text := a.post("/mcp", jsonHeader, message)
		h.opened(resp)
		h.answered(resp.StatusCode, text)
	}
}

// readFrame reads a text frame of a server.
func (a *attacker) readFrame() string {
	var head [2]byte
	if _, err := io.ReadFull(a.in, head[:]); err != nil {
		return ""
	}
	size := uint64(head[1])
	switch size {
	case 126:
		var b [2]byte
		_, _ = io.ReadFull(a.in, b[:])
		size = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, _ = io.ReadFull(a.in, b[:])
		size = binary.BigEndian.Uint64(b[:])
	}
	text := make([]byte, size)
	_, _ = io.ReadFull(a.in, text)
	return string(text)
}

// callFrame sends a message over a WebSocket and reads the answer.
func (a *attacker) callFrame(message string) string {
	a.frame(message, 0)
	return a.readFrame()
}

// hoards are the things that a client can leave behind. Each function leaves some until they are refused.
var hoards = []struct {
	name  string
	tasks bool // they end by their time to live
	run   func(h *hoarder)
}{
	{"handshakes over HTTP", false, func(h *hoarder) { h.handshakes(longHello) }},
	{"handshakes over HTTP with many capabilities", false, func(h *hoarder) { h.handshakes(manyHello) }},
	{"handshakes over WebSockets", false, func(h *hoarder) {
		for h.goesOn() {
			a := h.dial()
			_, _ = io.WriteString(a, wsHandshake)
			if resp := a.response(); resp.StatusCode != http.StatusSwitchingProtocols {
				h.answered(resp.StatusCode, "")
				continue
			}
			h.answered(http.StatusOK, a.callFrame(longHello))
		}
	}},
	{"watches of sessions over HTTP", false, func(h *hoarder) {
		for a := h.dial(); h.goesOn(); {
			resp, text := a.post("/mcp", jsonHeader, legacyHello)
			id := h.opened(resp)
			if id == "" {
				h.answered(resp.StatusCode, text)
				continue
			}
			for i := 0; i < scaled(h, 8, 1000) && h.goesOn(); i++ { // the state of a session is written with each

				resp, text := a.post("/mcp", jsonHeader+"Mcp-Session-Id: "+id+"\r\n", watchRequest(i))
				if strings.Contains(text, "too large together") {
					break // the limit of a session
				}
				h.answered(resp.StatusCode, text)
			}
		}
	}},
	{"watches over WebSockets", false, func(h *hoarder) {
		for h.goesOn() {
			a := h.dial()
			_, _ = io.WriteString(a, wsHandshake)
			a.response()
			a.callFrame(legacyHello)
			for i := 0; i < 1000 && h.goesOn(); i++ {
				h.answered(http.StatusOK, a.callFrame(watchRequest(i)))
			}
		}
	}},
	{"subscriptions", false, func(h *hoarder) {
		uris := make([]string, 7)
		for i := range uris {
			uris[i] = longURI(i)
		}
		text, _ := json.Marshal(uris)
		header, body := modernAll(1, mcp.MethodSubscriptionsListen, "", `"notifications":{"resourceSubscriptions":`+string(text)+`}`)
		for h.goesOn() {
			resp, text := h.dial().post("/mcp", header, body)
			h.answered(resp.StatusCode, text)
		}
	}},
	{"subscriptions to many resources", false, func(h *hoarder) {
		uris := make([]string, 1024)
		for i := range uris {
			uris[i] = fmt.Sprintf("note://%d-%s", i, strings.Repeat("x", 40))
		}
		text, _ := json.Marshal(uris)
		header, body := modernAll(1, mcp.MethodSubscriptionsListen, "", `"notifications":{"resourceSubscriptions":`+string(text)+`}`)
		for h.goesOn() {
			resp, text := h.dial().post("/mcp", header, body)
			h.answered(resp.StatusCode, text)
		}
	}},
	{"streams of events", false, func(h *hoarder) {
		header, body := modernAll(1, mcp.MethodEventsStream, "changed", `"name":"changed","arguments":{"text":"`+strings.Repeat("x", 60<<10)+`"}`)
		for h.goesOn() {
			resp, text := h.dial().post("/mcp", header, body)
			h.answered(resp.StatusCode, text)
		}
	}},
	{"results of tasks", true, func(h *hoarder) {
		h.calls("result", fmt.Sprintf(`{"size":%d}`, 3<<20), 30)
	}},
	{"small tasks", true, func(h *hoarder) { h.calls("result", `{"size":10}`, 1000) }},
	{"arguments of tasks", true, func(h *hoarder) { h.calls("wait", `{"text":"`+strings.Repeat("x", 3<<20)+`"}`, 1000) }},
	{"paused approvals", false, func(h *hoarder) { h.calls("approved", `{"text":"`+strings.Repeat("x", 120<<10)+`"}`, 1000) }},
	{"webhooks", false, func(h *hoarder) {
		for a := h.dial(); h.goesOn(); {
			number := h.next
			send := func(a *attacker, method string) (*http.Response, string) {
				header, body := modernAll(1, method, "changed", fmt.Sprintf(`"name":"changed","arguments":{"text":%q},"delivery":{"mode":"webhook","url":"https://example.com/%d","secret":"whsec_%s"}`,
					strings.Repeat("x", 60<<10), number, strings.Repeat("AAAA", 10)))
				return a.post("/mcp", fmt.Sprintf("%s%s: user%d-%d\r\n", header, principalHeader, h.number, number/90), body)
			}
			resp, text := send(a, mcp.MethodEventsSubscribe)
			h.undo = append(h.undo, func(a *attacker) { send(a, mcp.MethodEventsUnsubscribe) })
			h.answered(resp.StatusCode, text)
		}
	}},
}

// calls makes calls of a tool over one connection.
func (h *hoarder) calls(tool, arguments string, most int) {
	for a := h.dial(); h.goesOn() && h.next < most; {
		header, body := modernAll(h.next+1, mcp.MethodToolsCall, tool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
		resp, text := a.post("/mcp", header, body)
		h.answered(resp.StatusCode, text)
	}
}

// honest does what the hoarders do, once, from another address.
func honest(t testing.TB, server string) {
	t.Helper()
	h := &hoarder{TB: t, server: server, number: 200}
	defer h.leave()
	a := h.dial()
	want := func(what string, resp *http.Response, text string) {
		t.Helper()
		if resp.StatusCode != http.StatusOK || strings.Contains(text, `"error"`) {
			t.Errorf("another client gets for %s: status %d, %.300s", what, resp.StatusCode, text)
		}
	}
	resp, text := a.post("/mcp", jsonHeader, longHello)
	id := h.opened(resp)
	want("a session", resp, text)
	resp, text = a.post("/mcp", jsonHeader+"Mcp-Session-Id: "+id+"\r\n", watchRequest(1))
	want("a watch", resp, text)
	header, body := modernAll(1, mcp.MethodToolsCall, "result", `"name":"result","arguments":{"size":10}`)
	resp, text = a.post("/mcp", header, body)
	want("a task", resp, text)
	header, body = modernAll(1, mcp.MethodToolsCall, "approved", `"name":"approved","arguments":{}`)
	resp, text = a.post("/mcp", header, body)
	want("an approval", resp, text)
	header, body = modernAll(1, mcp.MethodSubscriptionsListen, "", `"notifications":{"resourceSubscriptions":["note://a"]}`)
	resp, text = h.dial().post("/mcp", header, body)
	want("a subscription", resp, text)
}

// A server with default options does not need more than 256 MiB, whatever clients leave behind. One client that takes all
// that it gets does not keep out others, and the memory is given back.
func TestRetainedBytes(t *testing.T) {
	racetest.Skip(t)
	for _, hoard := range hoards {
		t.Run(hoard.name, func(t *testing.T) {
			t.Parallel()
			p := &targetProcess{start(t, "retaining server"), ""}
			p.addr = p.line()
			caller := start(t, "small calls", addressVariable+"="+p.addr)
			caller.line() // the first call was answered
			before := p.state()
			hoarders := make([]*hoarder, attackers(t))
			kept, refused := 0, 0
			for i := range hoarders {
				h := &hoarder{TB: t, server: p.addr, number: i + 1}
				hoarders[i] = h
				hoard.run(h)
				kept += h.kept
				refused += h.refused
				if i == 0 {
					t.Logf("the first client left %d things; then: %s", h.kept, h.last)
					honest(t, p.addr)
				}
			}
			held := p.rss()
			atMost(t, "the server", p.memory("VmHWM"), maxResident)
			_ = caller.stdin.Close()
			t.Logf("%d things were left, %d refused; %.0f MiB before they were given back; small calls: %s", kept, refused, mib(held), caller.line())
			for _, h := range hoarders {
				h.leave()
			}
			if hoard.tasks {
				if !fullRun {
					return
				}
				<-time.After(taskTTL + time.Minute) // the store keeps tasks a minute longer
				for range 10 {
					honest(t, p.addr) // the store deletes some of what has expired when it is used
				}
			}
			after := p.await("the memory is free", func(s state) bool { return s.Heap <= before.Heap+24<<20 })
			t.Logf("heap: %.1f MiB before, %.1f MiB after", mib(before.Heap), mib(after.Heap))
		})
	}
}
