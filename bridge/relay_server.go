package bridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A relayServer is one connection of a relay to its server, and takes what comes back.
type relayServer struct {
	link  *relayLink
	ready chan struct{} // closed when conn or err is known
	conn  transport.Conn
	err   error

	mu     sync.Mutex
	calls  []*relayCall // that are under way, oldest first
	tokens int64
}

// run connects, and ends the connection with the link.
func (s *relayServer) run() {
	ctx, cancel := context.WithTimeout(s.link.ctx, s.link.relay.opts.ConnectTimeout)
	s.conn, s.err = s.link.relay.dialer.Dial(ctx, s)
	cancel()
	close(s.ready)
	if s.err != nil {
		return
	}
	select {
	case <-s.conn.Done():
	case <-s.link.ctx.Done():
	}
	_ = s.conn.Close() // nobody is left who could be told
}

// isReplaceable says whether there can be another connection in place of this one, since
// it was never open, or has ended and nothing was said that later messages rest on.
func (s *relayServer) isReplaceable() bool {
	switch {
	case !isClosed(s.ready):
		return false
	case s.err != nil:
		return true
	default:
		return s.link.link.Shared && isClosed(s.conn.Done())
	}
}

// answer has a call answered. What the server told before is told before the answer.
func (s *relayServer) answer(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	c, err := s.begin(ctx, from, req)
	if err != nil {
		return err
	}
	defer c.forget()
	resp, err := s.conn.Call(c.ctx, req.Method, c.params())
	s.end(c)
	c.settle()
	if err != nil {
		return failed(ctx, "", err)
	}
	result, err := c.result(resp)
	reply.Buf = append(reply.Buf, result...)
	return err
}

func (s *relayServer) begin(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (*relayCall, error) {
	c, err := newRelayCall(ctx, s, from, req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	return c, nil
}

func (s *relayServer) end(c *relayCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.calls, c); i >= 0 {
		s.calls = slices.Delete(s.calls, i, i+1)
	}
}

// newToken returns a progress token that no other call of the connection has.
func (s *relayServer) newToken() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	return strconv.AppendInt(nil, s.tokens, 10)
}

// cancelled ends a call of the client with that id, in its own words. Ids of a link that
// several clients share say nothing.
func (s *relayServer) cancelled(id jsonrpc.ID, note *jsonrpc.Request) {
	if s.link.link.Shared {
		return
	}
	if c := s.find(func(c *relayCall) bool { return c.req.ID == id }); c != nil {
		c.cancel(&relayedCancel{note.Params})
	}
}

// find returns the oldest call for which a condition holds, under the lock.
func (s *relayServer) find(holds func(*relayCall) bool) *relayCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.calls, holds); i >= 0 {
		return s.calls[i]
	}
	return nil
}

// withID returns the call that the server knows by an id.
func (s *relayServer) withID(raw []byte) *relayCall {
	id, err := jsonrpc.ParseID(raw)
	if err != nil {
		return nil
	}
	return s.find(func(c *relayCall) bool { return c.id == id })
}

// oldest returns the call that something belongs to which nothing tells the call of; on
// a link that several clients share there must be no other that it could be.
func (s *relayServer) oldest() *relayCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *relayCall
	for _, c := range s.calls {
		switch {
		case c.stop != nil: // it is a subscription
		case found == nil:
			found = c
		case s.link.link.Shared:
			return nil
		}
	}
	return found
}

// relayCallKey is that of the call in the context of its request.
type relayCallKey struct{}

// callOf returns the call that a message came along with, or nil.
func (s *relayServer) callOf(from jsonrpc.Peer) *relayCall {
	if companion, ok := from.(transport.Companion); ok {
		if c, ok := companion.Beside().Value(relayCallKey{}).(*relayCall); ok && c.server == s {
			return c
		}
	}
	return nil
}

// named returns the call that a notification names, or nil.
func (s *relayServer) named(note *jsonrpc.Request) *relayCall {
	if id := note.Member("_meta", mcp.MetaSubscriptionID); id != nil {
		return s.withID(id)
	}
	if note.Method == mcp.NotificationProgress {
		token := tokenText(note.Member(mcp.MetaProgressToken))
		return s.find(func(c *relayCall) bool { return c.token != "" && c.token == token })
	}
	return nil
}

// Notified passes on what the server tells, to the call that it belongs to.
func (s *relayServer) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
	if note.Method == mcp.NotificationCancelled {
		s.endedByServer(from, note)
		return
	}
	c := s.callOf(from)
	if c == nil {
		c = s.named(note)
	}
	if c == nil && s.link.link.Peer == nil && note.Method == mcp.NotificationMessage {
		c = s.oldest()
	}
	switch l := s.link; {
	case c != nil:
		c.tell(note)
	case l.link.Peer != nil:
		l.toClient.add(relayedNote{ctx: l.ctx, to: l.link.Peer, method: note.Method, params: note.Params})
	}
}

// endedByServer ends a question of the server, or tells that it has ended a subscription.
func (s *relayServer) endedByServer(from jsonrpc.Peer, note *jsonrpc.Request) {
	id, err := jsonrpc.ParseID(note.Member("requestId"))
	if err != nil {
		return
	}
	if c := s.find(func(c *relayCall) bool { return c.id == id && c.stop != nil }); c != nil {
		c.tell(note)
		return
	}
	from.Cancel(id)
}

// Handle has the client answer a question of the server.
func (s *relayServer) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	c := s.callOf(from)
	if _, companion := from.(transport.Companion); c == nil && !companion {
		c = s.oldest()
	}
	to := s.link.link.Peer
	if c != nil {
		c.out().flush(ctx)
		to = c.from
	}
	if to == nil {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: fmt.Sprintf("method not found: %.256q", req.Method)}
	}
	ctx, cancel := context.WithTimeout(ctx, unbounded)
	defer cancel()
	resp, err := to.Call(ctx, req.Method, rawParams(req.Params))
	if err != nil {
		return err
	}
	reply.Buf = append(reply.Buf, resp.Result...)
	return nil
}

// Abandoned tells the server that its client waits no longer for an answer.
func (s *relayServer) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	tellAbandoned(from, id, cause)
}
