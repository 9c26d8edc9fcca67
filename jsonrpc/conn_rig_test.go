package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A handler is put together from functions; nil refuses calls and drops notifications.
type handler struct {
	handle   func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error
	notified func(from jsonrpc.Peer, note *jsonrpc.Request)
}

func (h handler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if h.handle == nil {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "no such method"}
	}
	return h.handle(ctx, from, req, reply)
}

func (h handler) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
	if h.notified != nil {
		h.notified(from, note)
	}
}

// preempter is a handler that answers calls of some methods on the read loop.
type preempter struct {
	handler
	methods []string
}

func (h preempter) Preempts(req *jsonrpc.Request) bool { return slices.Contains(h.methods, req.Method) }

// abandoner is a handler that is told of calls that nobody waits for any more.
type abandoner struct {
	handler
	abandoned func(from jsonrpc.Peer, id jsonrpc.ID, cause error)
}

func (h abandoner) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	h.abandoned(from, id, cause)
}

// batcher is a handler of a protocol with batches.
type batcher struct {
	handler
	accept func(batch []jsonrpc.Message) error
}

func (h batcher) AcceptBatch(batch []jsonrpc.Message) error { return h.accept(batch) }

// echo answers every call with its params.
func echo(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return reply.Write(jsonrpc.Raw(req.Params))
}

// waiting handles "wait" until it is cancelled and echoes everything else.
func waiting(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == "wait" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return echo(ctx, from, req, reply)
}

// A rig is a connection whose peer the test plays, frame by frame.
type rig struct {
	t    testing.TB
	conn *jsonrpc.Conn
	peer jsonrpc.Stream
	ran  chan error // what Run returned
}

// newRig runs a connection with h at one end of a pair of streams in memory.
func newRig(t testing.TB, h jsonrpc.Handler, opts *jsonrpc.Options) *rig {
	t.Helper()
	near, far := transport.Streams()
	r := &rig{t: t, peer: far, ran: make(chan error, 1)}
	r.conn = jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return h }, opts)
	go func() { r.ran <- r.conn.Run(context.Background()) }()
	t.Cleanup(func() {
		r.conn.Close()
		<-r.conn.Done()
	})
	return r
}

// send writes frames to the connection.
func (r *rig) send(frames ...string) {
	r.t.Helper()
	for _, frame := range frames {
		if err := r.peer.Write(context.Background(), []byte(frame)); err != nil {
			r.t.Errorf("sending %.80s: %v", frame, err)
		}
	}
}

// expect reads as many frames and compares them.
func (r *rig) expect(frames ...string) {
	r.t.Helper()
	for _, want := range frames {
		got, err := r.peer.Read()
		if err != nil {
			r.t.Fatalf("the connection sent nothing (%v), want %s", err, want)
		}
		if string(got) != want {
			r.t.Errorf("the connection sent\n%s, want\n%s", got, want)
		}
	}
}

// finish lets the connection come to rest, closes its peer, and expects that it
// sent nothing more and ended in peace.
func (r *rig) finish() {
	r.t.Helper()
	synctest.Wait()
	r.peer.Close()
	if err := <-r.ran; err != nil {
		r.t.Errorf("Run returned %v, want nil", err)
	}
	for {
		frame, err := r.peer.Read()
		if err != nil {
			return
		}
		r.t.Errorf("the connection sent unexpectedly\n%s", frame)
	}
}

// virtual runs a test in a bubble where time is virtual and nobody may hang.
func virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// wantFailure checks that err is a CallError with that delivery and cause.
func wantFailure(t testing.TB, err error, delivery jsonrpc.Delivery, cause error) {
	t.Helper()
	var failed *jsonrpc.CallError
	switch {
	case !errors.As(err, &failed):
		t.Errorf("the error is %v (%T), want a CallError", err, err)
	case failed.Delivery != delivery:
		t.Errorf("the error is %v, want delivery %q", err, delivery)
	case cause != nil && !errors.Is(err, cause):
		t.Errorf("the error is %v, want %v", err, cause)
	}
}

// call, note, result and failure write the frames of the tests.
func call(id any, method, params string) string {
	if params == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q}`, id, method)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params)
}

func note(method, params string) string {
	return strings.Replace(call(0, method, params), `"id":0,`, "", 1)
}

func result(id any, value string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, value)
}

func failure(id any, code jsonrpc.Code, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"error":{"code":%d,"message":%q}}`, id, code, message)
}

// refusal is the answer to what has no readable id.
func refusal(code jsonrpc.Code, message string) string {
	return strings.Replace(failure(0, code, message), `"id":0,`, "", 1)
}

// connect runs two connections with each other.
func connect(t testing.TB, clientHandler, serverHandler jsonrpc.Handler) (client, server *jsonrpc.Conn) {
	t.Helper()
	a, b := transport.Streams()
	return run(t, a, clientHandler), run(t, b, serverHandler)
}

// run runs a connection until the test ends.
func run(t testing.TB, stream jsonrpc.Stream, h jsonrpc.Handler) *jsonrpc.Conn {
	t.Helper()
	conn := jsonrpc.NewConn(stream, func(*jsonrpc.Conn) jsonrpc.Handler { return h }, nil)
	go conn.Run(context.Background())
	t.Cleanup(func() {
		conn.Close()
		<-conn.Done()
	})
	return conn
}
