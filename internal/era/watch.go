package era

import (
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// An outbox collects changes until they are sent. Repeated changes become one,
// so a peer that does not read costs no more than what it subscribed to, and
// nobody who makes a change waits for it. The zero value is empty, and is emptied by
// whoever is told to come; one from newOutbox has a goroutine that runs it.
type outbox struct {
	mu       sync.Mutex
	pending  []mcp.Change
	waiting  map[mcp.Change]bool
	wake     chan struct{} // nil: nobody runs it
	attended bool          // somebody empties it, and will look again
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// add never blocks. It says whether somebody must come to empty the outbox.
func (o *outbox) add(change mcp.Change) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting[change] {
		return false
	}
	if o.waiting == nil {
		o.waiting = make(map[mcp.Change]bool)
	}
	o.waiting[change] = true
	o.pending = append(o.pending, change)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	first = !o.attended
	o.attended = true
	return first
}

// take returns what has been added. Who gets nothing need not look again.
func (o *outbox) take() []mcp.Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	pending := o.pending
	o.pending = nil
	o.attended = len(pending) > 0
	clear(o.waiting)
	return pending
}

// run sends what is added until ctx ends, one of two channels is closed or
// sending fails.
func (o *outbox) run(ctx context.Context, gone, stop <-chan struct{}, send func(mcp.Change) error) error {
	for {
		select {
		case <-o.wake:
		case <-gone:
			return nil
		case <-stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, change := range o.take() {
			if err := send(change); err != nil {
				return err
			}
		}
	}
}

// tell tells a peer of a change. The tag is that of a subscription, nil if the
// change is told unasked.
func tell(ctx context.Context, peer jsonrpc.Peer, change mcp.Change, tag mcp.Meta) error {
	var params jsonrpc.Appender
	if tag != nil {
		params = mcp.Raw(`{"_meta":` + string(tag) + `}`)
	}
	switch {
	case change.URI != "":
		return peer.Notify(ctx, mcp.NotificationResourceUpdated, &mcp.ResourceParams{URI: change.URI, Meta: tag})
	case change.Kind == mcp.KindTool:
		return peer.Notify(ctx, mcp.NotificationToolsListChanged, params)
	case change.Kind == mcp.KindPrompt:
		return peer.Notify(ctx, mcp.NotificationPromptsListChanged, params)
	default:
		return peer.Notify(ctx, mcp.NotificationResourcesListChanged, params)
	}
}

// agreed is the part of a filter that a server with these capabilities can hold.
func agreed(want mcp.SubscriptionFilter, has *mcp.ServerCapabilities) mcp.SubscriptionFilter {
	var can mcp.SubscriptionFilter
	can.ToolsListChanged = want.ToolsListChanged && has.Tools != nil && has.Tools.ListChanged
	can.PromptsListChanged = want.PromptsListChanged && has.Prompts != nil && has.Prompts.ListChanged
	can.ResourcesListChanged = want.ResourcesListChanged && has.Resources != nil && has.Resources.ListChanged
	if has.Resources != nil && has.Resources.Subscribe {
		can.ResourceSubscriptions = want.ResourceSubscriptions
	}
	return can
}
