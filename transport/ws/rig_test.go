package ws_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// serve serves an endpoint until the test ends, and returns its URL.
func serve(t testing.TB, server transport.Binder, opts *ws.Options) string {
	t.Helper()
	endpoint := ws.Handler(server, opts)
	srv := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		endpoint.Close()
		srv.Close()
	})
	return srv.URL
}

// A network connects to an HTTP server in memory, so that time can be virtual.
type network struct {
	incoming chan net.Conn
	closed   chan struct{}
}

// newNetwork serves a handler on a network until the test ends.
func newNetwork(t *testing.T, handler http.Handler) *network {
	t.Helper()
	n := &network{incoming: make(chan net.Conn), closed: make(chan struct{})}
	var requests sync.WaitGroup // Serve does not wait for those that have opened a WebSocket
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		defer requests.Done()
		handler.ServeHTTP(w, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(n); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		if endpoint, ok := handler.(*ws.Endpoint); ok {
			endpoint.Close()
		}
		srv.Close()
		<-done
		requests.Wait()
	})
	return n
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.incoming:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	close(n.closed)
	return nil
}

func (n *network) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// connect opens a connection to the server.
func (n *network) connect(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case n.incoming <- there:
		return here, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// client is an HTTP client of the network.
func (n *network) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.connect}}
}

// dial opens a connection with the client's end, which ends with the test.
func (n *network) dial(t *testing.T, opts ws.DialOptions) transport.Conn {
	t.Helper()
	if opts.HTTPClient == nil {
		opts.HTTPClient = n.client()
	}
	conn, err := ws.Dial("ws://localhost/mcp", &opts).Dial(t.Context(), handler(refuse))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// handler is a jsonrpc.Handler that is a function.
type handler func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error

func (h handler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return h(ctx, from, req, reply)
}

func (handler) Notified(jsonrpc.Peer, *jsonrpc.Request) {}

func echo(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return reply.Write(jsonrpc.Raw(req.Params))
}

func refuse(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

// binder is a transport.Binder that is a function.
type binder func(link transport.Link) jsonrpc.Handler

func (b binder) Bind(link transport.Link) jsonrpc.Handler { return b(link) }

// echoing is a server whose links answer every call with its params.
func echoing(transport.Link) jsonrpc.Handler { return handler(echo) }

// recorded is an echoing server that tells how its links end.
type recorded struct{ ended chan error }

func newRecorded() *recorded { return &recorded{make(chan error, 100)} }

func (r *recorded) Bind(link transport.Link) jsonrpc.Handler {
	link.Go(func(ctx context.Context) {
		<-ctx.Done()
		r.ended <- context.Cause(ctx)
	})
	return handler(echo)
}
