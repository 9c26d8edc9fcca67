package era

import (
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A changeQueue collects changes until they are sent. Equal changes are sent once, so the
// queue is no longer than what the peer has subscribed to, and adding never waits for the
// peer. The zero value is emptied with take by the caller of add that got true; a queue
// from newChangeQueue is emptied by the goroutine that calls run.
type changeQueue struct {
	mu       sync.Mutex
	pending  []mcp.Change
	waiting  map[mcp.Change]bool
	wake     chan struct{} // nil if run is not used
	draining bool          // a goroutine empties the queue, and will call take again
}

func newChangeQueue() *changeQueue { return &changeQueue{wake: make(chan struct{}, 1)} }

// add never blocks. It reports whether the caller must start to empty the queue.
func (q *changeQueue) add(change mcp.Change) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[change] {
		return false
	}
	if q.waiting == nil {
		q.waiting = make(map[mcp.Change]bool)
	}
	q.waiting[change] = true
	q.pending = append(q.pending, change)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	first = !q.draining
	q.draining = true
	return first
}

// take returns the changes that were added since the last call. A goroutine that gets none
// stops calling.
func (q *changeQueue) take() []mcp.Change {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending := q.pending
	q.pending = nil
	q.draining = len(pending) > 0
	clear(q.waiting)
	return pending
}

// run sends what is added until ctx ends, one of two channels is closed or
// sending fails.
func (q *changeQueue) run(ctx context.Context, gone, stop <-chan struct{}, send func(mcp.Change) error) error {
	for {
		select {
		case <-q.wake:
		case <-gone:
			return nil
		case <-stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, change := range q.take() {
			if err := send(change); err != nil {
				return err
			}
		}
	}
}

// notifyChange tells a peer of a change. The tag is that of a subscription, nil if the
// change is told unasked.
func notifyChange(ctx context.Context, peer jsonrpc.Peer, change mcp.Change, tag mcp.Meta) error {
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

// accepted is the part of a filter that a server with these capabilities can hold.
func accepted(want mcp.SubscriptionFilter, has *mcp.ServerCapabilities) mcp.SubscriptionFilter {
	var can mcp.SubscriptionFilter
	can.ToolsListChanged = want.ToolsListChanged && has.Tools != nil && has.Tools.ListChanged
	can.PromptsListChanged = want.PromptsListChanged && has.Prompts != nil && has.Prompts.ListChanged
	can.ResourcesListChanged = want.ResourcesListChanged && has.Resources != nil && has.Resources.ListChanged
	if has.Resources != nil && has.Resources.Subscribe {
		can.ResourceSubscriptions = want.ResourceSubscriptions
	}
	return can
}
