package eratest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Host is a server that the test plays: a function that is given each frame
// of the client and says what goes back.
type Host struct {
	t      testing.TB
	Answer func(frame string) []string

	mu     sync.Mutex
	Dials  int
	frames []string // what clients have sent
	ends   []jsonrpc.Stream
}

// Exit is a frame that ends the connection.
const Exit = "exit"

// NewHost returns a server that sends what answer returns for each frame.
func NewHost(t testing.TB, answer func(frame string) []string) *Host {
	return &Host{t: t, Answer: answer}
}

// Dial connects a client.
func (h *Host) Dial(_ context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	near, far := transport.Streams()
	conn := jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &jsonrpc.Options{SkipMalformed: true, Drain: -1})
	h.mu.Lock()
	h.Dials++
	h.ends = append(h.ends, far)
	h.mu.Unlock()
	go func() { _ = conn.Run(context.Background()) }() // the tests see what the connection does
	go h.serve(far)
	return conn, nil
}

func (h *Host) serve(stream jsonrpc.Stream) {
	for {
		data, err := stream.Read()
		if err != nil {
			return
		}
		frame := string(data)
		h.mu.Lock()
		h.frames = append(h.frames, frame)
		h.mu.Unlock()
		for _, back := range h.Answer(frame) {
			if back == Exit {
				stream.Close()
				return
			}
			h.send(stream, back)
		}
	}
}

func (h *Host) send(stream jsonrpc.Stream, frame string) {
	if err := stream.Write(context.Background(), []byte(frame)); err != nil {
		h.t.Errorf("sending %.80s: %v", frame, err)
	}
}

// Push sends a frame on the last connection.
func (h *Host) Push(frame string) {
	h.mu.Lock()
	stream := h.ends[len(h.ends)-1]
	h.mu.Unlock()
	h.send(stream, frame)
}

// Heard are the frames so far.
func (h *Host) Heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.frames...)
}

// Methods are those of the frames so far; a response has none.
func (h *Host) Methods() []string {
	var methods []string
	for _, frame := range h.Heard() {
		methods = append(methods, Text(frame, "method"))
	}
	return methods
}

// Reply answers a request with a result.
func Reply(request, result string) string {
	return `{"jsonrpc":"2.0","id":` + At(request, "id") + `,"result":` + result + `}`
}

// Fail answers a request with an error; more are further members of it.
func Fail(request string, code jsonrpc.Code, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"%s}}`, At(request, "id"), code, more)
}

const (
	// Discovered answers the request for the versions of a modern server.
	Discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"host","version":"1"}}}`
	// Initialized answers the handshake.
	Initialized = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"host","version":"1"}}`
)

// ModernHost returns a server of the modern era; call answers its calls.
func ModernHost(t testing.TB, call func(frame string) []string) *Host {
	return NewHost(t, func(frame string) []string {
		switch Text(frame, "method") {
		case mcp.MethodDiscover:
			return []string{Reply(frame, Discovered)}
		case mcp.NotificationCancelled:
			return nil
		}
		return call(frame)
	})
}

// LegacyHost returns a server of the legacy era; call answers its calls.
func LegacyHost(t testing.TB, call func(frame string) []string) *Host {
	return NewHost(t, func(frame string) []string {
		switch Text(frame, "method") {
		case mcp.MethodDiscover:
			return []string{Fail(frame, jsonrpc.MethodNotFound, "")}
		case mcp.MethodInitialize:
			return []string{Reply(frame, Initialized)}
		case mcp.NotificationInitialized, mcp.NotificationCancelled:
			return nil
		case mcp.MethodSetLevel:
			return []string{Reply(frame, "{}")}
		}
		return call(frame)
	})
}

// Results of calls.
const (
	RootsRound = `{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}},"requestState":"s1"}`
	Finished   = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
)

// Calls are the frames that call a tool.
func (h *Host) Calls() []string {
	return slices.DeleteFunc(h.Heard(), func(frame string) bool { return Text(frame, "method") != mcp.MethodToolsCall })
}

// Cancelled are the ids of the calls that the client has cancelled.
func (h *Host) Cancelled() []string {
	var ids []string
	for _, frame := range h.Heard() {
		if Text(frame, "method") == mcp.NotificationCancelled {
			ids = append(ids, At(frame, "params", "requestId"))
		}
	}
	return ids
}

// IsModern reports whether no client has opened a session by a handshake.
func (h *Host) IsModern() bool { return !slices.Contains(h.Methods(), mcp.MethodInitialize) }
