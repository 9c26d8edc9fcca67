package era_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A peer is a client that the test plays, frame by frame.
type peer struct {
	t      testing.TB
	stream jsonrpc.Stream
	frames chan string

	version      mcp.Version // of requests that describe themselves; "" or legacy ones do not
	capabilities string      // what the client can be asked for
	level        string      // the log level of modern requests
	lastID       int
}

// connect links a peer to a server. It has not opened a session.
func connect(t testing.TB, s *server.Server) *peer { return connectAs(t, s, "") }

// connectAs links a peer that the transport has authenticated.
func connectAs(t testing.TB, s *server.Server, principal string) *peer {
	t.Helper()
	near, far := transport.Streams()
	conn := jsonrpc.NewConn(near, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return s.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go, Principal: principal})
	}, nil)
	go conn.Run(context.Background())
	p := &peer{t: t, stream: far, frames: make(chan string, 1000), capabilities: "{}"}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			frame, err := far.Read()
			if err != nil {
				return
			}
			p.frames <- string(frame)
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		far.Close()
		<-read
	})
	return p
}

// open links a peer that speaks a version, with a handshake where it has one.
func open(t testing.TB, s *server.Server, version mcp.Version, capabilities string) *peer {
	t.Helper()
	p := connect(t, s)
	p.version, p.capabilities = version, capabilities
	if !version.Modern() {
		p.call(mcp.MethodInitialize, initializeParams(version, capabilities))
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return p
}

func initializeParams(version mcp.Version, capabilities string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"tester","version":"1"}}`, version, capabilities)
}

// meta is the _meta of the peer's requests.
func (p *peer) meta() string {
	meta := fmt.Sprintf(`{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/clientInfo":{"name":"tester","version":"1"}}`,
		p.version, p.capabilities)
	if p.level != "" {
		meta = strings.TrimSuffix(meta, "}") + fmt.Sprintf(`,"io.modelcontextprotocol/logLevel":%q}`, p.level)
	}
	return meta
}

// send writes frames as they are.
func (p *peer) send(frames ...string) {
	p.t.Helper()
	for _, frame := range frames {
		if err := p.stream.Write(context.Background(), []byte(frame)); err != nil {
			p.t.Fatalf("sending %.80s: %v", frame, err)
		}
	}
}

// start sends a request in the peer's version and returns its id. params is an
// object, "" for none; a "_meta" in it is completed.
func (p *peer) start(method, params string) string {
	p.t.Helper()
	p.lastID++
	if params == "" {
		params = "{}"
	}
	if p.version.Modern() {
		params = p.stamped(params)
	}
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.lastID, method, params))
	return strconv.Itoa(p.lastID)
}

func (p *peer) stamped(params string) string {
	own, err := jsonscan.ReadObject([]byte(p.meta()))
	if err != nil {
		p.t.Fatal(err)
	}
	var edits []jsonscan.Edit
	for m := range own.All() {
		edits = append(edits, jsonscan.Edit{Name: jsonscan.Unquote(m.Key), Value: m.Value})
	}
	meta := at(params, "_meta")
	if meta == "" {
		meta = "{}"
	}
	merged, err := jsonscan.Splice(nil, []byte(meta), edits...)
	if err != nil {
		p.t.Fatal(err)
	}
	stamped, err := jsonscan.Splice(nil, []byte(params), jsonscan.Edit{Name: "_meta", Value: merged})
	if err != nil {
		p.t.Fatal(err)
	}
	return string(stamped)
}

// call sends a request and returns the next frame, its answer.
func (p *peer) call(method, params string) string {
	p.t.Helper()
	id := p.start(method, params)
	answer := p.next()
	if at(answer, "id") != id || at(answer, "method") != "" {
		p.t.Fatalf("%s is answered with %s", method, answer)
	}
	return answer
}

// next returns the next frame. When everything waits and none has come, the
// test fails.
func (p *peer) next() string {
	p.t.Helper()
	synctest.Wait()
	select {
	case frame := <-p.frames:
		return frame
	default:
		p.t.Fatal("the server sends nothing")
		return ""
	}
}

// expectSilence fails when a frame has come.
func (p *peer) expectSilence() {
	p.t.Helper()
	synctest.Wait()
	select {
	case frame := <-p.frames:
		p.t.Errorf("the server sends unexpectedly %s", frame)
	default:
	}
}

// pass lets virtual time pass, and what it brings happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// at returns the JSON text of the value that a path leads to, "" if there is
// none. Elements of arrays are named by their numbers.
func at(text string, path ...string) string {
	for _, name := range path {
		if n, err := strconv.Atoi(name); err == nil && strings.HasPrefix(text, "[") {
			text = element(text, n)
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

func element(array string, n int) string {
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

// text is the string that a path leads to.
func text(frame string, path ...string) string {
	if raw := at(frame, path...); strings.HasPrefix(raw, `"`) {
		return jsonscan.Unquote([]byte(raw))
	}
	return ""
}

// said is the text of a tool's result.
func said(frame string) string { return text(frame, "result", "content", "0", "text") }

// want checks the value that a path leads to; "" means that it leads nowhere.
func want(t testing.TB, frame, value string, path ...string) {
	t.Helper()
	if got := at(frame, path...); got != value {
		t.Errorf("%s is %s, want %s, in %s", strings.Join(path, "."), orNothing(got), orNothing(value), frame)
	}
}

func orNothing(text string) string {
	if text == "" {
		return "absent"
	}
	return text
}

// wantError checks the code of an error.
func wantError(t testing.TB, frame string, code jsonrpc.Code) {
	t.Helper()
	want(t, frame, strconv.Itoa(int(code)), "error", "code")
}

// wantIf checks that a path leads somewhere, or nowhere.
func wantIf(t testing.TB, frame string, there bool, path ...string) {
	t.Helper()
	if got := at(frame, path...); (got != "") != there {
		t.Errorf("%s is %s, want it there: %t, in %s", strings.Join(path, "."), orNothing(got), there, frame)
	}
}

type jsonRaw = json.RawMessage
