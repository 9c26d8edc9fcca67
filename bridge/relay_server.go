package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// noTimeout is longer than any call. Calls without a deadline would get the default of the
// transport.
const noTimeout = 10 * 365 * 24 * time.Hour

// A relayServer is one connection of a relay to its server. It handles the server's messages.
type relayServer struct {
	link  *relayLink
	ready chan struct{} // closed when conn or err is set
	conn  transport.Conn
	err   error
	lost  atomic.Bool // another session must replace the session
	// repeated is closed when the subscriptions of the client's last session have been repeated, or conn is closed.
	repeated chan struct{}

	mu     sync.Mutex
	calls  []*relayCall // running, oldest first
	tokens int64        // progress tokens that were made
}

// run connects, and closes the connection when the link ends. If the server has lost the session, run opens the next one.
func (s *relayServer) run() {
	ctx, cancel := context.WithTimeout(s.link.ctx, s.link.relayer.opts.ConnectTimeout)
	s.conn, s.err = s.link.relayer.dialer.Dial(ctx, s)
	dialed := s.err == nil
	if dialed {
		s.err = s.link.session.Reopen(ctx, s.conn, s.link.relayer.opts.Logger, s.notifyClient)
	}
	cancel()
	close(s.ready)
	switch {
	case !dialed:
		return
	case s.err != nil:
		_ = s.conn.Close() // the error of the handshake is reported
		return
	}
	s.resubscribe()
	opened := time.Now()
	select {
	case <-s.conn.Done():
		_, err := s.conn.Call(s.link.ctx, mcp.MethodPing, nil) // it is not sent: the error says why the connection has ended
		s.checkLost(err)
	case <-s.link.ctx.Done():
	}
	_ = s.conn.Close() // nothing is left to report an error to
	if s.lost.Load() {
		s.link.openNext(time.Since(opened))
	}
}

// resubscribe repeats the subscriptions of the client's last session. If that fails, another session replaces this one.
func (s *relayServer) resubscribe() {
	defer close(s.repeated)
	l, opts := s.link, &s.link.relayer.opts
	if err := l.session.Resubscribe(l.ctx, s.conn, opts.ConnectTimeout, opts.Logger, s.notifyClient); err != nil {
		if l.ctx.Err() == nil {
			opts.Logger.Warn("the relay could not repeat the subscriptions of the client; it opens another session", "error", err)
		}
		s.lost.Store(true)
		_ = s.conn.Close() // the error of the subscription is logged
	}
}

// notifyClient sends the client a notification after the earlier ones. It does not block.
func (s *relayServer) notifyClient(method string, params json.RawMessage) {
	if l := s.link; l.link.Peer != nil {
		l.toClient.add(queuedNotification{ctx: l.ctx, to: l.link.Peer, method: method, params: params})
	}
}

// isReplaceable reports whether another connection may replace this connection. It may if the connection could not be
// opened, or if the server runs and has lost the session or did not repeat its subscriptions. It also may if the connection
// has ended and belongs to a shared link, because messages of shared links need no session.
func (s *relayServer) isReplaceable() bool {
	switch {
	case !isClosed(s.ready):
		return false
	case s.err != nil, s.lost.Load():
		return true
	default:
		return s.link.link.Shared && isClosed(s.conn.Done())
	}
}

// checkLost reports whether a message has failed, and another session replaces the one of the message, for example because the
// error of the message says that the server has lost the session.
func (s *relayServer) checkLost(err error) bool {
	if !s.link.link.Shared && errors.Is(err, transport.ErrSessionLost) {
		s.lost.Store(true)
	}
	return err != nil && s.lost.Load()
}

// call forwards a call. Earlier notifications of the server reach the client before the reply.
func (s *relayServer) call(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == mcp.MethodResourcesSubscribe || req.Method == mcp.MethodResourcesUnsubscribe {
		select {
		case <-s.repeated: // else a repeated subscription might follow its end
		case <-ctx.Done():
			return &jsonrpc.CallError{Method: req.Method, Delivery: jsonrpc.NotSent, Err: context.Cause(ctx)}
		}
	}
	c, err := newRelayCall(ctx, s, from, req)
	if err != nil {
		return err
	}
	defer c.finish()
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	resp, err := s.conn.Call(c.ctx, req.Method, c.params())
	s.mu.Lock()
	s.calls = slices.DeleteFunc(s.calls, func(other *relayCall) bool { return other == c })
	s.mu.Unlock()
	c.flush()
	if err != nil {
		return err
	}
	if !s.link.link.Shared {
		s.link.session.Add(req, resp)
	}
	result, err := c.result(resp)
	reply.Buf = append(reply.Buf, result...)
	return err
}

// newToken returns a progress token that no other call of the connection has.
func (s *relayServer) newToken() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	return strconv.AppendInt(nil, s.tokens, 10)
}

// cancelCall ends the client's call with the id, for the reason that the client gave. On a
// shared link ids are ambiguous, so the transport cancels.
func (s *relayServer) cancelCall(id jsonrpc.ID, note *jsonrpc.Request) {
	if s.link.link.Shared {
		return
	}
	if c := s.find(func(c *relayCall) bool { return c.req.ID == id }); c != nil {
		c.cancel(&clientCancelled{note.Params})
	}
}

// find returns the oldest call that matches, or nil. It calls match with s.mu held.
func (s *relayServer) find(match func(*relayCall) bool) *relayCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.calls, match); i >= 0 {
		return s.calls[i]
	}
	return nil
}

// oldest returns the oldest call that is not a subscription. On a shared link it returns nil
// if there are several.
func (s *relayServer) oldest() *relayCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *relayCall
	for _, c := range s.calls {
		switch {
		case c.stopAfterFunc != nil: // a subscription
		case found == nil:
			found = c
		case s.link.link.Shared:
			return nil
		}
	}
	return found
}

// relayCallKey is the key of the call in the context of its request.
type relayCallKey struct{}

// callOf returns the call to which the transport attributes a message, or nil.
func (s *relayServer) callOf(from jsonrpc.Peer) *relayCall {
	if companion, ok := from.(transport.CallPeer); ok {
		if c, ok := companion.CallContext().Value(relayCallKey{}).(*relayCall); ok && c.server == s {
			return c
		}
	}
	return nil
}

// callNamedIn returns the call that a notification names by its id or progress token, or nil.
func (s *relayServer) callNamedIn(note *jsonrpc.Request) *relayCall {
	if raw := note.Member("_meta", mcp.MetaSubscriptionID); raw != nil {
		id, err := jsonrpc.ParseID(raw)
		if err != nil {
			return nil
		}
		return s.find(func(c *relayCall) bool { return c.id == id })
	}
	if note.Method == mcp.NotificationProgress {
		token := tokenText(note.Member(mcp.MetaProgressToken))
		return s.find(func(c *relayCall) bool { return c.token != "" && c.token == token })
	}
	return nil
}

// HandleNotification forwards a notification of the server to the client of the call that it belongs to.
func (s *relayServer) HandleNotification(from jsonrpc.Peer, note *jsonrpc.Request) {
	if note.Method == mcp.NotificationCancelled {
		s.cancelled(from, note)
		return
	}
	c := s.callOf(from)
	if c == nil {
		c = s.callNamedIn(note)
	}
	if c == nil && s.link.link.Peer == nil && note.Method == mcp.NotificationMessage {
		c = s.oldest()
	}
	if c != nil {
		c.notify(note)
	} else {
		s.notifyClient(note.Method, note.Params)
	}
}

// cancelled ends a question of the server, or forwards that the server has ended a
// subscription.
func (s *relayServer) cancelled(from jsonrpc.Peer, note *jsonrpc.Request) {
	id, err := jsonrpc.ParseID(note.Member("requestId"))
	if err != nil {
		return
	}
	if c := s.find(func(c *relayCall) bool { return c.id == id && c.stopAfterFunc != nil }); c != nil {
		c.notify(note)
		return
	}
	from.Cancel(id)
}

// Handle forwards a question of the server to the client.
func (s *relayServer) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	c := s.callOf(from)
	if _, companion := from.(transport.CallPeer); c == nil && !companion {
		c = s.oldest()
	}
	to := s.link.link.Peer
	if c != nil {
		c.queue().flush(ctx)
		to = c.from
	}
	if to == nil {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: fmt.Sprintf("method not found: %.256q", req.Method)}
	}
	ctx, cancel := context.WithTimeout(ctx, noTimeout)
	defer cancel()
	resp, err := to.Call(ctx, req.Method, rawParams(req.Params))
	if err != nil {
		return err
	}
	reply.Buf = append(reply.Buf, resp.Result...)
	return nil
}

// NotifyCancelled sends the server notifications/cancelled for a call of the client.
func (s *relayServer) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	sendCancelled(from, id, cause)
}

// A relayCall is a call that is being forwarded.
type relayCall struct {
	server *relayServer
	from   jsonrpc.Peer
	req    *jsonrpc.Request

	ctx     context.Context
	cancel  context.CancelCauseFunc
	release func() // of ctx

	token         string             // in progress notifications of the server, "" for none
	serverParams  json.RawMessage    // the params for the server
	id            jsonrpc.ID         // of the call at the server; guarded by server.mu
	stopAfterFunc func() bool        // not nil for a subscription; guarded by server.mu
	notifications *notificationQueue // nil unless the link is shared
}

func newRelayCall(ctx context.Context, s *relayServer, from jsonrpc.Peer, req *jsonrpc.Request) (*relayCall, error) {
	c := &relayCall{
		server: s, from: from, req: req, serverParams: req.Params,
		token: tokenText(req.Member("_meta", mcp.MetaProgressToken)),
	}
	if s.link.link.Shared {
		c.notifications = new(notificationQueue)
		if err := c.replaceToken(); err != nil {
			return nil, err
		}
	}
	ctx, c.cancel = context.WithCancelCause(context.WithValue(ctx, relayCallKey{}, c))
	c.ctx, c.release = context.WithTimeout(ctx, noTimeout)
	return c, nil
}

// setSubscription marks the call as a subscription, which ends with the client's input.
func (c *relayCall) setSubscription() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.stopAfterFunc == nil {
		c.stopAfterFunc = context.AfterFunc(c.server.link.link.Input, func() { c.cancel(jsonrpc.ErrClosed) })
	}
}

// finish releases the resources of the call. A later setSubscription has no effect.
func (c *relayCall) finish() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.stopAfterFunc != nil {
		c.stopAfterFunc()
	}
	c.stopAfterFunc = func() bool { return false }
	c.release()
	c.cancel(nil)
}

// replaceToken replaces the progress token, since two clients may use the same.
func (c *relayCall) replaceToken() error {
	if c.token == "" {
		return nil
	}
	token := c.server.newToken()
	c.token = string(token)
	var err error
	c.serverParams, err = spliceMeta(c.req.Params, c.req.Member("_meta"), mcp.MetaProgressToken, token)
	return err
}

// tokenText returns a form of a progress token in which tokens can be compared.
func tokenText(raw json.RawMessage) string {
	if jsonscan.KindOf(raw) == jsonscan.String {
		return `"` + jsonscan.Unquote(raw)
	}
	return string(raw)
}

// spliceMeta returns an object with one member of its _meta replaced.
func spliceMeta(object, meta json.RawMessage, name string, value []byte) (json.RawMessage, error) {
	edited, err := jsonscan.Splice(nil, meta, jsonscan.Edit{Name: name, Value: value})
	if err != nil {
		return nil, err
	}
	return jsonscan.Splice(nil, object, jsonscan.Edit{Name: "_meta", Value: edited})
}

func (c *relayCall) params() jsonrpc.Appender {
	if c.serverParams == nil {
		return nil
	}
	return relayedParams{c}
}

type relayedParams struct{ call *relayCall }

// ReceiveID stores the id that the call has at the server.
func (p relayedParams) ReceiveID(id jsonrpc.ID) {
	s := p.call.server
	s.mu.Lock()
	defer s.mu.Unlock()
	p.call.id = id
}

// AppendJSON appends the params.
func (p relayedParams) AppendJSON(dst []byte) ([]byte, error) {
	return append(dst, p.call.serverParams...), nil
}

// queue returns the queue of notifications to the client.
func (c *relayCall) queue() *notificationQueue {
	if c.notifications != nil {
		return c.notifications
	}
	return &c.server.link.toClient
}

// notify forwards a notification of the server that belongs to the call.
func (c *relayCall) notify(note *jsonrpc.Request) {
	params, err := c.translate(note)
	if err != nil {
		return // impossible: the params were scanned when they were received
	}
	c.queue().add(queuedNotification{ctx: c.ctx, to: c.from, method: note.Method, params: params})
}

// translate returns the params of a notification with the client's id and progress token.
func (c *relayCall) translate(note *jsonrpc.Request) (json.RawMessage, error) {
	switch id := note.Member("_meta", mcp.MetaSubscriptionID); {
	case note.Method == mcp.NotificationCancelled:
		return jsonscan.Splice(nil, note.Params, jsonscan.Edit{Name: "requestId", Value: c.req.ID.AppendJSON(nil)})
	case c.hasID(id):
		c.setSubscription()
		return spliceMeta(note.Params, note.Member("_meta"), mcp.MetaSubscriptionID, c.req.ID.AppendJSON(nil))
	case c.notifications != nil && note.Method == mcp.NotificationProgress && string(note.Member(mcp.MetaProgressToken)) == c.token:
		return jsonscan.Splice(nil, note.Params, jsonscan.Edit{Name: mcp.MetaProgressToken, Value: c.req.Member("_meta", mcp.MetaProgressToken)})
	}
	return note.Params, nil
}

// hasID reports whether raw is the id of the call at the server.
func (c *relayCall) hasID(raw json.RawMessage) bool {
	if raw == nil {
		return false
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	id, err := jsonrpc.ParseID(raw)
	return err == nil && id == c.id
}

// result returns the result of the server. The result of a subscription gets the client's id. The entries of a list are
// made valid.
func (c *relayCall) result(resp *jsonrpc.Response) (json.RawMessage, error) {
	if list := listMethodOf(c.req.Method); list != nil {
		return list.valid(resp.Result, c.server.link.relayer.opts.Logger), nil
	}
	if !c.hasID(resp.Member("_meta", mcp.MetaSubscriptionID)) {
		return resp.Result, nil
	}
	return spliceMeta(resp.Result, resp.Member("_meta"), mcp.MetaSubscriptionID, c.req.ID.AppendJSON(nil))
}

// flush waits until the client has received earlier notifications.
func (c *relayCall) flush() {
	if c.notifications != nil {
		c.notifications.close()
		return
	}
	c.server.link.toClient.flush(c.ctx)
}
