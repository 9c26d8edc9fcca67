package era

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// listenForever outlasts any use of a subscription: a call without a deadline
// would get the default one.
const listenForever = 10 * 365 * 24 * time.Hour

var errEndedByServer = errors.New("the server has ended the subscription")

// A listen is one open subscription of a modern session.
type listen struct {
	ready func(mcp.SubscriptionFilter)
	end   context.CancelCauseFunc
}

// listen makes the call that lasts as long as the subscription. MCP 2026-07-28,
// basic/patterns/subscriptions.
func (m *modernClient) listen(ctx context.Context, s *Session, filter mcp.SubscriptionFilter, ready func(mcp.SubscriptionFilter)) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	ctx, cancel := context.WithTimeout(ctx, listenForever)
	defer cancel()
	params := &listenParams{
		modernParams: modernParams{era: m, params: &mcp.SubscriptionsListenParams{Notifications: filter}},
		session:      s, listen: &listen{ready: ready, end: end},
	}
	defer params.forget()
	_, err := s.conn.Call(ctx, mcp.MethodSubscriptionsListen, params)
	if errors.Is(err, errEndedByServer) {
		return nil
	}
	return err
}

// listenParams learn the id of their request, which names the subscription.
type listenParams struct {
	modernParams
	session *Session
	listen  *listen
	id      jsonrpc.ID
}

// Identify remembers who listens under the id.
func (p *listenParams) Identify(id jsonrpc.ID) {
	p.id = id
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.session.listens[id] = p.listen
}

func (p *listenParams) forget() {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	delete(p.session.listens, p.id)
}

// acknowledged tells a listener what the server has agreed to.
func (s *Session) acknowledged(note *jsonrpc.Request) {
	l := s.listener(note.Member("_meta", mcp.MetaSubscriptionID))
	if l == nil || l.ready == nil {
		return
	}
	var can mcp.SubscriptionFilter
	if err := decodeObject(note.Member("notifications"), &can); err == nil {
		l.ready(can)
	}
}

// cancelled ends a subscription. A server cancels nothing else.
func (s *Session) cancelled(note *jsonrpc.Request) {
	if l := s.listener(note.Member("requestId")); l != nil {
		l.end(errEndedByServer)
	}
}

func (s *Session) listener(id []byte) *listen {
	known, err := jsonrpc.ParseID(id)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listens[known]
}
