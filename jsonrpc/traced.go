package jsonrpc

import "context"

// A received identifies a call of a peer.
type received struct {
	conn string
	id   ID
}

// receivedKey is the context key of a received, and sentKey that of the function of [WithSent].
type (
	receivedKey struct{}
	sentKey     struct{}
)

// Received returns the connection, as in [Options].Trace, and the id of the peer's call that a handler has got with ctx. conn is
// "" for another context, and for a connection without Trace.
func Received(ctx context.Context) (conn string, id ID) {
	r, _ := ctx.Value(receivedKey{}).(received)
	return r.conn, r.id
}

// WithReceived returns a context with what [Received] returns. It is for transports that call [Answer].
func WithReceived(ctx context.Context, conn string, id ID) context.Context {
	return context.WithValue(ctx, receivedKey{}, received{conn, id})
}

// WithSent returns a context in which sent is called before each call to a peer, with the connection, as in [Options].Trace,
// and the id of the call. The frame of the call is traced after that. Connections without Trace do not call it. sent must not
// block, and may be called concurrently.
func WithSent(ctx context.Context, sent func(conn string, id ID)) context.Context {
	return context.WithValue(ctx, sentKey{}, sent)
}

// Sent calls the function of [WithSent], if there is one. It is for transports that send calls themselves.
func (c *Conn) Sent(ctx context.Context, id ID) {
	if c.opts.Trace == nil {
		return
	}
	if sent, ok := ctx.Value(sentKey{}).(func(conn string, id ID)); ok {
		sent(c.id, id)
	}
}
