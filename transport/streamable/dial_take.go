package streamable

import (
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// take takes one text of an answer: a message or, in version 2025-03-26, an array
// of messages. It returns the response to the call if it was in it; the error is
// that of a malformed one.
func (p *post) take(text []byte) (*jsonrpc.Response, error) {
	c := p.conn
	c.trace(text)
	if !jsonrpc.IsBatch(text) {
		return p.takeOne(text)
	}
	items, err := jsonrpc.SplitBatch(text, c.dialer.opts.Conn.MaxBatch)
	if err != nil {
		c.report(err)
		return nil, nil
	}
	var found *jsonrpc.Response
	for _, item := range items {
		resp, err := p.takeOne(item)
		if err != nil {
			return nil, err
		}
		if resp != nil {
			found = resp
		}
	}
	return found, nil
}

func (p *post) takeOne(text []byte) (*jsonrpc.Response, error) {
	c := p.conn
	msg, err := jsonrpc.Decode(text)
	if err != nil {
		if bad, ok := errors.AsType[*jsonrpc.DecodeError](err); ok && bad.Response && bad.ID == p.id && !p.id.IsZero() {
			return nil, fmt.Errorf("malformed answer: %s", bad.Err.Message)
		}
		c.report(err)
		return nil, nil
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if msg.ID == p.id && !p.id.IsZero() {
			return msg, nil
		}
		c.report(fmt.Errorf("streamable: a response with the id %s where none is waited for", msg.ID))
	case *jsonrpc.Request:
		if p.modern && !msg.IsNotification() {
			c.report(fmt.Errorf("streamable: a request of the server, which may not send any, with the method %q", msg.Method))
			return nil, nil
		}
		p.route().Dispatch(msg)
	}
	return nil, nil
}

// route is the way of what comes along with the answer to a call.
func (p *post) route() *jsonrpc.Route {
	if p.id.IsZero() {
		return p.conn.route
	}
	return p.conn.dispatcher.Route(p.caller, answers{p.conn})
}

func (c *clientConn) trace(text []byte) {
	if trace := c.dialer.opts.Conn.Trace; trace != nil {
		trace(false, text)
	}
}

// report tells who wants to know of something that came and was no use.
func (c *clientConn) report(err error) {
	if malformed := c.dialer.opts.Conn.Malformed; malformed != nil {
		malformed(err)
	}
}
