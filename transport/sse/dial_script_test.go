package sse_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A script is a server of 2024-11-05 that does what it is told.
type script struct {
	*httptest.Server
	stream   func(w http.ResponseWriter, r *http.Request) // nil: "endpoint" and then what say is given
	post     func(w http.ResponseWriter, r *http.Request) // nil: 202, and an echo of the params
	endpoint string
	say      chan string // written to the stream as it is; closing it ends the stream
}

func newScript(t testing.TB) *script {
	s := newIdleScript()
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// newIdleScript is one that has not been started.
func newIdleScript() *script {
	s := &script{endpoint: "/messages", say: make(chan string, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && s.post != nil:
			s.post(w, r)
		case r.Method == http.MethodPost:
			s.echo(w, r)
		case s.stream != nil:
			s.stream(w, r)
		default:
			s.serveStream(w, r)
		}
	}))
	return s
}

func (s *script) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", s.endpoint)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case text, ok := <-s.say:
			if !ok {
				return
			}
			fmt.Fprint(w, text)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *script) echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if msg, err := jsonrpc.Decode(body); err == nil {
		if req, ok := msg.(*jsonrpc.Request); ok && !req.IsNotification() {
			s.say <- fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", req.ID, req.Params)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// unused is an address where nobody listens.
func unused(t testing.TB) string {
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	return l.Addr().String()
}

// roundTripper is a server in memory.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// streamOf is a response that is an event stream.
func streamOf(r *http.Request, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: struct {
			io.Reader
			io.Closer
		}{body, io.NopCloser(nil)},
	}
}

// untilDone blocks until the request's context ends.
type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// waiting reads nothing, once the event has happened.
type waiting <-chan struct{}

func (w waiting) Read([]byte) (int, error) {
	<-w
	return 0, io.EOF
}
