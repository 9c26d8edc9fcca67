package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/memnet"
	"github.com/dovetail-go/dovetail/transport/httptransport"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// A script is a server that a test controls, on a network in memory for virtual time.
type script struct {
	*testing.T
	serve func(w http.ResponseWriter, r *receivedRequest)
	*memnet.Network

	mu       sync.Mutex
	received []*receivedRequest
}

// receivedRequest is one request to a script.
type receivedRequest struct {
	*http.Request
	text string // of the body
	id   string // of the message, as JSON
	call string // the method of the message
	nth  int    // of all requests, from 0
}

// endpoint is the URL of scripts.
const endpoint = "http://script.test/mcp?key=secret"

// newScript starts a script. It ends with the test.
func newScript(t *testing.T, serve func(w http.ResponseWriter, r *receivedRequest)) *script {
	s := &script{T: t, serve: serve, Network: memnet.New()}
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

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a := &receivedRequest{Request: r, text: string(body)}
	if msg, err := jsonrpc.Decode(body); err == nil {
		switch msg := msg.(type) {
		case *jsonrpc.Request:
			a.id, a.call = msg.ID.String(), msg.Method
		case *jsonrpc.Response:
			a.id, a.call = msg.ID.String(), "response"
		}
	}
	s.mu.Lock()
	a.nth = len(s.received)
	s.received = append(s.received, a)
	s.mu.Unlock()
	s.serve(w, a)
}

// requests returns the requests received so far.
func (s *script) requests() []*receivedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*receivedRequest(nil), s.received...)
}

// log returns the requests received so far, as "GET" or "POST method".
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

// opening answers initialize with a session id, or none for "", and GET with 405. It
// reports whether the request was one of these.
func (r *receivedRequest) opening(w http.ResponseWriter, id string) bool {
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
func (r *receivedRequest) result(w http.ResponseWriter, result string) {
	r.json(w, http.StatusOK, `{"jsonrpc":"2.0","id":`+r.id+`,"result":`+result+`}`)
}

func (r *receivedRequest) json(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// stream begins an event stream and returns a function that sends an event.
func (r *receivedRequest) stream(w http.ResponseWriter) func(e sse.Event) {
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

func (r *receivedRequest) response(result string) string {
	return `{"jsonrpc":"2.0","id":` + r.id + `,"result":` + result + `}`
}

// A recorder is a client's handler that records notifications and answers calls with answer.
type recorder struct {
	answer    func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error
	abandoned func(from jsonrpc.Peer, id jsonrpc.ID, cause error)

	mu    sync.Mutex
	notes []string
}

func (n *recorder) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return n.answer(ctx, from, req, reply)
}

func (n *recorder) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, note.Method+string(note.Params))
}

func (n *recorder) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	if n.abandoned != nil {
		n.abandoned(from, id, cause)
	}
}

func (n *recorder) read() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.notes, " ")
}

// note returns a notification of a server.
func note(n int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":"note","params":[%d]}`, n) }

// call makes a call that must succeed and returns its result.
func (s *script) call(conn transport.Conn, method, params string) string {
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

// modern returns params of version 2026-07-28 with these members.
func modern(members string) string {
	if members != "" {
		members += ","
	}
	return `{` + members + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`
}

// A session has the properties of transporttest.
func TestDialTransport(t *testing.T) {
	for _, name := range []string{"streamable", "streamable-h2"} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
				return openingDialer{transporttests.DialerOver(t, name, opening{server})}
			})
		})
	}
}

// opening is a server that also accepts the handshake.
type opening struct{ server transport.Binder }

func (o opening) Bind(link transport.Link) jsonrpc.Handler {
	return openingHandler{o.server.Bind(link)}
}

type openingHandler struct{ jsonrpc.Handler }

func (h openingHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == "initialize" {
		return reply.Write(jsonrpc.Raw(`{"protocolVersion":"2025-11-25"}`))
	}
	return h.Handler.Handle(ctx, from, req, reply)
}

// openingDialer opens a session on each connection.
type openingDialer struct{ transport.Dialer }

func (d openingDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := d.Dialer.Dial(ctx, handler)
	if err != nil {
		return nil, err
	}
	if _, err = conn.Call(ctx, "initialize", nil); err == nil {
		err = conn.Notify(ctx, "notifications/initialized", nil)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// A swappableServer is an HTTP server with a replaceable handler, like a server that restarts.
type swappableServer struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
}

func newSwappableServer(t *testing.T) *swappableServer {
	s := new(swappableServer)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	return s
}

func (s *swappableServer) to(handler http.Handler) { s.handler.Store(&handler) }

// A client continues with a restarted server, whatever the version.
func TestDialServerRestarts(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(fmt.Sprint(era), func(t *testing.T) {
			web := newSwappableServer(t)
			start := func() httptransport.Endpoint {
				endpoint := streamable.Handler(newServer(), nil)
				web.to(endpoint)
				return endpoint
			}
			endpoint := start()
			session, err := client.Connect(t.Context(), streamable.Dial(web.URL, nil), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				result, err := session.CallTool(t.Context(), "sum", sumIn{A: 1, B: 2}, nil)
				if err != nil || result.IsError {
					t.Errorf("got %+v, %v", result, err)
				}
				endpoint.Close()
				endpoint = start()
			}
			session.Close()
			endpoint.Close()
		})
	}
}
