package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Binder is the server's end of a transport: it makes the handler of each link. Bind may
// be called concurrently.
//
// HandleClose of a [jsonrpc.SessionHandler] is called when the link ends. A handler that wraps
// another one must pass HandleClose on; otherwise the subscriptions of the inner handler last as
// long as the server.
type Binder interface {
	Bind(link Link) jsonrpc.Handler
}

// A Link describes one connection to a server: a process, a socket or a session.
type Link struct {
	// Peer sends messages to the client for as long as the link is open. It is nil if the
	// link is shared.
	Peer jsonrpc.Peer
	// Input ends when the client cannot send any more, at the latest with the link.
	Input context.Context
	// Go runs a function on a goroutine that the transport waits for. The context of the
	// function is Input.
	Go func(func(ctx context.Context))
	// Principal names the authenticated client, "" if the transport does not authenticate.
	Principal string
	// Network is the network of the client, see [WithRequest]. It is "" if the client has none.
	Network string
	// Shared means that the link carries requests of several clients. The principal and the network of each
	// request are the [Principal] and the [Network] of its context.
	Shared bool
	// State keeps the state of the session. It is nil if the session ends with the link.
	State StateStore
}

// A StateStore keeps the state of a session, so that another process can continue the session.
type StateStore interface {
	// UpdateState changes the stored state, and passes the new one to [SessionHandler.SetState] before it returns.
	// change gets the stored state. It may be called several times, and must not call SetState or UpdateState. An error
	// means that the state has not changed. It is the error of change, or a *[jsonrpc.Error].
	UpdateState(ctx context.Context, change func(state json.RawMessage) (json.RawMessage, error)) error
}

// A SessionHandler is a [jsonrpc.Handler] with a session that another process can continue. Streamable HTTP looks for it
// on the handlers that [Binder].Bind returns. Without it, the session exists only in its process. A handler that wraps
// another one must pass these methods on.
type SessionHandler interface {
	jsonrpc.Handler
	// State returns the state of the session, or nil if the client has not opened one.
	State() json.RawMessage
	// SetState changes the session to a state, which another process may have stored. It opens the session if it is not
	// open here. It is not called concurrently. If listening is true, the client receives the messages of
	// [Link.Peer].
	SetState(ctx context.Context, state json.RawMessage, listening bool) error
	// ClientListens is called when the client begins to receive the messages of [Link.Peer]. If missed is true, it
	// has not received messages before that it expects.
	ClientListens(ctx context.Context, missed bool)
}

// A Detacher is the [jsonrpc.Peer] of a call whose client can be disconnected and
// reconnects for the response. mcp.Call.Detach looks for it on the peer of the call. Without it, the client
// stays connected.
type Detacher interface {
	// Detach disconnects the client and asks it to reconnect after retry.
	Detach(retry time.Duration)
}

// A CallPeer is the [jsonrpc.Peer] of a message that belongs to a call of this side. Over HTTP,
// the stream with the response to the call carries such messages. Clients and bridges that forward calls
// look for it on the peer of a message. Without it, as on other transports, they attribute a
// notification to the oldest call, and a question to a call only if it is certain whose it is.
type CallPeer interface {
	jsonrpc.Peer
	// CallContext returns the context that the call was made with.
	CallContext() context.Context
}

// A Server is a [Binder] that a program serves until it is shut down, such as a
// *server.Server. stdio.Serve looks for it on its Binder. Without it, only the end of the input or of the
// context ends the connection.
type Server interface {
	Binder
	// Start returns when the server can answer calls.
	Start(ctx context.Context) error
	// Ready returns nil if the server accepts calls. It does not block.
	Ready() error
	// Shutdown refuses new calls. It returns when the running calls have finished or ctx has
	// ended.
	Shutdown(ctx context.Context) error
	// Stopping returns a channel that is closed when Shutdown is called.
	Stopping() <-chan struct{}
}

// A Dialer opens connections. It may be used concurrently, and again after a connection has
// ended.
type Dialer interface {
	// Dial connects to a server. handler gets the messages of the server. The error is
	// [ErrNotReached], under [errors.Is], if the network has failed.
	Dial(ctx context.Context, handler jsonrpc.Handler) (Conn, error)
}

// A Conn is the client's end of an open connection.
type Conn interface {
	jsonrpc.Peer
	// Close ends the connection. It fails the pending calls and returns, within a time
	// limit, when nothing of the connection runs. It may be called more than once.
	Close() error
	// Done returns a channel that is closed when either side has ended the connection.
	Done() <-chan struct{}
}

// ErrNotReached matches, under [errors.Is], a failure of the network or the response of a proxy
// instead of the server: an unknown name, no connection, no permission, an overloaded gateway.
// It does not mean that the server lacks a feature.
var ErrNotReached = errors.New("the server was not reached")

// ErrForbidden matches, under [errors.Is], the HTTP status 403: the server or a proxy understood the
// request and refuses it, for example because the token lacks a scope (RFC 6750, section 3.1).
var ErrForbidden = errors.New("the request is forbidden")

// ErrRefused matches, under [errors.Is], an HTTP status that refuses a request, from 400 on, except for 401, which asks for
// a token: the server or a proxy answered, and may accept another request.
var ErrRefused = errors.New("the request was refused")

// ErrSessionLost matches, under [errors.Is], the end of a connection whose server does not know its session any more, for
// example because the server has restarted. It is also [jsonrpc.ErrClosed].
var ErrSessionLost = fmt.Errorf("%w: the server does not know the session any more", jsonrpc.ErrClosed)

// A RejectedError is the answer to a request that violates its version of the protocol.
// Over HTTP such an answer has status 400.
type RejectedError struct{ Answer *jsonrpc.Error }

// Error returns the message of the answer.
func (e *RejectedError) Error() string { return e.Answer.Error() }

// Unwrap returns the answer.
func (e *RejectedError) Unwrap() error { return e.Answer }
