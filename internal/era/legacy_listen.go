package era

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// listen subscribes to each resource; changed lists come unasked. A server knows
// one subscription for a resource, so it lasts as long as anybody listens.
func (l *legacyClient) listen(ctx context.Context, s *Session, filter mcp.SubscriptionFilter, ready func(mcp.SubscriptionFilter)) error {
	can := accepted(filter, &s.server.Capabilities)
	watched, err := l.watch(ctx, s, can.ResourceSubscriptions)
	defer l.unwatch(s, watched)
	if err != nil {
		return err
	}
	if ready != nil {
		ready(can)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.conn.Done():
		return jsonrpc.ErrClosed
	}
}

// watch subscribes to resources and returns those to unwatch. One listener at a
// time does, and waits for the answer: a server may handle requests in any order,
// and a late unsubscribe must not undo it.
func (l *legacyClient) watch(ctx context.Context, s *Session, uris []string) (watched []string, err error) {
	if len(uris) == 0 {
		return nil, nil
	}
	if err := l.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer l.endTurn()
	for i, uri := range uris {
		if l.watched[uri] == 0 {
			if _, err := s.conn.Call(ctx, mcp.MethodResourcesSubscribe, &mcp.ResourceParams{URI: uri}); err != nil {
				return uris[:i], fmt.Errorf("subscribing to %s: %w", jsonscan.Quote(uri), err)
			}
		}
		l.watched[uri]++
	}
	return uris, nil
}

// unwatch runs after the end of a listener's context, so it has a bound of its
// own. A server that refuses only goes on telling what nobody hears.
func (l *legacyClient) unwatch(s *Session, uris []string) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	if len(uris) == 0 || l.takeTurn(ctx) != nil {
		return
	}
	defer l.endTurn()
	for _, uri := range uris {
		if l.watched[uri]--; l.watched[uri] == 0 {
			delete(l.watched, uri)
			_, _ = s.conn.Call(ctx, mcp.MethodResourcesUnsubscribe, &mcp.ResourceParams{URI: uri})
		}
	}
}

func (l *legacyClient) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *legacyClient) endTurn() { <-l.turn }
