package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// receive takes one frame: a message or, where the protocol has them, a batch.
func (c *Conn) receive(data []byte) {
	if c.opts.Trace != nil {
		c.opts.Trace(false, data)
	}
	if IsBatch(data) {
		c.receiveBatch(data)
		return
	}
	msg, err := Decode(data)
	if err != nil {
		c.refuse(err)
		return
	}
	c.dispatch(msg, nil)
}

// refuse answers what is not a message.
func (c *Conn) refuse(err error) {
	resp := c.refusal(err)
	if resp == nil {
		return
	}
	reply := c.reply()
	reply.Buf = appendErrorResponse(reply.Buf, resp.ID, resp.Error)
	c.writeAnswer(reply.Buf)
	c.release(reply)
}

// refusal counts and reports what is not a message, and returns the answer to
// it: nil where this side does not answer such things, and for what was meant
// as a response, since two peers could refuse each other's refusals for ever.
func (c *Conn) refusal(err error) *Response {
	c.malformed.Add(1)
	c.report(err)
	bad, ok := errors.AsType[*DecodeError](err)
	switch {
	case ok && bad.Response:
		// Who waits for it is told now: nothing better will come.
		c.state.deliver(&Response{ID: bad.ID, malformed: fmt.Errorf("malformed answer: %s", bad.Err.Message)})
		return nil
	case c.opts.SkipMalformed:
		return nil
	case ok:
		return &Response{ID: bad.ID, Error: bad.Err}
	}
	return &Response{Error: errorToSend(err)}
}

// report tells who wants to know of something that went wrong and ends nothing.
func (c *Conn) report(err error) {
	if c.opts.Malformed != nil {
		c.opts.Malformed(err)
	}
}

func (c *Conn) dispatch(msg Message, b *batch) {
	switch msg := msg.(type) {
	case *Response:
		if !c.state.deliver(msg) {
			c.malformed.Add(1) // late or never asked for
		}
	case *Request:
		if msg.IsNotification() {
			c.notified(msg)
			return
		}
		c.accept(msg, b)
	}
}

// notified guards the read loop against a handler that panics.
func (c *Conn) notified(note *Request) {
	defer func() {
		if p := recover(); p != nil {
			c.report(fmt.Errorf("jsonrpc: panic on %s: %v", note.Method, p))
		}
	}()
	c.handler.Notified(c, note)
}

// accept starts a call of the peer, or refuses it.
func (c *Conn) accept(req *Request, b *batch) {
	limit := c.opts.MaxInFlight
	p, ok := c.handler.(Preempter)
	preempts := ok && p.Preempts(req)
	if preempts {
		limit = math.MaxInt // it has ended before the next message is read
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	call := &incomingCall{req: req, ctx: ctx, cancel: cancel, batch: b}
	switch c.state.admit(call, limit) {
	case duplicate:
		c.refuseCall(call, &Error{Code: InvalidRequest, Message: fmt.Sprintf("id %s is in use by a call that still runs", req.ID)})
	case tooMany:
		c.refuseCall(call, &Error{Code: Busy, Message: fmt.Sprintf("busy: at most %d calls run at once", c.opts.MaxInFlight)})
	case admitted:
		if preempts {
			c.serve(call)
			return
		}
		go c.serve(call)
	}
}

func (c *Conn) refuseCall(call *incomingCall, e *Error) {
	call.cancel(nil)
	reply := c.reply()
	reply.Buf = appendErrorResponse(reply.Buf, call.req.ID, e)
	c.sendAnswer(call, reply.Buf)
	c.release(reply)
}

// serve runs one call and answers it.
func (c *Conn) serve(call *incomingCall) {
	defer c.state.finishCall()
	reply := c.reply()
	reply.Buf = appendResultStart(reply.Buf, call.req.ID)
	start := len(reply.Buf)
	err := c.handle(call, reply)
	call.cancel(nil)
	c.answer(call, reply, start, err)
	c.release(reply)
}

// handle turns a panic into an error that tells the peer nothing: handlers that
// want more of it recover themselves.
func (c *Conn) handle(call *incomingCall, reply *Reply) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errPanic
			c.report(fmt.Errorf("jsonrpc: panic on %s: %v", call.req.Method, p))
		}
	}()
	return c.handler.Handle(call.ctx, c, call.req, reply)
}

var (
	errPanic    = errors.New("the handler panicked")
	errNoResult = errors.New("the handler gave no result")
)

// answer closes the reply and sends it, unless the call has been cancelled
// meanwhile.
func (c *Conn) answer(call *incomingCall, reply *Reply, start int, err error) {
	if !c.state.settle(call) {
		c.sendAnswer(call, nil)
		return
	}
	if err == nil && len(reply.Buf) <= start {
		err = errNoResult
	}
	if err != nil {
		reply.Buf = appendErrorResponse(reply.Buf[:0], call.req.ID, errorToSend(err))
	} else {
		reply.Buf = append(reply.Buf, '}')
	}
	c.sendAnswer(call, reply.Buf)
}

// sendAnswer sends an answer; nil is that of a cancelled call, which has none.
func (c *Conn) sendAnswer(call *incomingCall, msg []byte) {
	switch {
	case call.batch != nil:
		c.answerInBatch(call.batch, msg)
	case msg != nil:
		c.writeAnswer(msg)
	}
}

// writeAnswer sends what nobody here waits for. It fails only when the connection
// ends, which Run reports.
func (c *Conn) writeAnswer(msg []byte) { _ = c.write(c.ctx, msg) }

// errorToSend masks whatever was not meant for the peer.
func errorToSend(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: InternalError, Message: "internal error"}
}

// Cancel ends a running call of the peer; its reply is dropped.
func (c *Conn) Cancel(id ID) {
	if call := c.state.cancel(id); call != nil {
		call.cancel(ErrCancelled)
	}
}
