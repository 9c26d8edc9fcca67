package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// refuse answers what is not a message.
func (r *Route) refuse(err error) {
	resp := r.refusal(err)
	if resp == nil {
		return
	}
	reply := r.d.reply()
	reply.Buf = appendErrorResponse(reply.Buf, resp.ID, resp.Error)
	r.writeAnswer(reply.Buf)
	r.d.release(reply)
}

// refusal counts and reports what is not a message, and returns the answer to
// it: nil where this side does not answer such things, and for what was meant
// as a response, since two peers could refuse each other's refusals for ever.
func (r *Route) refusal(err error) *Response {
	r.d.malformed.Add(1)
	r.d.report(err)
	bad, ok := errors.AsType[*DecodeError](err)
	switch {
	case ok && bad.Response:
		// Who waits for it is told now: nothing better will come.
		r.d.state.deliver(&Response{ID: bad.ID, malformed: fmt.Errorf("malformed answer: %s", bad.Err.Message)})
		return nil
	case r.d.opts.SkipMalformed:
		return nil
	case ok:
		return &Response{ID: bad.ID, Error: bad.Err}
	}
	return &Response{Error: errorToSend(err)}
}

// dispatch takes one message, and returns the call that is to run now.
func (r *Route) dispatch(msg Message, b *batch) *incomingCall {
	switch msg := msg.(type) {
	case *Response:
		if !r.d.state.deliver(msg) {
			r.d.malformed.Add(1) // late or never asked for
		}
	case *Request:
		if msg.IsNotification() {
			r.notified(msg)
			return nil
		}
		return r.accept(msg, b)
	}
	return nil
}

// notified hands a notification over, and says whether it was only borrowed. It
// guards the read loop against a handler that panics.
func (r *Route) notified(note *Request) (borrowed bool) {
	defer func() {
		if p := recover(); p != nil {
			r.d.report(fmt.Errorf("jsonrpc: panic on %s: %v", note.Method, p))
		}
	}()
	if b, ok := r.d.handler.(Borrower); ok && b.Borrow(r.peer, note) {
		return true
	}
	r.d.handler.Notified(r.peer, note)
	return false
}

// accept takes a call of the peer in, or refuses it. It returns the call if it is to run now.
func (r *Route) accept(req *Request, b *batch) *incomingCall {
	limit := r.d.opts.MaxInFlight
	p, ok := r.d.handler.(Preempter)
	preempts := ok && p.Preempts(req)
	if preempts {
		limit = math.MaxInt // it has ended before the next message is read
	}
	ctx, cancel := context.WithCancelCause(&r.calls)
	call := &incomingCall{route: r, req: req, ctx: ctx, cancel: cancel, batch: b}
	switch r.d.state.admit(call, limit) {
	case duplicate:
		r.refuseCall(call, &Error{Code: InvalidRequest, Message: fmt.Sprintf("id %s is in use by a call that still runs", req.ID)})
	case tooMany:
		r.refuseCall(call, &Error{Code: Busy, Message: fmt.Sprintf("busy: at most %d calls run at once", r.d.opts.MaxInFlight)})
	case tooLate:
		call.cancel(nil)
		r.sendAnswer(call, nil)
	case admitted:
		if preempts {
			r.serve(call)
			return nil
		}
		return call
	}
	return nil
}

func (r *Route) refuseCall(call *incomingCall, e *Error) {
	call.cancel(nil)
	reply := r.d.reply()
	reply.Buf = appendErrorResponse(reply.Buf, call.req.ID, e)
	r.sendAnswer(call, reply.Buf)
	r.d.release(reply)
}

func (c *incomingCall) perform() { c.route.serve(c) }

// serve runs one call and answers it, unless it is cancelled meanwhile.
func (r *Route) serve(call *incomingCall) {
	reply := r.d.reply()
	exited := true
	defer func() {
		if exited { // as t.FailNow has a handler do
			reply.Buf = appendErrorResponse(reply.Buf[:0], call.req.ID, errorToSend(errExited))
			r.conclude(call, reply)
		}
	}()
	err := answer(call.ctx, r.d.opts.Admit, r.d.handler, r.peer, call.req, reply)
	exited = false
	if p, ok := errors.AsType[*panicError](err); ok {
		r.d.report(p)
	}
	r.conclude(call, reply)
}

var errExited = errors.New("jsonrpc: the handler has ended its goroutine")

// conclude answers a call that has run.
func (r *Route) conclude(call *incomingCall, reply *Reply) {
	defer r.d.state.finishCall()
	call.cancel(nil)
	if r.d.state.settle(call) {
		r.sendAnswer(call, reply.Buf)
	} else {
		r.sendAnswer(call, nil)
	}
	r.d.release(reply)
}

// sendAnswer sends an answer; nil is that of a cancelled call, which has none.
func (r *Route) sendAnswer(call *incomingCall, msg []byte) {
	if call.batch != nil {
		r.answerInBatch(call.batch, msg)
		return
	}
	r.writeAnswer(msg)
}

// Cancel ends a running call of the peer; its reply is dropped.
func (r *Route) Cancel(id ID) {
	if call := r.d.state.cancel(id); call != nil {
		call.cancel(ErrCancelled)
	}
}
