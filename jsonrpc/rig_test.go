package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A handler is a jsonrpc.Handler made of functions. Without handle it refuses calls; without
// notified it drops notifications.
type handler struct {
	handle   func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error
	notified func(from jsonrpc.Peer, notification *jsonrpc.Request)
}

func (h handler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if h.handle == nil {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "no such method"}
	}
	return h.handle(ctx, from, req, reply)
}

func (h handler) HandleNotification(from jsonrpc.Peer, notification *jsonrpc.Request) {
	if h.notified != nil {
		h.notified(from, notification)
	}
}

// session is a handler that is also a SessionHandler.
type session struct {
	handler
	preempts []string // methods; "*" for all
	accept   func(batch []jsonrpc.Message) error
	closed   *atomic.Int32 // counts HandleClose, unless nil
}

func (h session) Preempts(req *jsonrpc.Request) bool {
	return slices.Contains(h.preempts, req.Method) || slices.Contains(h.preempts, "*")
}

func (h session) AcceptBatch(batch []jsonrpc.Message) error {
	if h.accept == nil {
		return nil
	}
	return h.accept(batch)
}

func (h session) HandleClose() {
	if h.closed != nil {
		h.closed.Add(1)
	}
}

// notifier is a handler that is also a CancelNotifier.
type notifier struct {
	handler
	cancelled func(to jsonrpc.Peer, id jsonrpc.ID, cause error)
}

func (h notifier) NotifyCancelled(to jsonrpc.Peer, id jsonrpc.ID, cause error) {
	h.cancelled(to, id, cause)
}

// A replier records the replies, "" for a call without one.
type replier struct{ replies []string }

func (r *replier) Reply(msg []byte) { r.replies = append(r.replies, string(msg)) }

// stringID returns the id that is the string s.
func stringID(s string) jsonrpc.ID {
	id, err := jsonrpc.ParseID([]byte(strconv.Quote(s)))
	if err != nil {
		panic(err)
	}
	return id
}

// echo answers every call with its params.
func echo(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return reply.Write(jsonrpc.Raw(req.Params))
}

// waiting blocks in "wait" until the call is cancelled, and echoes other calls.
func waiting(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == "wait" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return echo(ctx, from, req, reply)
}

// reports are the errors that Options.Malformed got.
type reports []string

func (r *reports) add(err error) { *r = append(*r, err.Error()) }

// want compares the reports, each of which must contain its part.
func (r *reports) want(t testing.TB, parts ...string) {
	t.Helper()
	if len(*r) != len(parts) {
		t.Errorf("%d reports, want %d: %q", len(*r), len(parts), *r)
		return
	}
	for i, part := range parts {
		if !strings.Contains((*r)[i], part) {
			t.Errorf("report %d is %q, want %q", i, (*r)[i], part)
		}
	}
}

// A rig is a connection to a peer that is the test.
type rig struct {
	t    testing.TB
	conn *jsonrpc.Conn
	peer jsonrpc.Stream
	ran  chan error // gets the result of Run
}

// newRig runs a connection over a pipe.
func newRig(t testing.TB, h jsonrpc.Handler, opts *jsonrpc.Options) *rig {
	t.Helper()
	near, far := transport.NewPipe()
	r := &rig{t: t, peer: far, ran: make(chan error, 1), conn: newConn(near, h, opts)}
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

// expect reads the next frames and compares them.
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

// finish waits until the connection is idle and closes the peer. The test fails if the
// connection has sent more frames, or if Run returns an error.
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

// virtual runs a test with virtual time, which fails on a deadlock.
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

// call, note, result and failure return frames.
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

// refusal returns the response to a message without a readable id.
func refusal(code jsonrpc.Code, message string) string {
	return strings.Replace(failure(0, code, message), `"id":0,`, "", 1)
}

func newConn(stream jsonrpc.Stream, h jsonrpc.Handler, opts *jsonrpc.Options) *jsonrpc.Conn {
	return jsonrpc.NewConn(stream, func(*jsonrpc.Conn) jsonrpc.Handler { return h }, opts)
}

// connect runs two connections with each other.
func connect(t testing.TB, clientHandler, serverHandler jsonrpc.Handler) (client, server *jsonrpc.Conn) {
	t.Helper()
	a, b := transport.NewPipe()
	return run(t, a, clientHandler), run(t, b, serverHandler)
}

// run runs a connection until the test ends.
func run(t testing.TB, stream jsonrpc.Stream, h jsonrpc.Handler) *jsonrpc.Conn {
	t.Helper()
	conn := newConn(stream, h, nil)
	go conn.Run(context.Background())
	t.Cleanup(func() {
		conn.Close()
		<-conn.Done()
	})
	return conn
}
