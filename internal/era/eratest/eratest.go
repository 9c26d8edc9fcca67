package eratest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Host is a server in a test: a function that gets each frame of the client and returns the
// frames to send.
type Host struct {
	t      testing.TB
	Answer func(frame string) []string

	mu     sync.Mutex
	Dials  int
	frames []string // received from clients
	ends   []jsonrpc.Stream
}

// Exit ends the connection when an answer contains it.
const Exit = "exit"

// NewHost returns a server that sends the frames that answer returns for each frame.
func NewHost(t testing.TB, answer func(frame string) []string) *Host {
	return &Host{t: t, Answer: answer}
}

// Dial connects a client.
func (h *Host) Dial(_ context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	near, far := transport.NewPipe()
	conn := jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &jsonrpc.Options{SkipMalformed: true, Drain: -1})
	h.mu.Lock()
	h.Dials++
	h.ends = append(h.ends, far)
	h.mu.Unlock()
	go func() { _ = conn.Run(context.Background()) }() // the tests notice its errors
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

// Received returns the frames that the server has received.
func (h *Host) Received() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.frames...)
}

// Methods returns the methods of the frames so far, "" for a response.
func (h *Host) Methods() []string {
	var methods []string
	for _, frame := range h.Received() {
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
	// Discovered is the result of server/discover.
	Discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"host","version":"1"}}}`
	// Initialized is the result of the handshake.
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

// Calls returns the frames that call a tool.
func (h *Host) Calls() []string {
	return slices.DeleteFunc(h.Received(), func(frame string) bool { return Text(frame, "method") != mcp.MethodToolsCall })
}

// Cancelled returns the ids of the calls that the client has cancelled.
func (h *Host) Cancelled() []string {
	var ids []string
	for _, frame := range h.Received() {
		if Text(frame, "method") == mcp.NotificationCancelled {
			ids = append(ids, At(frame, "params", "requestId"))
		}
	}
	return ids
}

// IsModern reports whether no client has opened a session by a handshake.
func (h *Host) IsModern() bool { return !slices.Contains(h.Methods(), mcp.MethodInitialize) }

// Askable is the capabilities of a client that answers all kinds of questions.
const Askable = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// A Peer is a client in a test, which sends and receives frames.
type Peer struct {
	T      testing.TB
	Stream jsonrpc.Stream
	Frames chan string

	Version      mcp.Version // of modern requests; "" or a legacy version for legacy ones
	Capabilities string      // of the client
	Level        string      // the log level of modern requests
	LastID       int
}

// Connect connects a peer to a server without opening a session.
func Connect(t testing.TB, s transport.Binder) *Peer { return ConnectAs(t, s, "") }

// ConnectAs is Connect for a client that the transport has authenticated.
func ConnectAs(t testing.TB, s transport.Binder, principal string) *Peer {
	t.Helper()
	near, far := transport.NewPipe()
	conn := jsonrpc.NewConn(near, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return s.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go, Principal: principal})
	}, nil)
	go func() { _ = conn.Run(context.Background()) }() // the tests notice its errors
	p := &Peer{T: t, Stream: far, Frames: make(chan string, 1000), Capabilities: "{}"}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			frame, err := far.Read()
			if err != nil {
				return
			}
			p.Frames <- string(frame)
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		far.Close()
		<-read
	})
	return p
}

// Open connects a peer of a version, with a handshake if the version has one.
func Open(t testing.TB, s transport.Binder, version mcp.Version, capabilities string) *Peer {
	t.Helper()
	p := Connect(t, s)
	p.Version, p.Capabilities = version, capabilities
	if !version.Modern() {
		p.Call(mcp.MethodInitialize, InitializeParams(version, capabilities))
		p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return p
}

// InitializeParams returns the params of a handshake.
func InitializeParams(version mcp.Version, capabilities string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"tester","version":"1"}}`, version, capabilities)
}

// Meta returns the _meta of the peer's modern requests.
func (p *Peer) Meta() string {
	meta := fmt.Sprintf(`{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/clientInfo":{"name":"tester","version":"1"}}`,
		p.Version, p.Capabilities)
	if p.Level != "" {
		meta = strings.TrimSuffix(meta, "}") + fmt.Sprintf(`,"io.modelcontextprotocol/logLevel":%q}`, p.Level)
	}
	return meta
}

// Send writes frames as they are.
func (p *Peer) Send(frames ...string) {
	p.T.Helper()
	for _, frame := range frames {
		if err := p.Stream.Write(context.Background(), []byte(frame)); err != nil {
			p.T.Fatalf("sending %.80s: %v", frame, err)
		}
	}
}

// Start sends a request in the peer's version and returns its id. params is an
// object, "" for none; a "_meta" in it is completed.
func (p *Peer) Start(method, params string) string {
	p.T.Helper()
	p.LastID++
	if params == "" {
		params = "{}"
	}
	if p.Version.Modern() {
		params = p.WithMeta(params)
	}
	p.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.LastID, method, params))
	return strconv.Itoa(p.LastID)
}

// WithMeta returns parameters in the envelope of a modern request.
func (p *Peer) WithMeta(params string) string {
	own, err := jsonscan.ReadObject([]byte(p.Meta()))
	if err != nil {
		p.T.Fatal(err)
	}
	var edits []jsonscan.Edit
	for m := range own.All() {
		edits = append(edits, jsonscan.Edit{Name: jsonscan.Unquote(m.Key), Value: m.Value})
	}
	meta := At(params, "_meta")
	if meta == "" {
		meta = "{}"
	}
	merged, err := jsonscan.Splice(nil, []byte(meta), edits...)
	if err != nil {
		p.T.Fatal(err)
	}
	withMeta, err := jsonscan.Splice(nil, []byte(params), jsonscan.Edit{Name: "_meta", Value: merged})
	if err != nil {
		p.T.Fatal(err)
	}
	return string(withMeta)
}

// Call sends a request and returns its response, which must be the next frame.
func (p *Peer) Call(method, params string) string {
	p.T.Helper()
	id := p.Start(method, params)
	answer := p.Next()
	if At(answer, "id") != id || At(answer, "method") != "" {
		p.T.Fatalf("the response to %s is %s", method, answer)
	}
	return answer
}

// Next returns the next frame. The test fails if there is none when all goroutines wait.
func (p *Peer) Next() string {
	p.T.Helper()
	synctest.Wait()
	select {
	case frame := <-p.Frames:
		return frame
	default:
		p.T.Fatal("the server sent no frame")
		return ""
	}
}

// ExpectSilence fails the test if there is a frame.
func (p *Peer) ExpectSilence() {
	p.T.Helper()
	synctest.Wait()
	select {
	case frame := <-p.Frames:
		p.T.Errorf("the server sent an unexpected frame: %s", frame)
	default:
	}
}

// Pass sleeps for d of virtual time, and then until all goroutines of the test wait.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// At returns the JSON text of the value at a path, "" if there is none. A number in the path is
// the index of an array element.
func At(text string, path ...string) string {
	for _, name := range path {
		if n, err := strconv.Atoi(name); err == nil && strings.HasPrefix(text, "[") {
			text = Element(text, n)
			continue
		}
		object, err := jsonscan.ReadObject([]byte(text))
		if err != nil {
			return ""
		}
		text = string(object.Get(name))
	}
	return text
}

// Element returns the nth element of an array, "" if there is none.
func Element(array string, n int) string {
	s := jsonscan.New([]byte(array))
	if s.EnterArray() != nil {
		return ""
	}
	for i := 0; ; i++ {
		more, err := s.Element(i == 0)
		if err != nil || !more {
			return ""
		}
		value, err := s.Value()
		if err != nil {
			return ""
		}
		if i == n {
			return string(value)
		}
	}
}

// Text returns the string at a path, "" if there is none.
func Text(frame string, path ...string) string {
	if raw := At(frame, path...); strings.HasPrefix(raw, `"`) {
		return jsonscan.Unquote([]byte(raw))
	}
	return ""
}

// ResultText returns the text of the first content of a tool's result.
func ResultText(frame string) string { return Text(frame, "result", "content", "0", "text") }

// Want checks the value at a path; "" means that there must be none.
func Want(t testing.TB, frame, value string, path ...string) {
	t.Helper()
	if got := At(frame, path...); got != value {
		t.Errorf("%s is %s, want %s, in %s", strings.Join(path, "."), orAbsent(got), orAbsent(value), frame)
	}
}

func orAbsent(text string) string {
	if text == "" {
		return "absent"
	}
	return text
}

// WantError checks the code of an error.
func WantError(t testing.TB, frame string, code jsonrpc.Code) {
	t.Helper()
	Want(t, frame, strconv.Itoa(int(code)), "error", "code")
}

// WantIf checks whether there is a value at a path.
func WantIf(t testing.TB, frame string, present bool, path ...string) {
	t.Helper()
	if got := At(frame, path...); (got != "") != present {
		t.Errorf("%s is %s, want it present: %t, in %s", strings.Join(path, "."), orAbsent(got), present, frame)
	}
}
