package transport

import (
	"context"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Link is what a server gets to know of one connection: a process, a socket,
// a session.
type Link struct {
	// Peer is the way back to the client, open as long as the link.
	Peer jsonrpc.Peer
	// Go runs a function on a goroutine that the transport waits for; its
	// context ends with the link, and as soon as the client can say no more.
	Go func(func(ctx context.Context))
	// Principal names the authenticated client, "" when the transport does not
	// authenticate.
	Principal string
}

// A Binder is the server's end: it makes the handler of each link. It must be
// safe for concurrent use.
type Binder interface {
	Bind(link Link) jsonrpc.Handler
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

// A Dialer opens connections. It must be safe for concurrent use, and may be
// used again after a connection has ended.
type Dialer interface {
	// Dial connects. What the server sends is given to handler.
	Dial(ctx context.Context, handler jsonrpc.Handler) (Conn, error)
}
