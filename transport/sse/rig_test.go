package sse_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	events "github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// testTimeout bounds the wait of a test.
const testTimeout = 20 * time.Second

// serve serves a server over HTTP until the test ends.
func serve(t testing.TB, server transport.Binder, opts *sse.Options) (url string, endpoint httptransport.Endpoint) {
	t.Helper()
	endpoint = sse.Handler(server, opts)
	s := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		if err := endpoint.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.Close()
	})
	return s.URL, endpoint
}

// dial opens a connection that ends with the test.
func dial(t testing.TB, dialer transport.Dialer, handler jsonrpc.Handler) transport.Conn {
	t.Helper()
	conn, err := dialer.Dial(t.Context(), handler)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { closed(t, conn) })
	return conn
}

// closed closes a connection and waits for its end.
func closed(t testing.TB, conn transport.Conn) {
	t.Helper()
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	waittest.Receive(t, "the end of the connection", conn.Done())
}

// A raw is a client that checks every byte.
type raw struct {
	testing.TB
	*http.Response
	events *events.Reader
	post   string // where to post messages
}

// get opens a stream by hand; change, when not nil, may change the request.
func get(t testing.TB, url string, change func(*http.Request)) *raw {
	t.Helper()
	r := &raw{TB: t, Response: request(t, http.MethodGet, url, "", change)}
	if r.StatusCode != http.StatusOK {
		return r
	}
	r.events = events.NewReader(r.Body, 32<<20)
	if first := r.next(); first.Name == "endpoint" {
		r.post = resolved(t, url, string(first.Data))
	} else {
		t.Fatalf("the first event is %q", first.Name)
	}
	return r
}

func resolved(t testing.TB, base, ref string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	if u, err = u.Parse(ref); err != nil {
		t.Fatal(err)
	}
	return u.String()
}

func (r *raw) next() events.Event {
	r.Helper()
	e, err := r.events.Next()
	if err != nil {
		r.Fatalf("no event came: %v", err)
	}
	return e
}

// send posts a message, and expects it to be accepted.
func (r *raw) send(msg string) {
	r.Helper()
	if resp := post(r, r.post, msg, nil); resp.StatusCode != http.StatusAccepted {
		r.Fatalf("the status is %d", resp.StatusCode)
	}
}

func post(t testing.TB, url, msg string, change func(*http.Request)) *http.Response {
	t.Helper()
	return request(t, http.MethodPost, url, msg, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		if change != nil {
			change(r)
		}
	})
}

// request makes a request whose response is closed with the test.
func request(t testing.TB, method, url, body string, change func(*http.Request)) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	own := &http.Transport{DisableKeepAlives: true}
	resp, err := own.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func bodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	return string(body)
}

// binder binds one handler to all links.
type binder struct{ handler jsonrpc.Handler }

func (b binder) Bind(transport.Link) jsonrpc.Handler { return b.handler }

// silent refuses calls and drops notifications.
type silent struct{}

func (silent) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

func (silent) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// notificationRecorder records notifications.
type notificationRecorder chan string

func (notificationRecorder) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

func (n notificationRecorder) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	n <- note.Method
}

// handlerFunc answers calls by a function.
type handlerFunc func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error

func (f handlerFunc) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return f(ctx, from, req, reply)
}

func (handlerFunc) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func message(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{}}`, id, method)
}

// authenticated takes the principal from a header, like middleware that has verified it.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get("X-User"))))
	})
}

func as(user string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-User", user) }
}

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestTransport(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		url, _ := serve(t, server, nil)
		return sse.Dial(url, nil)
	})
}

func TestTransportOverHTTP2(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		endpoint := sse.Handler(server, &sse.Options{Messages: "/messages"})
		mux := http.NewServeMux()
		mux.Handle("/sse", endpoint)
		mux.Handle("/messages", endpoint)
		s := httptest.NewUnstartedServer(mux)
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(func() {
			if err := endpoint.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			s.Close()
		})
		return sse.Dial(s.URL+"/sse", &sse.DialOptions{HTTPClient: s.Client()})
	})
}

func TestTransportWithSessionHeader(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		url, _ := serve(t, server, &sse.Options{SessionHeader: true})
		return sse.Dial(url+"/mcp/sse", nil)
	})
}

// A restarted server has no sessions. The dialer opens new ones.
func TestServerRestart(t *testing.T) {
	first := sse.Handler(transporttest.Server(), nil)
	s := httptest.NewServer(first)
	address := s.Listener.Addr().String()
	dialer := sse.Dial(s.URL, nil)
	notes := make(notificationRecorder, 1)
	conn := dial(t, dialer, notes)
	waiting := make(chan error, 1)
	go func() {
		_, err := conn.Call(t.Context(), "wait", nil)
		waiting <- err
	}()
	waittest.Receive(t, "the call to have begun", notes)
	s.CloseClientConnections()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	s.Close()
	waittest.Receive(t, "the end of the connection", conn.Done())
	failed(t, waittest.Receive(t, "the call", waiting), maybeExecuted, errClosed)
	_, err := conn.Call(t.Context(), "echo", raw1)
	failed(t, err, notSent, errClosed)

	if _, err := dialer.Dial(t.Context(), silent{}); !isNotReached(err) {
		t.Errorf("Dial while there is no server: %v", err)
	}

	second := sse.Handler(transporttest.Server(), nil)
	again := httptest.NewUnstartedServer(second)
	again.Listener.Close()
	again.Listener = listen(t, address)
	again.Start()
	defer again.Close()
	defer second.Close()
	conn = dial(t, dialer, silent{})
	if _, err := conn.Call(context.Background(), "echo", raw1); err != nil {
		t.Error(err)
	}
	closed(t, conn)
}
