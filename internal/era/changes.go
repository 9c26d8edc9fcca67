package era

import (
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A changeQueue holds changes until they are sent. Equal changes are queued once, so the length
// of the queue is limited by the subscriptions of the peer. Adding does not wait for the peer.
// For the zero value, the caller of add that got true must call take until the queue is empty.
// For a queue from newChangeQueue, the goroutine in run does so.
type changeQueue struct {
	mu       sync.Mutex
	pending  []mcp.Change
	waiting  map[mcp.Change]bool
	ready    chan struct{} // nil if run is not used
	draining bool          // a goroutine empties the queue, and will call take again
}

func newChangeQueue() *changeQueue { return &changeQueue{ready: make(chan struct{}, 1)} }

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
	case q.ready <- struct{}{}:
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

// run sends changes until ctx ends, one of the two channels is closed or sending fails. Its frame is small, because
// there may be thousands of subscriptions that wait here.
func (q *changeQueue) run(ctx context.Context, inputEnd, stop <-chan struct{}, send func(mcp.Change) error) error {
	for {
		select {
		case <-q.ready:
		case <-inputEnd:
			return nil
		case <-stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := q.sendPending(send); err != nil {
			return err
		}
	}
}

func (q *changeQueue) sendPending(send func(mcp.Change) error) error {
	for _, change := range q.take() {
		if err := send(change); err != nil {
			return err
		}
	}
	return nil
}

// notifyChange notifies a client of a change. tag is the _meta of the subscription, nil for
// notifications without one.
func (s *Server) notifyChange(ctx context.Context, peer jsonrpc.Peer, to *mcp.Caller, change mcp.Change, tag mcp.Meta) error {
	var params jsonrpc.Appender
	if tag != nil {
		params = mcp.Raw(`{"_meta":` + string(tag) + `}`)
	}
	if change.URI != "" {
		return s.notify(ctx, peer, to, mcp.NotificationResourceUpdated, &mcp.ResourceParams{URI: change.URI, Meta: tag})
	}
	return s.notify(ctx, peer, to, listNotifications[notified(change.Kind)], params)
}

// accepted returns the part of a filter that a server with these capabilities supports.
func accepted(want mcp.SubscriptionFilter, has *mcp.ServerCapabilities) mcp.SubscriptionFilter {
	var filter mcp.SubscriptionFilter
	filter.ToolsListChanged = want.ToolsListChanged && has.Tools != nil && has.Tools.ListChanged
	filter.PromptsListChanged = want.PromptsListChanged && has.Prompts != nil && has.Prompts.ListChanged
	filter.ResourcesListChanged = want.ResourcesListChanged && has.Resources != nil && has.Resources.ListChanged
	filter.EventsListChanged = want.EventsListChanged && reportsEvents(has)
	if has.Resources != nil && has.Resources.Subscribe {
		filter.ResourceSubscriptions = want.ResourceSubscriptions
	}
	if has.HasExtension(mcp.ExtensionTasks) {
		filter.TaskIDs = want.TaskIDs
	}
	return filter
}
