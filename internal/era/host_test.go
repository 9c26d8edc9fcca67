package era_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A host is a server that the test plays: a function that is given each frame
// of the client and says what goes back.
type host struct {
	t      testing.TB
	answer func(frame string) []string

	mu     sync.Mutex
	dials  int
	frames []string // what clients have sent
	ends   []jsonrpc.Stream
}

// exit is a frame that ends the connection.
const exit = "exit"

func newHost(t testing.TB, answer func(frame string) []string) *host {
	return &host{t: t, answer: answer}
}

// Dial connects a client.
func (h *host) Dial(_ context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	near, far := transport.Streams()
	conn := jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &jsonrpc.Options{SkipMalformed: true, Drain: -1})
	h.mu.Lock()
	h.dials++
	h.ends = append(h.ends, far)
	h.mu.Unlock()
	go conn.Run(context.Background())
	go h.serve(far)
	return conn, nil
}

func (h *host) serve(stream jsonrpc.Stream) {
	for {
		data, err := stream.Read()
		if err != nil {
			return
		}
		frame := string(data)
		h.mu.Lock()
		h.frames = append(h.frames, frame)
		h.mu.Unlock()
		for _, back := range h.answer(frame) {
			if back == exit {
				stream.Close()
				return
			}
			h.send(stream, back)
		}
	}
}

func (h *host) send(stream jsonrpc.Stream, frame string) {
	if err := stream.Write(context.Background(), []byte(frame)); err != nil {
		h.t.Errorf("sending %.80s: %v", frame, err)
	}
}

// push sends a frame on the last connection.
func (h *host) push(frame string) {
	h.mu.Lock()
	stream := h.ends[len(h.ends)-1]
	h.mu.Unlock()
	h.send(stream, frame)
}

// heard are the frames so far.
func (h *host) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.frames...)
}

// methods are those of the frames so far; a response has none.
func (h *host) methods() []string {
	var methods []string
	for _, frame := range h.heard() {
		methods = append(methods, text(frame, "method"))
	}
	return methods
}

// reply answers a request with a result, fail with an error.
func reply(request, result string) string {
	return `{"jsonrpc":"2.0","id":` + at(request, "id") + `,"result":` + result + `}`
}

func fail(request string, code jsonrpc.Code, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"%s}}`, at(request, "id"), code, more)
}

const (
	discovered  = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"host","version":"1"}}}`
	initialized = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"host","version":"1"}}`
)

// modernHost answers calls with what call says.
func modernHost(t testing.TB, call func(frame string) []string) *host {
	return newHost(t, func(frame string) []string {
		switch text(frame, "method") {
		case mcp.MethodDiscover:
			return []string{reply(frame, discovered)}
		case mcp.NotificationCancelled:
			return nil
		}
		return call(frame)
	})
}

// legacyHost likewise.
func legacyHost(t testing.TB, call func(frame string) []string) *host {
	return newHost(t, func(frame string) []string {
		switch text(frame, "method") {
		case mcp.MethodDiscover:
			return []string{fail(frame, jsonrpc.MethodNotFound, "")}
		case mcp.MethodInitialize:
			return []string{reply(frame, initialized)}
		case mcp.NotificationInitialized, mcp.NotificationCancelled:
			return nil
		case mcp.MethodSetLevel:
			return []string{reply(frame, "{}")}
		}
		return call(frame)
	})
}

// session connects a client to a host.
func session(t testing.TB, h *host, opts *client.Options) *client.Session {
	t.Helper()
	s, err := client.Connect(t.Context(), h, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
