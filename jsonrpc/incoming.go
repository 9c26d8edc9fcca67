package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// buffers hold messages while they are encoded and written.
var buffers bufpool.Pool

// A Replier sends the replies to messages that [Conn.Receive] has received, such as the calls
// of one HTTP request.
type Replier interface {
	// Reply sends the response to a call, or the array of responses to a batch. It is called
	// once for each call outside a batch and once for each batch with a call. msg is nil if
	// there is no response, because the call was cancelled or the connection is closed.
	// Reply must not retain msg.
	Reply(msg []byte)
}

// Receive handles one frame that was not read from the stream: a message or a batch. The
// handler gets from as its peer, and the contexts of calls have the values of ctx. Receive
// returns after the handler has handled a notification, and after a call has begun, so the
// messages of one goroutine are handled in order. Receive may be called concurrently.
func (c *Conn) Receive(ctx context.Context, from Peer, to Replier, frame []byte) {
	charge := chargeOf(to)
	defer charge.Release()
	c.receive(origin{values: ctx, from: from, to: to, charge: charge}, frame)
}

// ReceiveMessage is [Conn.Receive] for a message that was decoded with [Decode].
func (c *Conn) ReceiveMessage(ctx context.Context, from Peer, to Replier, msg Message) {
	charge := chargeOf(to)
	defer charge.Release()
	if c.dispatch(origin{values: ctx, from: from, to: to, charge: charge}, msg, nil) {
		if r, ok := to.(bufpool.Recycler); ok {
			r.Recycle(nil)
		}
	}
}

// chargeOf returns the charge of a message that did not come from the stream.
func chargeOf(to Replier) *bufpool.Charge {
	if c, ok := to.(bufpool.Charger); ok {
		return c.TakeCharge()
	}
	return nil
}

// An origin describes where a message came from.
type origin struct {
	values context.Context // has the values for the contexts of calls
	from   Peer            // for the handler
	to     Replier         // gets the replies
	charge *bufpool.Charge // of the frame; nil for a small one
}

// streamReplier writes replies to the stream.
type streamReplier struct{ *Conn }

func (s streamReplier) Reply(msg []byte) {
	if msg != nil {
		_ = s.stream.Write(s.ctx, msg) // it fails only if the connection ends, which Run reports
	}
}

// receive handles one frame. It reports whether the memory of the frame may be reused.
func (c *Conn) receive(o origin, frame []byte) (unused bool) {
	c.Trace(false, frame)
	if isBatch(frame) {
		c.receiveBatch(o, frame)
		return false
	}
	msg, err := Decode(frame)
	if err != nil {
		c.refuse(o.to, err)
		return false
	}
	return c.dispatch(o, msg, nil)
}

// dispatch handles one message. It reports whether the memory of the message may be reused.
func (c *Conn) dispatch(o origin, msg Message, b *batch) (unused bool) {
	switch msg := msg.(type) {
	case *Response:
		if !c.calls.deliver(msg, o.charge) {
			c.report(&UnexpectedResponseError{ID: msg.ID, Late: c.calls.hasSent(msg.ID), Err: msg.Error})
		}
	case *Request:
		if msg.IsNotification() {
			return c.notify(o.from, msg)
		}
		c.begin(o, msg, b)
	}
	return false
}

// notify passes a notification to the handler. It reports whether the handler has
// borrowed the notification. A panic of the handler is
// reported and does not end the read loop.
func (c *Conn) notify(from Peer, notification *Request) (borrowed bool) {
	defer func() {
		if p := recover(); p != nil {
			c.report(&panicError{notification.Method, p})
		}
	}()
	if h, ok := c.handler.(borrower); ok && h.Borrow(notification) {
		notification.recycle()
		return true
	}
	c.handler.HandleNotification(from, notification)
	return false
}

// refuse answers a malformed message.
func (c *Conn) refuse(to Replier, err error) {
	if resp := c.refusal(err); resp != nil {
		c.reply(to, appendErrorResponse(nil, resp.ID, resp.Error))
	}
}

// refusal reports a malformed message and returns the response to it. It returns nil with
// [Options.SkipMalformed], and for a malformed response.
func (c *Conn) refusal(err error) *Response {
	c.report(err)
	bad, ok := errors.AsType[*DecodeError](err)
	switch {
	case ok && bad.Response:
		// The call fails now, since no other response will come.
		c.calls.deliver(&Response{ID: bad.ID, malformed: bad}, nil)
		return nil
	case bad.Err.Code == Busy && bad.ID.IsZero():
		return nil // a notification, or a call whose id is unknown
	case c.opts.SkipMalformed && bad.Err.Code != Busy:
		return nil
	}
	return &Response{ID: bad.ID, Error: bad.Err}
}

// begin starts a call of the peer, or refuses it.
func (c *Conn) begin(o origin, req *Request, b *batch) {
	limit := c.opts.MaxInFlight
	h, ok := c.handler.(SessionHandler)
	preempts := ok && h.Preempts(req)
	if preempts {
		limit = math.MaxInt // the call is complete before the next message is read
	}
	call := &incomingCall{origin: o, conn: c, req: req, batch: b}
	call.parent = callContext{c.ctx, o.values, call}
	call.ctx, call.cancel = context.WithCancelCause(&call.parent)
	switch err := c.beginCall(call, limit, preempts); {
	case err == nil && preempts:
		c.serve(call)
	case err == nil:
		c.start(call)
	case call.overLimit:
		c.refuseCall(call, &Error{Code: Busy, Message: err.Error()})
	case errors.Is(err, errDuplicateID):
		c.refuseCall(call, &Error{Code: InvalidRequest, Message: fmt.Sprintf("id %s is in use by a call that still runs", req.ID)})
	case errors.Is(err, errTooMany):
		c.refuseCall(call, &Error{Code: Busy, Message: fmt.Sprintf("busy: at most %d calls run at once", c.opts.MaxInFlight)})
	default:
		call.cancel(nil)
		c.replyTo(call, nil)
	}
}

// beginCall adds a call of the peer, within the limits of the connection and, unless the call
// preempts others, of [Options].Limiter.
func (c *Conn) beginCall(call *incomingCall, limit int, preempts bool) error {
	if limiter := c.opts.Limiter; limiter != nil && !preempts {
		if err := limiter.Begin(call.req.Method); err != nil {
			call.overLimit = true
			return err
		}
		call.limiter = limiter
	}
	err := c.calls.begin(call, limit)
	if err != nil {
		call.endLimit()
		return err
	}
	call.charge.Retain()
	return nil
}

func (c *Conn) refuseCall(call *incomingCall, e *Error) {
	call.cancel(nil)
	c.replyTo(call, appendErrorResponse(nil, call.req.ID, e))
}

const (
	// maxIdleWorkers is how many goroutines of a connection may wait for another call.
	maxIdleWorkers = 4
	// workerLinger is how long each of them waits. It is short, so that an idle session has
	// no waiting goroutines.
	workerLinger = 10 * time.Millisecond
)

// start runs a call on an idle worker if there is one, and on a new one otherwise. The stack
// of an idle worker has grown already; growing a new one can take longer than the call.
func (c *Conn) start(call *incomingCall) {
	select {
	case c.calls.workers <- call:
	default:
		c.calls.startGoroutine()
		go c.work(call)
	}
}

// work runs calls until there is none for workerLinger.
func (c *Conn) work(call *incomingCall) {
	defer c.calls.endGoroutine()
	timer := time.NewTimer(workerLinger)
	defer timer.Stop()
	for call != nil {
		c.serve(call)
		timer.Reset(workerLinger)
		call = c.nextCall(timer.C)
	}
}

// nextCall waits for another call. It returns nil if the worker must end.
func (c *Conn) nextCall(timeout <-chan time.Time) *incomingCall {
	defer c.idle.Add(-1)
	if c.idle.Add(1) > maxIdleWorkers {
		return nil
	}
	select {
	case call := <-c.calls.workers:
		return call
	case <-timeout:
		return nil
	case <-c.input.Done():
		return nil
	}
}

// serve runs one call, and answers it unless it was cancelled.
func (c *Conn) serve(call *incomingCall) {
	buffer := buffers.Get()
	call.reply.Buf = buffer.Bytes
	err := answer(call.ctx, c.opts.Authorize, c.handler, call.from, call.req, &call.reply)
	if p, ok := errors.AsType[*panicError](err); ok {
		c.report(p)
	}
	call.cancel(nil)
	defer c.calls.endReply()
	defer call.charge.Release()
	call.endLimit() // before the reply, as complete
	if c.calls.complete(call) {
		c.replyTo(call, call.reply.Buf)
	} else {
		c.replyTo(call, nil)
	}
	buffer.Bytes = call.reply.Buf
	buffer.Free()
}

// replyTo sends the response to a call, nil if there is none.
func (c *Conn) replyTo(call *incomingCall, msg []byte) {
	if call.batch != nil {
		c.addToBatch(call.batch, call.to, msg)
	} else {
		c.reply(call.to, msg)
	}
}

// reply sends a response or an array of responses. A closed connection sends nothing, since
// its handlers were cancelled.
func (c *Conn) reply(to Replier, msg []byte) {
	if c.isClosing() {
		msg = nil
	}
	if msg != nil {
		c.Trace(true, msg)
	}
	to.Reply(msg)
}

// Cancel cancels the context of the peer's call with that id, with the cause [ErrCancelled],
// and drops its reply. It has no effect if no such call runs.
func (c *Conn) Cancel(id ID) {
	if call := c.calls.cancel(id); call != nil {
		call.cancel(ErrCancelled)
	}
}

// CancelOthers cancels the contexts of all running calls of the peer with a cause, except for the
// call whose context is ctx. The calls are answered when their handlers return.
func (c *Conn) CancelOthers(ctx context.Context, cause error) {
	call, _ := ctx.Value(callKey{}).(*incomingCall)
	for _, other := range c.calls.others(call) {
		other.cancel(cause)
	}
}

// Answer calls a handler for one call, and appends the complete response to reply.Buf. It is
// for transports that need no [Conn], such as HTTP without sessions. Answer returns the error
// of the handler, or an error if the handler panics or writes no result. An *[Error] is part
// of the response; any other error becomes an internal error without details.
func Answer(ctx context.Context, handler Handler, from Peer, req *Request, reply *Reply) error {
	return answer(ctx, nil, handler, from, req, reply)
}

// answer is [Answer], and calls authorize before the handler if authorize is not nil.
func answer(ctx context.Context, authorize func(context.Context, *Request) error, handler Handler, from Peer, req *Request, reply *Reply) (err error) {
	start := len(reply.Buf)
	reply.Buf = appendResultStart(reply.Buf, req.ID)
	empty := len(reply.Buf)
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{req.Method, p}
		}
		if err == nil && len(reply.Buf) <= empty {
			err = errNoResult
		}
		if err != nil {
			reply.Buf = appendErrorResponse(reply.Buf[:start], req.ID, errorToSend(err))
		} else {
			reply.Buf = append(reply.Buf, '}')
		}
	}()
	if authorize != nil {
		if err := authorize(ctx, req); err != nil {
			return err
		}
	}
	return handler.Handle(ctx, from, req, reply)
}

var errNoResult = errors.New("jsonrpc: the handler wrote no result")

// A panicError is a panic of a handler.
type panicError struct {
	method string
	value  any
}

func (e *panicError) Error() string {
	return fmt.Sprintf("jsonrpc: panic on %s: %v", jsonscan.Quote(e.method), e.value)
}

// errorToSend returns the *[Error] that err is or wraps, and an internal error without
// details if there is none.
func errorToSend(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: InternalError, Message: "internal error"}
}
