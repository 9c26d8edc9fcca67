package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
)

// Dial returns a dialer for the server at an http or https URL. opts may be nil. If the URL
// is malformed, every Dial of the dialer fails. Connecting sends nothing; the first message
// does.
//
// A request that declares its protocol version in _meta (2026-07-28) is sent on its own.
// Any other belongs to the session that "initialize" opens (2025-03-26 to 2025-11-25),
// whose streams are resumed when they break. If the server refuses "initialize" with an
// HTTP status and no JSON-RPC message, or answers with an event stream that begins with the event
// "endpoint", the connection uses HTTP+SSE (2024-11-05) at the same URL.
//
// Each call has its own stream. The handler gets the notifications of one stream in order and before its call returns.
// Notifications of different streams are concurrent.
//
// If the server does not know the session any more, the connection ends with [transport.ErrSessionLost]. A call that the server
// refused for that reason was not sent; one that was answered otherwise may have been executed. A ping finds out about the
// session.
//
// The client follows at most three redirects, only within the origin, and only if they keep
// the method. A failed call is a *[jsonrpc.CallError] that says whether it may have been
// executed. If the server answered with an HTTP error, the CallError wraps an
// *httptransport.StatusError.
func Dial(url string, opts *DialOptions) transport.Dialer {
	o := opts.withDefaults()
	return &dialer{opts: o, client: httpclient.New(url, o.HTTPClient, o.Header, o.Authorizer)}
}

// A dialer is shared by its connections.
type dialer struct {
	opts   DialOptions
	client *httpclient.Client
}

// Dial returns a connection. It sends nothing.
func (d *dialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := d.client.Acquire(); err != nil {
		return nil, fmt.Errorf("streamable: %w", err)
	}
	return newClientConn(d, handler), nil
}

// A clientConn is a client's connection. Each call is one HTTP request on its caller's
// goroutine. Messages of the server are handled by incoming.
type clientConn struct {
	dialer   *dialer
	handler  jsonrpc.Handler
	incoming *jsonrpc.Conn // runs handler for the messages of the server
	state    *dialState
	bindings headerBindings
	sse      atomic.Pointer[transport.Conn] // replaces this connection if not nil
	buffers  bufpool.Pool                   // for requests and large responses

	ctx     context.Context // the connection's lifetime; for streams without a call
	closing sync.Once
}

func newClientConn(d *dialer, handler jsonrpc.Handler) *clientConn {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &clientConn{dialer: d, handler: handler, state: newDialState(cancel), ctx: ctx}
	c.incoming = jsonrpc.NewConn(nil, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &d.opts.Conn)
	return c
}

// A receiver is the channel of the server's messages in one stream. It records whether the
// buffer of the last message can be reused.
type receiver struct {
	*clientConn
	recycled bool
}

// Recycle is called when nothing retains the last message.
func (r *receiver) Recycle([]byte) { r.recycled = true }

// A callReceiver is the channel of the server's messages in the stream of a call.
type callReceiver struct {
	receiver
	call context.Context
}

// CallContext returns the caller's context of the call.
func (r *callReceiver) CallContext() context.Context { return r.call }

// Reply posts the handler's response to a call of the server. msg is nil if the call was
// canceled. If the server cannot be reached, such as a replica that was killed, it posts the response
// again: a server ignores one that it has already received.
func (c *clientConn) Reply(msg []byte) {
	if msg == nil {
		return
	}
	var pause backoff.Backoff
	for failures := 1; ; failures++ {
		// net/http may read the body after the request has ended.
		err := c.postResponse(c.ctx, bytes.Clone(msg))
		if err == nil || c.state.endReason() != nil {
			return
		}
		if !errors.Is(err, transport.ErrNotReached) || failures == maxReplies || pause.Wait(c.ctx) != nil {
			c.dialer.opts.Logger.Warn("streamable: sending a response to the server failed", "error", err)
			return
		}
	}
}

// Notify sends a notification and waits until the server has accepted it.
func (c *clientConn) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if conn := c.sse.Load(); conn != nil {
		return (*conn).Notify(ctx, method, params)
	}
	p, err := c.newPost(ctx, method)
	if err != nil {
		return err
	}
	defer p.done()
	if err := p.encode(jsonrpc.ID{}, params); err != nil {
		return p.callError(jsonrpc.NotSent, err)
	}
	if err := p.deliver(); err != nil {
		return err
	}
	if method == mcp.NotificationInitialized && !p.modern {
		c.startListening(p.ctx)
	}
	return nil
}

// postResponse posts a response to a request of the server.
func (c *clientConn) postResponse(ctx context.Context, msg []byte) error {
	p, err := c.newPost(ctx, "response")
	if err != nil {
		return err
	}
	defer p.done()
	p.text.Hold(&bufpool.Buffer{Bytes: msg})
	p.header = p.newHeader()
	return p.deliver()
}

// Cancel cancels a running call of the server. Its response is dropped.
func (c *clientConn) Cancel(id jsonrpc.ID) {
	if conn := c.sse.Load(); conn != nil {
		(*conn).Cancel(id)
		return
	}
	c.incoming.Cancel(id)
}

// Done is closed when the connection is closed or the server has lost the session.
func (c *clientConn) Done() <-chan struct{} { return c.state.done }

// Close ends the connection and its session.
func (c *clientConn) Close() error {
	c.closing.Do(func() {
		session := c.state.end()
		c.incoming.Close()
		if conn := c.sse.Load(); conn != nil {
			(*conn).Close()
		}
		if session != nil && session.id != nil {
			c.delete(session)
		}
		c.dialer.client.Release()
	})
	return nil
}

// delete ends a session at the server. It ignores failures: the server may not support it.
func (c *clientConn) delete(session *dialSession) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	header := make(http.Header)
	session.addTo(header)
	res, err := c.dialer.client.Do(ctx, http.MethodDelete, c.dialer.client.URL(), header)
	if err != nil {
		return
	}
	defer res.Body.Close()
	httpclient.Drain(res.Body, cancel)
}

// Call sends a request and waits for the response. Without a deadline in ctx, it waits at
// most DialOptions.Conn.CallTimeout.
func (c *clientConn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	if conn := c.sse.Load(); conn != nil {
		return (*conn).Call(ctx, method, params)
	}
	p, resp, err := c.call(ctx, method, params)
	switch {
	case p == nil:
		return nil, err
	case method == mcp.MethodToolsCall && p.modern && isHeaderMismatch(err):
		if c.relistTools(ctx, p.mismatched) == nil {
			_, resp, err = c.call(ctx, method, params)
		} else if ctx.Err() != nil {
			err = p.callError(jsonrpc.Rejected, context.Cause(ctx))
		}
	case method == mcp.MethodToolsList && p.modern && err == nil:
		c.bindings.update(resp, c.dialer.opts.Logger)
	case p.isInitialize() && mayUseSSE(err):
		return c.fallBackToSSE(ctx, method, params, err)
	}
	return resp, err
}

// call sends one request. The returned post is for reading only. It is nil if the request
// could not begin.
func (c *clientConn) call(ctx context.Context, method string, params jsonrpc.Appender) (*post, *jsonrpc.Response, error) {
	p, err := c.newPost(ctx, method)
	if err != nil {
		return nil, nil, err
	}
	id := jsonrpc.IntID(p.number)
	if identified, ok := params.(jsonrpc.IDReceiver); ok {
		identified.ReceiveID(id)
	}
	if err := p.encode(id, params); err != nil {
		p.done()
		return p, nil, p.callError(jsonrpc.NotSent, err)
	}
	p.text.Retain() // draining may end the post before the text is read below
	defer p.text.Release()
	resp, draining, err := p.roundTrip()
	if err != nil {
		c.notifyCancelled(p, err)
	} else if p.isInitialize() {
		p.setVersion(resp)
		c.state.setHandshake(bytes.Clone(p.text.Bytes()[p.params.start:p.params.end]))
	}
	if isHeaderMismatch(err) {
		p.mismatched = bytes.Clone(p.text.Bytes())
	}
	if !draining {
		p.done()
	}
	return p, resp, err
}

// notifyCancelled notifies the server of a session that a call was canceled. In versions
// without sessions, ending the request cancels the call.
func (c *clientConn) notifyCancelled(p *post, err error) {
	failed, ok := err.(*jsonrpc.CallError)
	notifier, notifies := c.handler.(jsonrpc.CancelNotifier)
	if !ok || !notifies || p.modern || failed.Delivery != jsonrpc.MaybeExecuted || p.ctx.Err() == nil || c.state.endReason() != nil {
		return
	}
	// The caller does not wait for the notification.
	c.incoming.Go(func(context.Context) { notifier.NotifyCancelled(c, p.id, failed.Err) })
}

// isHeaderMismatch reports whether the server refused a call because its headers do not
// match its body.
func isHeaderMismatch(err error) bool {
	refused, ok := err.(*jsonrpc.Error)
	return ok && refused.Code == mcp.CodeHeaderMismatch
}

// mayUseSSE reports whether "initialize" failed with a status 4xx and no JSON-RPC message,
// as it does at a server that supports only HTTP+SSE, or was answered with the stream of HTTP+SSE.
func mayUseSSE(err error) bool {
	if errors.Is(err, errOtherTransport) {
		return true
	}
	status, ok := errors.AsType[*httptransport.StatusError](err)
	return ok && !httpclient.IsAccess(status.Status) && status.Status >= http.StatusBadRequest && status.Status < http.StatusInternalServerError
}

// fallBackToSSE replaces this connection by one over HTTP+SSE and repeats the call there.
func (c *clientConn) fallBackToSSE(ctx context.Context, method string, params jsonrpc.Appender, refusal error) (*jsonrpc.Response, error) {
	p, err := c.newPost(ctx, method) // for its timeout
	if err != nil {
		return nil, err
	}
	defer p.done()
	opts := &c.dialer.opts
	conn, err := sse.Dial(c.dialer.client.URL().String(), &sse.DialOptions{
		HTTPClient: c.dialer.client.HTTPClient(), Header: opts.Header, Authorizer: opts.Authorizer, MaxMessage: opts.MaxMessage, Conn: opts.Conn, Logger: opts.Logger,
	}).Dial(p.ctx, c.handler)
	if err != nil {
		return nil, p.callError(jsonrpc.Rejected, fmt.Errorf("neither Streamable HTTP: %w; nor HTTP+SSE: %w", errors.Unwrap(refusal), p.reason(err)))
	}
	if err := c.state.ifOpen(func() { c.sse.Store(&conn) }); err != nil {
		conn.Close()
		return nil, p.callError(jsonrpc.NotSent, err)
	}
	c.incoming.Go(func(ctx context.Context) {
		select {
		case <-conn.Done():
			c.state.end()
		case <-ctx.Done():
		}
	})
	return conn.Call(ctx, method, params)
}
