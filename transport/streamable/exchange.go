package streamable

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// An exchange is one call and its response, and the peer of its handler. The
// response is JSON, unless something precedes the result: then it is a stream.
type exchange struct {
	endpoint *Endpoint
	w        http.ResponseWriter
	takes    accepted
	reply    jsonrpc.Reply

	mu     sync.Mutex
	events *pulse // nil as long as the response is to be JSON
	buf    []byte
	over   bool
}

var _ jsonrpc.Peer = (*exchange)(nil)

var errNoCalls = errors.New("a server of this version does not call its clients")

// Call fails: in the versions that need no session, servers ask by results.
func (x *exchange) Call(_ context.Context, method string, _ jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, &jsonrpc.CallError{Method: method, Delivery: jsonrpc.NotSent, Err: errNoCalls}
}

// Cancel does nothing: a client cancels by hanging up.
func (x *exchange) Cancel(jsonrpc.ID) {}

// Notify sends a notification that precedes the result. A client that takes no
// stream does not get any.
func (x *exchange) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || !x.takes.events {
		return nil
	}
	var err error
	if x.buf, err = jsonrpc.AppendRequest(x.buf[:0], jsonrpc.ID{}, method, params); err != nil {
		return err
	}
	return x.send(ctx, x.buf)
}

func (x *exchange) send(ctx context.Context, msg []byte) error {
	if x.events == nil {
		x.events = startPulse(x.w, &x.endpoint.opts)
	}
	x.endpoint.trace(msg)
	return x.events.send(ctx, sse.Event{Data: jsonscan.Line(msg)})
}

// finish sends the answer, and nothing after it.
func (x *exchange) finish(status int, answer []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if x.events == nil && (x.takes.json || status != http.StatusOK) {
		x.endpoint.trace(answer)
		writeJSON(x.w, status, answer, x.endpoint.opts.WriteTimeout)
		return
	}
	_ = x.send(context.Background(), answer) // a client that is gone has cancelled the call
	x.events.stop()
}

// abandon sends nothing more: nobody is there.
func (x *exchange) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if x.events != nil {
		x.events.stop()
	}
}

func (e *Endpoint) trace(msg []byte) {
	if e.opts.Conn.Trace != nil {
		e.opts.Conn.Trace(true, msg)
	}
}
