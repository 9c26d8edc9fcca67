package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// eachEra runs a test or benchmark with both eras.
func eachEra[T testing.TB](tb interface {
	Run(string, func(T)) bool
}, run func(T, client.Era)) {
	if transporttests.CarriesModern() {
		tb.Run("modern", func(t T) { run(t, client.Modern) })
	}
	tb.Run("legacy", func(t T) { run(t, client.Legacy) })
}

// connect opens a session that is closed when the test ends.
func connect(tb testing.TB, dialer transport.Dialer, opts client.Options) *client.Session {
	tb.Helper()
	session, err := client.Connect(context.Background(), dialer, &opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { session.Close() })
	return session
}

func newServer(opts *server.Options) *server.Server {
	var o server.Options
	if opts != nil {
		o = *opts
	}
	o.Logger = slog.New(slog.DiscardHandler)
	return server.New(mcp.Implementation{Name: "test", Version: "1"}, &o)
}

type noServer = struct{}

// offersAll are the capabilities of a server that reports every change.
var offersAll = mcp.ServerCapabilities{
	Tools:     &mcp.ToolsCapability{ListChanged: true},
	Prompts:   &mcp.PromptsCapability{ListChanged: true},
	Resources: &mcp.ResourcesCapability{ListChanged: true, Subscribe: true},
	Logging:   &mcp.EmptyObject{},
}

// A breaker connects in memory and can cut its connections, like a server that crashes.
type breaker struct {
	server transport.Binder
	refuse atomic.Bool
	dials  atomic.Int32

	mu   sync.Mutex
	open []*jsonrpc.Conn
}

var errRefused = errors.New("nobody listens")

// Dial connects, unless it is to refuse.
func (b *breaker) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	b.dials.Add(1)
	if b.refuse.Load() {
		return nil, errRefused
	}
	return transport.Pipe(b).Dial(ctx, handler)
}

// Bind remembers the link.
func (b *breaker) Bind(link transport.Link) jsonrpc.Handler {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, link.Peer.(*jsonrpc.Conn))
	return b.server.Bind(link)
}

func (b *breaker) cut() {
	b.mu.Lock()
	open := b.open
	b.open = nil
	b.mu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
}

// A script is a server that returns the frames to send for each message of the client.
type script func(req *jsonrpc.Request) []string

// Dial connects to the script.
func (s script) Dial(_ context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	near, far := transport.NewPipe()
	conn := &scriptConn{ended: make(chan struct{})}
	conn.Conn = jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return handler },
		&jsonrpc.Options{SkipMalformed: true, Drain: -1})
	go conn.Run(context.Background())
	go func() {
		defer close(conn.ended)
		s.play(far)
	}()
	return conn, nil
}

func (s script) play(stream jsonrpc.Stream) {
	defer stream.Close()
	for {
		data, err := stream.Read()
		if err != nil {
			return
		}
		msg, err := jsonrpc.Decode(data)
		if err != nil {
			panic(fmt.Sprintf("the client sent no message: %s", data))
		}
		req, ok := msg.(*jsonrpc.Request)
		if !ok {
			req = &jsonrpc.Request{Method: "response", Params: data}
		}
		for _, frame := range s.frames(req) {
			if frame == hangUp {
				return
			}
			if stream.Write(context.Background(), []byte(frame)) != nil {
				return
			}
		}
	}
}

// hangUp is a frame that ends the connection.
const hangUp = "hang up"

// frames answers the opening of a session itself, and leaves the rest to s.
func (s script) frames(req *jsonrpc.Request) []string {
	const capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`
	if frames := s(req); frames != nil {
		return frames
	}
	switch req.Method {
	case mcp.MethodDiscover:
		return []string{result(req, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+capabilities+
			`,"ttlMs":0,"cacheScope":"private"}`)}
	case mcp.MethodInitialize:
		return []string{result(req, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"script","version":"1"},"capabilities":`+capabilities+`}`)}
	}
	if req.IsNotification() {
		return nil
	}
	return []string{failure(req, jsonrpc.MethodNotFound, "not in the script")}
}

type scriptConn struct {
	*jsonrpc.Conn
	ended chan struct{}
}

// Close ends both ends.
func (c *scriptConn) Close() error {
	err := c.Conn.Close()
	<-c.ended
	return err
}

func result(req *jsonrpc.Request, value string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, value)
}

func failure(req *jsonrpc.Request, code jsonrpc.Code, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, req.ID, code, message)
}

func notification(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
}

// text returns a tool's result with a text.
func text(s string) string {
	return fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, s)
}

// failed returns the local failure of a call and its delivery.
func failed(tb testing.TB, err error, delivery jsonrpc.Delivery) *jsonrpc.CallError {
	tb.Helper()
	var call *jsonrpc.CallError
	if !errors.As(err, &call) {
		tb.Fatalf("the error is %v (%T), want a *jsonrpc.CallError", err, err)
	}
	if call.Delivery != delivery {
		tb.Errorf("delivery of %v is %q, want %q", err, call.Delivery, delivery)
	}
	return call
}

// raw returns JSON for comparison.
func raw(tb testing.TB, v json.Marshaler) string {
	tb.Helper()
	out, err := v.MarshalJSON()
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

// TestMain also runs this binary as the server of the tests that need a process.
func TestMain(m *testing.M) {
	if log := os.Getenv(executionLog); log != "" {
		os.Exit(serveNotary(log))
	}
	transporttests.Main(m)
}
