package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
)

// An olderConn is a connection over HTTP+SSE, for a server that knows no other
// transport.
type olderConn struct{ transport.Conn }

// knowsNoPost says whether a server may be one that has another transport: it
// did not even answer with a message.
func knowsNoPost(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && !webclient.IsAccess(status.Status) && status.Status >= http.StatusBadRequest && status.Status < http.StatusInternalServerError
}

// fallBack tries HTTP+SSE. From then on the connection is that one.
func (c *clientConn) fallBack(ctx context.Context, method string, params jsonrpc.Appender, refused error) (*jsonrpc.Response, error) {
	p, err := c.newPost(ctx, method) // it bounds connecting
	if err != nil {
		return nil, err
	}
	defer p.done()
	opts := &c.dialer.opts
	older, err := sse.Dial(c.dialer.url.String(), &sse.DialOptions{
		HTTPClient: c.dialer.client.HTTPClient(), Header: opts.Header, Authorizer: opts.Authorizer, MaxMessage: opts.MaxMessage, Conn: opts.Conn, Logger: opts.Logger,
	}).Dial(p.ctx, c.handler)
	if err != nil {
		return nil, p.failed(jsonrpc.Rejected, fmt.Errorf("neither Streamable HTTP: %w; nor HTTP+SSE: %w", errors.Unwrap(refused), p.reason(err)))
	}
	if err := c.state.adopt(func(older transport.Conn) { c.older.Store(&olderConn{older}) }, older); err != nil {
		older.Close()
		return nil, p.failed(jsonrpc.NotSent, err)
	}
	c.dispatcher.Go(func(ctx context.Context) {
		select {
		case <-older.Done():
			c.state.end()
		case <-ctx.Done():
		}
	})
	return older.Call(ctx, method, params)
}
