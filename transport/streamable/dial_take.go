package streamable

import (
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// take takes one text of an answer: a message or, in version 2025-03-26, an array
// of messages. It returns the response to the call if it was in it, and says whether
// the text was only borrowed: then nobody has kept anything of it. The error is that of
// a malformed response.
func (p *post) take(text []byte) (resp *jsonrpc.Response, borrowed bool, err error) {
	c := p.conn
	c.trace(text)
	if !jsonrpc.IsBatch(text) {
		return p.takeOne(text)
	}
	items, err := jsonrpc.SplitBatch(text, c.dialer.opts.Conn.MaxBatch)
	if err != nil {
		c.report(err)
		return nil, false, nil
	}
	for _, item := range items {
		found, _, err := p.takeOne(item)
		if err != nil {
			return nil, false, err
		}
		if found != nil {
			resp = found
		}
	}
	return resp, false, nil
}

func (p *post) takeOne(text []byte) (resp *jsonrpc.Response, borrowed bool, err error) {
	c := p.conn
	msg, err := jsonrpc.Decode(text)
	if err != nil {
		if bad, ok := errors.AsType[*jsonrpc.DecodeError](err); ok && bad.Response && bad.ID == p.id && !p.id.IsZero() {
			return nil, false, fmt.Errorf("malformed answer: %s", bad.Err.Message)
		}
		c.report(err)
		return nil, false, nil
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if msg.ID == p.id && !p.id.IsZero() {
			return msg, false, nil
		}
		c.report(fmt.Errorf("streamable: a response with the id %s where none is waited for", msg.ID))
	case *jsonrpc.Request:
		if p.modern && !msg.IsNotification() {
			c.report(fmt.Errorf("streamable: a request of the server, which may not send any, with the method %q", msg.Method))
			return nil, false, nil
		}
		return nil, p.way().Dispatch(msg), nil
	}
	return nil, false, nil
}

// way is that of what comes along with the answer to a call.
func (p *post) way() *jsonrpc.Route {
	switch {
	case p.id.IsZero():
		return p.conn.route
	case p.route == nil:
		p.route = p.conn.dispatcher.Route(p.caller, answers{p.conn})
	}
	return p.route
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
