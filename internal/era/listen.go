package era

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// listen holds a subscription open: it is a call that lasts. MCP 2026-07-28,
// basic/patterns/subscriptions.
func (b *binding) listen(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	defer b.listens.Add(-1)
	s, err := b.beginListen(ctx, from, req, caller)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.changes.run(ctx, b.link.Input.Done(), b.server.core.Stopping(), s.tell); err != nil {
		return err
	}
	return b.endListen(s, req, caller, reply)
}

// A subscription that is open. What it took to open it is gone from the stack while
// it waits, since there may be thousands: the runtime halves a stack of which less
// than a quarter is used.
type subscription struct {
	tag     mcp.Meta
	changes *changeQueue
	tell    func(mcp.Change) error
	stop    func()
}

func (b *binding) beginListen(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller) (*subscription, error) {
	open := b.listens.Add(1)
	var want mcp.SubscriptionFilter
	if err := decodeObject(req.Member("notifications"), &want); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "notifications must be an object that says what to listen to: " + err.Error()}
	}
	if n := len(want.ResourceSubscriptions); n > MaxSubscribed {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("at most %d resources can be watched, not %d", MaxSubscribed, n)}
	}
	if open > MaxListens && !b.link.Shared {
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("at most %d subscriptions can be open on one connection", MaxListens)}
	}
	description, err := b.server.core.Describe()
	if err != nil {
		return nil, err
	}
	filter := accepted(want, &description.Capabilities)
	s := &subscription{tag: subscriptionTag(req.ID), changes: newChangeQueue()}
	s.tell = func(change mcp.Change) error { return notifyChange(ctx, from, change, s.tag) }
	call := mcp.NewCall(req, caller, nil)
	if filter, s.stop, err = b.server.core.Watch(ctx, &call, filter, func(change mcp.Change) { s.changes.add(change) }); err != nil {
		return nil, errorFor(caller.Version, err)
	}
	if err := from.Notify(ctx, mcp.NotificationAcknowledged, &mcp.SubscriptionsListenParams{Notifications: filter, Meta: s.tag}); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (b *binding) endListen(s *subscription, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	return b.server.writeModern(req.Method, caller.Version, mcp.Raw(`{"_meta":`+string(s.tag)+`}`), reply)
}

// subscriptionTag is the _meta of everything that belongs to a subscription; the
// id keeps its JSON type.
func subscriptionTag(id jsonrpc.ID) mcp.Meta {
	return mcp.Meta(json.RawMessage(`{"` + mcp.MetaSubscriptionID + `":` + id.String() + `}`))
}
