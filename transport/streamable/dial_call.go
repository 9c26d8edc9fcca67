package streamable

import (
	"bytes"
	"context"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Call sends a request and waits for its answer, at most Conn.CallTimeout when
// ctx has no deadline.
func (c *clientConn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	if older := c.older.Load(); older != nil {
		return older.Call(ctx, method, params)
	}
	p, resp, err := c.call(ctx, method, params)
	switch {
	case p == nil:
		return nil, err
	case method == mcp.MethodToolsCall && p.modern && isMismatch(err):
		if c.relearn(ctx, p.sent) == nil {
			_, resp, err = c.call(ctx, method, params)
		}
	case method == mcp.MethodToolsList && p.modern && err == nil:
		c.bindings.watch(resp, c.dialer.opts.Logger)
	case p.opensSession() && knowsNoPost(err):
		return c.fallBack(ctx, method, params, err)
	}
	return resp, err
}

// call makes one request. The post, which is done, is nil if there was none.
func (c *clientConn) call(ctx context.Context, method string, params jsonrpc.Appender) (*post, *jsonrpc.Response, error) {
	p, err := c.newPost(ctx, method)
	if err != nil {
		return nil, nil, err
	}
	id := jsonrpc.IntID(p.number)
	if identified, ok := params.(jsonrpc.Identified); ok {
		identified.Identify(id)
	}
	if err := p.encode(id, params); err != nil {
		p.done()
		return p, nil, p.failed(jsonrpc.NotSent, err)
	}
	p.text.Retain() // the answer may end the post before the text is looked at again
	defer p.text.Release()
	resp, kept, err := p.exchange()
	if err != nil {
		c.abandon(p, err)
	} else if p.opensSession() {
		p.agreeOn(resp)
	}
	if isMismatch(err) {
		p.sent = bytes.Clone(p.text.Bytes())
	}
	if !kept {
		p.done()
	}
	return p, resp, err
}

// abandon has a session's server told of a call that nobody waits for any more. In
// later versions, that its request has ended tells it.
func (c *clientConn) abandon(p *post, err error) {
	failed, ok := err.(*jsonrpc.CallError)
	abandoner, can := c.handler.(jsonrpc.Abandoner)
	if !ok || !can || p.modern || failed.Delivery != jsonrpc.MaybeExecuted || p.ctx.Err() == nil || c.state.endedWith() != nil {
		return
	}
	// The caller need not wait until that has arrived.
	c.dispatcher.Go(func(context.Context) { abandoner.Abandoned(c, p.id, failed.Err) })
}

// isMismatch says whether a server has found that the header lacks something.
func isMismatch(err error) bool {
	refused, ok := err.(*jsonrpc.Error)
	return ok && refused.Code == mcp.CodeHeaderMismatch
}
