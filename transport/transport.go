package transport

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Link is what a server gets to know of one connection: a process, a socket,
// a session.
type Link struct {
	// Peer is the way back to the client, open as long as the link; nil when the
	// link is shared.
	Peer jsonrpc.Peer
	// Input ends with the link, and as soon as the client can say no more.
	Input context.Context
	// Go runs a function on a goroutine that the transport waits for. Its context
	// is Input.
	Go func(func(ctx context.Context))
	// Principal names the authenticated client, "" when the transport does not
	// authenticate.
	Principal string
	// Shared says that the link is no one client's: each request on it is of
	// somebody, as [Principal] of its context says, and is answered on its own.
	Shared bool
}

// A Detacher is the [jsonrpc.Outlet] of a call whose client can be sent away and
// comes back for the answer.
type Detacher interface {
	// Detach hangs up and has the client come back after retry.
	Detach(retry time.Duration)
}

// A Binder is the server's end: it makes the handler of each link. It must be
// safe for concurrent use. When a handler is a [jsonrpc.Ender], it is told of the end of
// its link, as a [jsonrpc.Dispatcher] does. One that wraps another handler must pass that
// on, or what the other does for its client lasts as long as the server.
type Binder interface {
	Bind(link Link) jsonrpc.Handler
}

// A Server is a [Binder] that a program serves for as long as it runs, such as a
// *server.Server.
type Server interface {
	Binder
	// Start returns when the server can answer calls.
	Start(ctx context.Context) error
	// Shutdown refuses new calls, and returns when those that run have finished or ctx
	// has ended.
	Shutdown(ctx context.Context) error
}

// A Conn is the client's end of an open connection.
type Conn interface {
	jsonrpc.Peer
	// Close ends the connection and returns, within a bound, when nothing of it
	// runs any more. Calls that wait fail. It may be called more than once.
	Close() error
	// Done is closed when the connection has ended, whoever ended it.
	Done() <-chan struct{}
}

// A Companion is the [jsonrpc.Peer] of a message that came along with the answer to a
// call of this side: over HTTP, on the stream of that call. Where all messages come one
// way, nothing tells which call they belong to.
type Companion interface {
	jsonrpc.Peer
	// Beside is the context that the call was made with.
	Beside() context.Context
}

// A Dialer opens connections. It must be safe for concurrent use, and may be
// used again after a connection has ended.
type Dialer interface {
	// Dial connects. What the server sends is given to handler.
	Dial(ctx context.Context, handler jsonrpc.Handler) (Conn, error)
}
