package jsonrpc

import (
	"context"

	"github.com/dovetail-go/dovetail/internal/buffer"
)

// A Peer is the other side, as seen from here. Its methods may be called
// concurrently.
type Peer interface {
	// Call sends a request and waits for its answer. The error is an *[Error]
	// when the peer answered with one, a *[CallError] otherwise. Once Call has
	// returned, params are not used any more, and the response is the caller's alone.
	Call(ctx context.Context, method string, params Appender) (*Response, error)

	// Notify sends a notification. Notifications of one goroutine arrive in
	// order, and before the reply to the call that is being handled.
	Notify(ctx context.Context, method string, params Appender) error

	// Cancel ends the context of the peer's own call with that id, if it is
	// still running, and drops its reply.
	Cancel(id ID)
}

// A Handler takes what the peer sends. Its methods are called concurrently.
type Handler interface {
	// Handle answers one call: it appends the result, one JSON value, to
	// reply.Buf, or returns an error. An *[Error] (by errors.As) is sent as it
	// is, any other as a masked internal error. ctx ends when the call is cancelled
	// or the connection ends. Handle may block: it holds up no other message, but
	// need not have a goroutine of its own. HTTP without sessions runs it on that of
	// the request, and other calls may run on it afterwards: a lock to its thread
	// and labels for profiles are to be undone.
	Handle(ctx context.Context, from Peer, req *Request, reply *Reply) error

	// Notified takes one notification. It must not block: what comes after it the
	// same way waits. The messages of a [Conn] come one way, so it is notified in
	// order, one by one. Over HTTP each request and each stream is a way of its
	// own: in order within it, and concurrently with the others.
	Notified(from Peer, note *Request)
}

// A Preempter is a [Handler] that answers some calls at once, on the goroutine that
// receives them: those that must take effect before any later message is looked at,
// or must never wait behind other calls. Handle must not block for them.
type Preempter interface {
	Preempts(req *Request) bool
}

// A Borrower is a [Handler] that is done with some notifications at once. Borrow comes
// before Notified, under the same rules, and says whether it has taken the notification;
// Notified gets it otherwise. What it takes, and all that this holds, it must not keep:
// the memory serves again.
type Borrower interface {
	Borrow(from Peer, note *Request) bool
}

// An Abandoner is a [Handler] that tells the peer, in its own protocol's way,
// that nobody waits any more for the answer to the call with that id.
type Abandoner interface {
	Abandoned(from Peer, id ID, cause error)
}

// An Ender is a [Handler] that is told when its peer can say no more, once. Ended must
// not block.
type Ender interface {
	Ended()
}

// A BatchHandler is a [Handler] whose protocol has batches. AcceptBatch says
// whether these messages may come as one; a handler without it refuses all
// batches.
type BatchHandler interface {
	AcceptBatch(batch []Message) error
}

// Identified are parameters that must know the id of their request: a [Peer]
// tells them before they are encoded.
type Identified interface {
	Identify(id ID)
}

// A Reply collects the result of one call.
type Reply struct {
	// Buf ends with what has been written of the response so far. A handler
	// appends its result and must not keep the slice.
	Buf []byte

	usage buffer.Usage
}

// Write appends a result to the reply.
func (r *Reply) Write(result Appender) error {
	buf, err := result.AppendJSON(r.Buf)
	if err != nil {
		return err
	}
	r.Buf = buf
	return nil
}
