package jsonrpc

import (
	"context"
)

// An Outlet takes what leaves by one [Route]. Its methods may be called
// concurrently and copy what they keep.
type Outlet interface {
	// Write takes a notification or a call of this side. It may wait as long as
	// ctx allows. When it fails the message counts as not sent, unless the error
	// is a *[CallError]: its Delivery and Err are what Call and Notify fail with.
	Write(ctx context.Context, msg []byte) error
	// Answer takes the answer to a call, or the array of answers to a batch, that
	// was received by the route, once; nil when there will be none, because the call
	// was cancelled or the dispatcher is closed.
	Answer(msg []byte)
}

// A Route is one way to the peer and back. As a [Peer] it sends by its outlet;
// what it receives is answered there. The answer to an own call may come back by
// any route of the dispatcher.
type Route struct {
	d        *Dispatcher
	out      Outlet
	peer     Peer          // the route, or the connection that it is
	calls    valuedContext // the parent of the contexts of calls
	recycler Recycler      // takes frames back; nil if nobody does
}

var _ Peer = (*Route)(nil)

// Route returns a way to the peer whose messages leave by out. The contexts of
// calls that are received by it have the values of ctx, but not its end.
func (d *Dispatcher) Route(ctx context.Context, out Outlet) *Route {
	r := &Route{d: d, out: out, calls: valuedContext{d.ctx, ctx}}
	r.peer = r
	return r
}

// Values is the context that the route was made with, nil if without.
func (r *Route) Values() context.Context { return r.calls.values }

// Outlet is where the route leads.
func (r *Route) Outlet() Outlet { return r.out }

// Receive takes one frame: a message or, where the handler's protocol has them, a
// batch. What is neither is answered, or skipped with [Options.SkipMalformed]. It
// returns when a notification has been handed over, and when a call has begun.
func (r *Route) Receive(data []byte) {
	if call, _ := r.receive(data); call != nil {
		r.d.run(call)
	}
}

// receive is Receive. It says whether the frame was only borrowed: then nobody has
// kept anything of it.
func (r *Route) receive(data []byte) (call *incomingCall, borrowed bool) {
	r.d.trace(false, data)
	if IsBatch(data) {
		r.receiveBatch(data)
		return nil, false
	}
	msg, err := Decode(data)
	if err != nil {
		r.refuse(err)
		return nil, false
	}
	r.lend(msg, data)
	return r.take(msg)
}

// lend has the frame of a large answer go back when who has asked releases it.
func (r *Route) lend(msg Message, frame []byte) {
	if r.recycler == nil || len(frame) < lentFrom {
		return
	}
	if resp, ok := msg.(*Response); ok {
		resp.Lend(func() { r.recycler.Recycle(frame) })
	}
}

// Dispatch takes one message that has been decoded, as Receive does. It says whether
// that was a notification which the handler has only borrowed (see [Borrower]): it must
// not be used any more then, and nobody has kept anything of its text.
func (r *Route) Dispatch(msg Message) (borrowed bool) {
	call, borrowed := r.take(msg)
	if call != nil {
		r.d.run(call)
	}
	return borrowed
}

// take is Dispatch, but for the call that is to run now.
func (r *Route) take(msg Message) (call *incomingCall, borrowed bool) {
	if note, ok := msg.(*Request); ok && note.IsNotification() {
		if borrowed = r.notified(note); borrowed {
			note.release()
		}
		return nil, borrowed
	}
	return r.dispatch(msg, nil), false
}

// write sends what is no answer.
func (r *Route) write(ctx context.Context, msg []byte) error {
	if r.d.isClosing() {
		return ErrClosed
	}
	r.d.trace(true, msg)
	return r.out.Write(ctx, msg)
}

// writeAnswer sends an answer, unless the handler gave it only because it was cut
// off: then there is none.
func (r *Route) writeAnswer(msg []byte) {
	if r.d.isClosing() {
		msg = nil
	}
	if msg != nil {
		r.d.trace(true, msg)
	}
	r.out.Answer(msg)
}

// A valuedContext has the life of one context and the values of two.
type valuedContext struct {
	context.Context
	values context.Context // nil: of one
}

// Value asks the context that lives first: among its values is how it ends.
func (c *valuedContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil || c.values == nil {
		return v
	}
	return c.values.Value(key)
}
