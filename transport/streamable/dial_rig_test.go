package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A script is a server that does what the test says, on a network in memory, so that
// time can be virtual.
type script struct {
	*testing.T
	serve func(w http.ResponseWriter, r *asked)
	links chan net.Conn
	shut  chan struct{}

	mu      sync.Mutex
	asked   []*asked
	dialled []net.Conn
}

// asked is one request to a script.
type asked struct {
	*http.Request
	text string // of the body
	id   string // of the message, as JSON
	call string // the method of the message
	nth  int    // of all requests, from 0
}

// endpoint is where scripts are.
const endpoint = "http://script.test/mcp?key=secret"

// play starts a script. It ends with the test.
func play(t *testing.T, serve func(w http.ResponseWriter, r *asked)) *script {
	s := &script{T: t, serve: serve, links: make(chan net.Conn), shut: make(chan struct{})}
	server := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(s)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return s
}

// Accept, Close and Addr make it the network that it listens to.
func (s *script) Accept() (net.Conn, error) {
	select {
	case link := <-s.links:
		return link, nil
	case <-s.shut:
		return nil, net.ErrClosed
	}
}

func (s *script) Close() error {
	close(s.shut)
	return nil
}

func (s *script) Addr() net.Addr { return &net.TCPAddr{} }

// DialContext connects to it. Nobody listens when it has been closed.
func (s *script) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case s.links <- far:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dialled = append(s.dialled, far)
		return near, nil
	case <-s.shut:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a := &asked{Request: r, text: string(body)}
	if msg, err := jsonrpc.Decode(body); err == nil {
		switch msg := msg.(type) {
		case *jsonrpc.Request:
			a.id, a.call = msg.ID.String(), msg.Method
		case *jsonrpc.Response:
			a.id, a.call = msg.ID.String(), "response"
		}
	}
	s.mu.Lock()
	a.nth = len(s.asked)
	s.asked = append(s.asked, a)
	s.mu.Unlock()
	s.serve(w, a)
}

// hangUp breaks all connections.
func (s *script) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, link := range s.dialled {
		link.Close()
	}
}

// requests returns those that have come so far.
func (s *script) requests() []*asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*asked(nil), s.asked...)
}

// log is what has come so far, "GET" or "POST method".
func (s *script) log() string {
	var lines []string
	for _, r := range s.requests() {
		lines = append(lines, strings.TrimSpace(r.Method+" "+r.call))
	}
	return strings.Join(lines, ", ")
}

// client makes requests to the script.
func (s *script) client() *http.Client {
	network := &http.Transport{DialContext: s.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 64}
	s.Cleanup(network.CloseIdleConnections)
	return &http.Client{Transport: network}
}

// dial connects to the script.
func (s *script) dial(handler jsonrpc.Handler, opts streamable.DialOptions) transport.Conn {
	s.Helper()
	opts.HTTPClient = s.client()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	conn, err := streamable.Dial(endpoint, &opts).Dial(context.Background(), handler)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	return conn
}

// open opens a session.
func (s *script) open(conn transport.Conn) {
	s.Helper()
	if _, err := conn.Call(s.Context(), "initialize", jsonrpc.Raw(`{}`)); err != nil {
		s.Fatal(err)
	}
	if err := conn.Notify(s.Context(), "notifications/initialized", nil); err != nil {
		s.Fatal(err)
	}
}

// opening answers what opens a session, with an id or "" for none, and says whether that
// is what was asked. There is no stream for what is unasked.
func (r *asked) opening(w http.ResponseWriter, id string) bool {
	switch {
	case r.call == "initialize":
		if id != "" {
			w.Header().Set("Mcp-Session-Id", id)
		}
		r.result(w, `{"protocolVersion":"2025-11-25"}`)
	case r.call == "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "":
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		return false
	}
	return true
}

// result answers a call.
func (r *asked) result(w http.ResponseWriter, result string) {
	r.json(w, http.StatusOK, `{"jsonrpc":"2.0","id":`+r.id+`,"result":`+result+`}`)
}

func (r *asked) json(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// stream begins a stream of events and returns what sends one.
func (r *asked) stream(w http.ResponseWriter) func(e sse.Event) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	return func(e sse.Event) {
		text, err := sse.Append(nil, e)
		if err != nil {
			panic(err)
		}
		w.Write(text)
		w.(http.Flusher).Flush()
	}
}

// data is an event with a message.
func data(format string, args ...any) sse.Event {
	return sse.Event{Data: fmt.Appendf(nil, format, args...)}
}

func numberedData(id, format string, args ...any) sse.Event {
	e := data(format, args...)
	e.ID = id
	return e
}

func (r *asked) response(result string) string {
	return `{"jsonrpc":"2.0","id":` + r.id + `,"result":` + result + `}`
}

// A notebook is a client's handler: it writes down what it is told, and answers
// what it is asked as the test says.
type notebook struct {
	answer    func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error
	abandoned func(from jsonrpc.Peer, id jsonrpc.ID, cause error)

	mu    sync.Mutex
	notes []string
}

func (n *notebook) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return n.answer(ctx, from, req, reply)
}

func (n *notebook) Notified(_ jsonrpc.Peer, note *jsonrpc.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, note.Method+string(note.Params))
}

func (n *notebook) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	if n.abandoned != nil {
		n.abandoned(from, id, cause)
	}
}

func (n *notebook) read() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.notes, " ")
}

// note is a notification as a server sends it.
func note(n int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":"note","params":[%d]}`, n) }

// ask makes a call that must succeed and returns its result.
func (s *script) ask(conn transport.Conn, method, params string) string {
	s.Helper()
	resp, err := conn.Call(s.Context(), method, jsonrpc.Raw(params))
	if err != nil {
		s.Fatalf("%s: %v", method, err)
	}
	return string(resp.Result)
}

// failure makes a call that must fail with a CallError.
func (s *script) failure(conn transport.Conn, method, params string) *jsonrpc.CallError {
	s.Helper()
	resp, err := conn.Call(s.Context(), method, jsonrpc.Raw(params))
	if err == nil {
		s.Fatalf("%s was answered with %s", method, resp.Result)
	}
	failed, ok := err.(*jsonrpc.CallError)
	if !ok {
		s.Fatalf("%s failed with %v (%T), want a *jsonrpc.CallError", method, err, err)
	}
	return failed
}

// modern are params of version 2026-07-28 with these members.
func modern(members string) string {
	if members != "" {
		members += ","
	}
	return `{` + members + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`
}
