package streamable_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A rig is an endpoint behind a real HTTP server, with an HTTP client. With
// DOVETAIL_TEST_TRANSPORT=streamable-tls or streamable-h2 they use TLS or HTTP/2.
type rig struct {
	*testing.T
	endpoint httptransport.Endpoint
	http     *httptest.Server
	headers  map[string]string // of every request
}

func serve(t *testing.T, binder transport.Binder, opts *streamable.Options) *rig {
	t.Helper()
	r := &rig{T: t, endpoint: streamable.Handler(binder, opts), headers: map[string]string{}}
	r.http = httptest.NewUnstartedServer(r.endpoint)
	transporttests.StartWeb(r.http)
	t.Cleanup(func() {
		r.endpoint.Close()
		r.http.Close()
	})
	return r
}

// sharing is a server whose sessions are in a store.
type sharing struct {
	*server.Server
	store store.Store
}

func (s sharing) Store() store.Store { return s.store }

// newStore returns a store in memory that outlasts the endpoints.
func newStore(t *testing.T) store.Store {
	t.Helper()
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return memory
}

// dialHTTP1 opens a connection for HTTP/1.1, with TLS if the server has it.
func (r *rig) dialHTTP1() net.Conn {
	r.Helper()
	conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", r.http.Listener.Addr().String())
	if err != nil {
		r.Fatal(err)
	}
	if r.http.TLS == nil {
		return conn
	}
	config := r.http.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos, config.ServerName = []string{"http/1.1"}, "127.0.0.1"
	return tls.Client(conn, config)
}

// with returns the rig with more headers on every request; "" removes one.
func (r *rig) with(headers ...string) *rig {
	other := *r
	other.headers = maps.Clone(r.headers)
	for i := 0; i < len(headers); i += 2 {
		other.headers[headers[i]] = headers[i+1]
	}
	return &other
}

// An answer is a response. Its events are read as they arrive.
type answer struct {
	*testing.T
	*http.Response
	events *sse.Reader
}

// send sends a request and returns when the response header has arrived.
func (r *rig) send(ctx context.Context, method, body string) *answer {
	r.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.http.URL, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range r.headers {
		if value == "" {
			delete(req.Header, http.CanonicalHeaderKey(name))
			continue
		}
		if name == "Host" {
			req.Host = value
		}
		req.Header[http.CanonicalHeaderKey(name)] = strings.Split(value, "\n")
	}
	resp, err := r.http.Client().Do(req)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { resp.Body.Close() })
	return &answer{T: r.T, Response: resp, events: sse.NewReader(resp.Body, 1<<20)}
}

func (r *rig) post(body string) *answer {
	r.Helper()
	return r.send(r.Context(), http.MethodPost, body)
}

// body reads an answer that is not a stream.
func (a *answer) body() string {
	a.Helper()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		a.Error(err)
	}
	return string(bytes.TrimSpace(body))
}

// is checks the status, and that the body contains each of these.
func (a *answer) is(status int, parts ...string) *answer {
	a.Helper()
	if a.StatusCode != status {
		a.Errorf("got status %s, want %d", a.Status, status)
	}
	if len(parts) == 0 {
		return a
	}
	body := a.body()
	for _, part := range parts {
		if !strings.Contains(body, part) {
			a.Errorf("got body %s, want it to contain %s", body, part)
		}
	}
	return a
}

// next reads an event of a stream.
func (a *answer) next() sse.Event {
	a.Helper()
	if got := a.Header.Get("Content-Type"); got != "text/event-stream" {
		a.Fatalf("the answer is %s %s: %s", a.Status, got, a.body())
	}
	event, err := a.events.Next()
	if err != nil {
		a.Fatalf("reading an event: %v", err)
	}
	return event
}

// message reads an event that must contain each of these.
func (a *answer) message(parts ...string) sse.Event {
	a.Helper()
	event := a.next()
	for _, part := range parts {
		if !strings.Contains(string(event.Data), part) {
			a.Errorf("the event is %q, want it to contain %s", event.Data, part)
		}
	}
	return event
}

// ends checks that a stream ends here.
func (a *answer) ends() {
	a.Helper()
	if event, err := a.events.Next(); err != io.EOF {
		a.Errorf("got event %q and error %v, want the end of the stream", event.Data, err)
	}
}

func TestMain(m *testing.M) { leaktest.Main(m) }
