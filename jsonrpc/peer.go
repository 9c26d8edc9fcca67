package jsonrpc

import "context"

// A Peer is the other side of a connection. Its methods may be called concurrently.
type Peer interface {
	// Call sends a request and waits for the response. The error is an *[Error] if the peer
	// has sent one, and a *[CallError] otherwise. Call does not retain params, and the caller
	// owns the response.
	Call(ctx context.Context, method string, params Appender) (*Response, error)

	// Notify sends a notification. Notifications that one goroutine sends arrive in order,
	// and before the reply to the call that the goroutine handles. The error is a
	// *[CallError].
	Notify(ctx context.Context, method string, params Appender) error

	// Cancel cancels the context of the peer's call with that id, and drops its reply. It has
	// no effect if no such call runs.
	Cancel(id ID)
}

// A Handler handles the messages of the peer. Its methods are called concurrently. A
// handler may also implement [SessionHandler] and [CancelNotifier].
type Handler interface {
	// Handle answers one call: it appends the result, one JSON value, to reply.Buf, or
	// returns an error. An *[Error], possibly wrapped, is sent as it is; any other error is
	// sent as an internal error without details. ctx ends when the call is cancelled or the
	// connection ends. Handle may block. It must not leave its goroutine locked to a thread
	// or with profiler labels, since later calls run on the same goroutine.
	Handle(ctx context.Context, from Peer, req *Request, reply *Reply) error

	// HandleNotification handles one notification. It must not block, because the next
	// message waits for it. A Conn calls it for the notifications of its stream one at a
	// time, in order. Notifications from [Conn.Receive] may be concurrent.
	HandleNotification(from Peer, notification *Request)
}

// A SessionHandler is a [Handler] that controls how a [Conn] receives messages. A Conn looks for it on its
// handler. Without it, no call preempts others, batches are refused, and the handler does not learn that
// the connection has ended.
type SessionHandler interface {
	// Preempts reports whether a call must be complete before the next message is read. Such
	// a call runs on the goroutine that reads, is not subject to [Options.MaxInFlight], and
	// must not block.
	Preempts(req *Request) bool
	// AcceptBatch returns nil if the batch may be handled, and otherwise the error for the
	// peer.
	AcceptBatch(batch []Message) error
	// HandleClose is called once, when the peer cannot send any more. It must not block.
	HandleClose()
}

// A CancelNotifier is a [Handler] that notifies the peer of an abandoned call: its context
// ended or its timeout expired before the response. A [Conn] looks for it on its handler. Without it, the
// peer is not notified.
type CancelNotifier interface {
	// NotifyCancelled notifies the peer that the call with that id is abandoned. cause is the
	// cause of the context, or context.DeadlineExceeded.
	NotifyCancelled(to Peer, id ID, cause error)
}

// A borrower is a [Handler] that handles some notifications without retaining them. A [Conn] looks for it
// on its handler. Without it, the memory of notifications is not reused.
type borrower interface {
	// Borrow handles the notification and returns true, or returns false without handling it.
	Borrow(notification *Request) bool
}

// An IDReceiver is an [Appender] for params that needs the id of the request. A [Peer] looks for it on the
// params, and calls ReceiveID before it encodes them.
type IDReceiver interface {
	ReceiveID(id ID)
}

// A Reply collects the result of one call.
type Reply struct {
	// Buf ends with the part of the response that is written already. A handler appends its
	// result and must not retain the slice.
	Buf []byte
}

// Write appends a result. It returns the error of result, and leaves Buf unchanged then.
func (r *Reply) Write(result Appender) error {
	buf, err := result.AppendJSON(r.Buf)
	if err != nil {
		return err
	}
	r.Buf = buf
	return nil
}
