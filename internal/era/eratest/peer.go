package eratest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Askable are the capabilities of a client that can be asked everything.
const Askable = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// A Peer is a client that the test plays, frame by frame.
type Peer struct {
	T      testing.TB
	Stream jsonrpc.Stream
	Frames chan string

	Version      mcp.Version // of requests that describe themselves; "" or legacy ones do not
	Capabilities string      // what the client can be asked for
	Level        string      // the log level of modern requests
	LastID       int
}

// Connect links a peer to a server. It has not opened a session.
func Connect(t testing.TB, s transport.Binder) *Peer { return ConnectAs(t, s, "") }

// ConnectAs links a peer that the transport has authenticated.
func ConnectAs(t testing.TB, s transport.Binder, principal string) *Peer {
	t.Helper()
	near, far := transport.Streams()
	conn := jsonrpc.NewConn(near, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return s.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go, Principal: principal})
	}, nil)
	go func() { _ = conn.Run(context.Background()) }() // the tests see what the connection does
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

// Open links a peer that speaks a version, with a handshake where it has one.
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

// InitializeParams are the parameters of a handshake.
func InitializeParams(version mcp.Version, capabilities string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"tester","version":"1"}}`, version, capabilities)
}

// Meta is the _meta of the peer's requests.
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
		params = p.Stamped(params)
	}
	p.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.LastID, method, params))
	return strconv.Itoa(p.LastID)
}

// Stamped returns parameters in the envelope of a modern request.
func (p *Peer) Stamped(params string) string {
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
	stamped, err := jsonscan.Splice(nil, []byte(params), jsonscan.Edit{Name: "_meta", Value: merged})
	if err != nil {
		p.T.Fatal(err)
	}
	return string(stamped)
}

// Call sends a request and returns the next frame, its answer.
func (p *Peer) Call(method, params string) string {
	p.T.Helper()
	id := p.Start(method, params)
	answer := p.Next()
	if At(answer, "id") != id || At(answer, "method") != "" {
		p.T.Fatalf("%s is answered with %s", method, answer)
	}
	return answer
}

// Next returns the next frame. When everything waits and none has come, the
// test fails.
func (p *Peer) Next() string {
	p.T.Helper()
	synctest.Wait()
	select {
	case frame := <-p.Frames:
		return frame
	default:
		p.T.Fatal("the server sends nothing")
		return ""
	}
}

// ExpectSilence fails when a frame has come.
func (p *Peer) ExpectSilence() {
	p.T.Helper()
	synctest.Wait()
	select {
	case frame := <-p.Frames:
		p.T.Errorf("the server sends unexpectedly %s", frame)
	default:
	}
}

// Pass lets virtual time pass, and what it brings happen.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// At returns the JSON text of the value that a path leads to, "" if there is
// none. Elements of arrays are named by their numbers.
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

// Text is the string that a path leads to.
func Text(frame string, path ...string) string {
	if raw := At(frame, path...); strings.HasPrefix(raw, `"`) {
		return jsonscan.Unquote([]byte(raw))
	}
	return ""
}

// Said is the text of a tool's result.
func Said(frame string) string { return Text(frame, "result", "content", "0", "text") }

// Want checks the value that a path leads to; "" means that it leads nowhere.
func Want(t testing.TB, frame, value string, path ...string) {
	t.Helper()
	if got := At(frame, path...); got != value {
		t.Errorf("%s is %s, want %s, in %s", strings.Join(path, "."), orNothing(got), orNothing(value), frame)
	}
}

func orNothing(text string) string {
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

// WantIf checks that a path leads somewhere, or nowhere.
func WantIf(t testing.TB, frame string, there bool, path ...string) {
	t.Helper()
	if got := At(frame, path...); (got != "") != there {
		t.Errorf("%s is %s, want it there: %t, in %s", strings.Join(path, "."), orNothing(got), there, frame)
	}
}
