package ws_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/memnet"
	"github.com/dovetail-go/dovetail/transport/httptransport"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/transporttest"
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
type network struct{ *memnet.Network }

// newNetwork serves a handler on a network until the test ends.
func newNetwork(t *testing.T, handler http.Handler) *network {
	t.Helper()
	n := &network{memnet.New()}
	var requests sync.WaitGroup // Serve does not wait for requests that have opened a WebSocket
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
		if endpoint, ok := handler.(httptransport.Endpoint); ok {
			endpoint.Close()
		}
		srv.Close()
		<-done
		requests.Wait()
	})
	return n
}

// client is an HTTP client of the network.
func (n *network) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.DialContext}}
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

func (handler) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

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

// recorded is an echoing server that records how its links end.
type recorded struct{ ended chan error }

func newRecorded() *recorded { return &recorded{make(chan error, 100)} }

func (r *recorded) Bind(link transport.Link) jsonrpc.Handler {
	link.Go(func(ctx context.Context) {
		<-ctx.Done()
		r.ended <- context.Cause(ctx)
	})
	return handler(echo)
}

func TestMain(m *testing.M) { leaktest.Main(m) }

// A rawServer accepts WebSockets and leaves the rest to the test.
type rawServer struct {
	head string // of the answer to the handshake, with %s for the accepted key; "" means a good one
	then func(conn net.Conn)
}

const goodHead = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"

func (s *rawServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	head := s.head
	if head == "" {
		head = goodHead
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, head, base64.StdEncoding.EncodeToString(sum[:]))
	if s.then != nil {
		s.then(conn)
		return
	}
	readOn(in.Reader)
}

// readOn reads to the end and sends nothing.
func readOn(in *bufio.Reader) { io.Copy(io.Discard, in) }

// silentServer accepts WebSockets and sends only the given bytes.
func silentServer(then func(conn net.Conn)) http.Handler { return &rawServer{then: then} }

// answerCall waits for a short message and sends something. It disconnects then, or when
// the client does.
func answerCall(sent []byte, hangUp bool) func(net.Conn) {
	return func(conn net.Conn) {
		var head [2]byte
		io.ReadFull(conn, head[:])
		io.CopyN(io.Discard, conn, int64(head[1]&0x7f)+4)
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(io.Discard, conn)
		}()
		conn.Write(sent)
		if !hangUp {
			<-done
		}
	}
}

func TestTransport(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		return ws.Dial(serve(t, server, nil), nil)
	})
}

func TestTransportEncrypted(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		endpoint := ws.Handler(server, nil)
		srv := httptest.NewTLSServer(endpoint)
		t.Cleanup(func() {
			endpoint.Close()
			srv.Close()
		})
		return ws.Dial(srv.URL, &ws.DialOptions{HTTPClient: srv.Client()})
	})
}

// An http.Client that uses HTTP/2 with the same server works: WebSockets use HTTP/1.1.
func TestDialBesideHTTP2(t *testing.T) {
	endpoint := ws.Handler(binder(echoing), nil)
	defer endpoint.Close()
	srv := httptest.NewUnstartedServer(endpoint)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	resp, err := client.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Errorf("the server speaks %s", resp.Proto)
	}
	conn, err := ws.Dial(srv.URL, &ws.DialOptions{HTTPClient: client}).Dial(t.Context(), handler(refuse))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
