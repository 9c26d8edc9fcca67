package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// listen holds a subscription open: it is a call that lasts. MCP 2026-07-28,
// basic/patterns/subscriptions.
func (b *binding) listen(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	var want mcp.SubscriptionFilter
	if err := decodeObject(req.Member("notifications"), &want); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "notifications must be an object that says what to listen to: " + err.Error()}
	}
	if n := len(want.ResourceSubscriptions); n > MaxSubscribed {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("at most %d resources can be watched, not %d", MaxSubscribed, n)}
	}
	defer b.listens.Add(-1)
	if b.listens.Add(1) > MaxListens {
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("at most %d subscriptions can be open on one connection", MaxListens)}
	}
	core := b.server.core
	filter := agreed(want, &core.Describe().Capabilities)
	changes := newOutbox()
	stop, err := core.Watch(ctx, filter, changes.add)
	if err != nil {
		return errorFor(caller.Version, err)
	}
	defer stop()

	tag := subscriptionTag(req.ID)
	if err := from.Notify(ctx, mcp.NotificationAcknowledged, &mcp.SubscriptionsAcknowledgedParams{Notifications: filter, Meta: tag}); err != nil {
		return err
	}
	err = b.whileLinked(ctx, func(ctx context.Context) error {
		return changes.run(ctx, core.Stopping(), func(change mcp.Change) error {
			return tell(ctx, from, change, tag)
		})
	})
	if err != nil {
		return err
	}
	return b.server.writeModern(req.Method, caller.Version, mcp.Raw(`{"_meta":`+string(tag)+`}`), reply)
}

// whileLinked runs what lasts until its call is cancelled, or until the client can
// say no more, which is nil: a call alone would go on until it is drained.
func (b *binding) whileLinked(ctx context.Context, run func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	b.link.Go(func(link context.Context) {
		defer context.AfterFunc(link, func() { cancel(errNoMoreInput) })()
		done <- run(ctx)
	})
	if err := <-done; !errors.Is(err, errNoMoreInput) {
		return err
	}
	return nil
}

var errNoMoreInput = errors.New("the client has ended its input")

// subscriptionTag is the _meta of everything that belongs to a subscription; the
// id keeps its JSON type.
func subscriptionTag(id jsonrpc.ID) mcp.Meta {
	return mcp.Meta(json.RawMessage(`{"` + mcp.MetaSubscriptionID + `":` + id.String() + `}`))
}
