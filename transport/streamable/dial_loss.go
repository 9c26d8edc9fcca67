package streamable

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// codeSessionNotFound is the code with which some servers report an unknown session. Others use it for timeouts.
const codeSessionNotFound jsonrpc.Code = -32001

// A lossSign is what the response to a message says about the session of the message. MCP 2025-11-25, basic/transports,
// section Session Management, has status 404 for a session that the server does not know. Many servers use other statuses.
type lossSign int

const (
	// sessionKnown: the server knows the session.
	sessionKnown lossSign = iota
	// maybeLost: the session may be lost. If it is, the server may have executed the message.
	maybeLost
	// refusedMaybeLost: the session may be lost. If it is, the server did not execute the message.
	refusedMaybeLost
	// refusedLost: the server refused the message because it does not know the session.
	refusedLost
)

// signOf returns what the response to a message says about the message's session. text is the body or, with status 2xx, the
// message of the error. answer is the JSON-RPC error in it that may be the response to the message, or nil.
func (p *post) signOf(res *http.Response, text []byte, answer *jsonrpc.Response) lossSign {
	session := p.header[wire.HeaderSession]
	if session == nil {
		return sessionKnown
	}
	isNamed := httpclient.NamesSession(text, session[0])
	isOwn := answer != nil && !answer.ID.IsZero()
	switch status := res.StatusCode; {
	case status == http.StatusNotFound && isOwn && answer.Error.Code == jsonrpc.MethodNotFound:
		return sessionKnown
	case status == http.StatusNotFound, isNamed && (status == http.StatusBadRequest || status == http.StatusGone || status == http.StatusUnprocessableEntity):
		if isOwn { // a function may have returned an error about a session of its own
			return refusedMaybeLost
		}
		return refusedLost
	case isNamed, isOwn && answer.Error.Code == codeSessionNotFound:
		return maybeLost
	case isOwn, status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "":
		return sessionKnown
	}
	return maybeLost
}

// checkSession returns an error if the response to a message shows that the server has lost the session. The connection
// ends then.
func (p *post) checkSession(res *http.Response, text []byte, answer *jsonrpc.Response) error {
	sign := p.signOf(res, text, answer)
	if sign == sessionKnown {
		return nil
	}
	if !p.conn.isSessionLost(p.caller, sign) { // the server may refuse the message for another reason, in each session
		return nil
	}
	p.conn.sessionLost()
	if sign != maybeLost {
		return p.callError(jsonrpc.NotSent, transport.ErrSessionLost)
	}
	reason := error(httpclient.NewStatusError(res, text))
	if isSuccess(res) {
		reason = answer.Error
	}
	// reason is not wrapped: it is not the server's response to the call.
	return p.callError(jsonrpc.MaybeExecuted, fmt.Errorf("%w: %v", transport.ErrSessionLost, reason))
}

// signOfStream returns what the status of a refused stream says about the session. A server without streams may answer 404.
func signOfStream(status int) lossSign {
	switch status {
	case http.StatusNotFound:
		return refusedLost
	case http.StatusMethodNotAllowed, http.StatusTooManyRequests:
		return sessionKnown
	}
	if status < http.StatusBadRequest {
		return sessionKnown
	}
	return maybeLost
}

// A sessionCheck finds out whether the server knows the session. Messages that need a check at the same time share one.
type sessionCheck struct {
	done chan struct{}
	sign lossSign // sessionKnown, refusedLost, or maybeLost if the check has failed; valid when done is closed
}

// isSessionLost finds out whether the server has lost the session, at most until ctx ends. sign is the reason for the question.
// If the question stays open, a session counts as lost only for the sign refusedLost.
func (c *clientConn) isSessionLost(ctx context.Context, sign lossSign) bool {
	if c.state.endReason() == transport.ErrSessionLost {
		return true
	}
	check, handshake, first := c.state.beginCheck()
	if first {
		c.incoming.Go(func(context.Context) {
			ctx, cancel := context.WithTimeout(c.ctx, checkTimeout)
			defer cancel()
			c.state.endCheck(check, c.askForSession(ctx, handshake))
		})
	}
	select {
	case <-check.done:
		return check.sign == refusedLost || check.sign == maybeLost && sign == refusedLost
	case <-ctx.Done():
		return sign == refusedLost
	}
}

// askForSession sends a ping in the session. A ping that the server refuses for no clear reason means a lost session if the
// server then opens another one: a server that refuses everything, such as one that is overloaded, does not.
func (c *clientConn) askForSession(ctx context.Context, handshake []byte) lossSign {
	p, res, err := c.send(ctx, mcp.MethodPing, nil)
	if err != nil {
		return maybeLost
	}
	if isSuccess(res) {
		resp, draining, err := p.read(res)
		if !draining {
			p.done()
		}
		switch {
		case err != nil:
			return maybeLost
		case resp.Error != nil && p.signOf(res, []byte(resp.Error.Message), resp) != sessionKnown:
			return refusedLost
		}
		return sessionKnown
	}
	body, _ := readBody(res, nil, c.dialer.opts.MaxMessage) // the status says enough
	res.Body.Close()
	p.done()
	answer := p.decodeError(body)
	switch sign := p.signOf(res, body, answer); {
	case sign == sessionKnown && answer == nil: // the server is overloaded
		return maybeLost
	case sign == maybeLost && !httpclient.NamesSession(body, p.header[wire.HeaderSession][0]) && !c.opensAnother(ctx, handshake):
		return maybeLost
	case sign == sessionKnown:
		return sessionKnown
	}
	return refusedLost
}

// opensAnother reports whether the server opens another session with the params of "initialize". That session is ended.
func (c *clientConn) opensAnother(ctx context.Context, params []byte) bool {
	if params == nil {
		return false
	}
	p, res, err := c.send(ctx, mcp.MethodInitialize, jsonrpc.Raw(params))
	if err != nil {
		return false
	}
	if !isSuccess(res) {
		res.Body.Close()
		p.done()
		return false
	}
	resp, draining, err := p.read(res)
	if !draining {
		p.done()
	}
	if ids := res.Header[wire.HeaderSession]; len(ids) == 1 {
		c.incoming.Go(func(context.Context) { c.delete(&dialSession{id: ids, version: p.session.version}) })
	}
	return err == nil && resp.Error == nil
}

// send sends a call. Without an error, the caller closes the body of the response and calls done.
func (c *clientConn) send(ctx context.Context, method string, params jsonrpc.Appender) (*post, *http.Response, error) {
	p, err := c.newPost(ctx, method)
	if err != nil {
		return nil, nil, err
	}
	if err = p.encode(jsonrpc.IntID(p.number), params); err == nil {
		var res *http.Response
		if res, err = p.send(); err == nil {
			return p, res, nil
		}
	}
	p.done()
	return nil, nil, err
}

// sessionLost ends the connection after the server has lost its session. Pending requests
// get a short time to fail by themselves.
func (c *clientConn) sessionLost() {
	if !c.state.sessionLost() {
		return
	}
	c.incoming.Go(func(context.Context) {
		select {
		case <-c.state.done:
		case <-time.After(lossTimeout):
			c.state.end()
		}
	})
}
