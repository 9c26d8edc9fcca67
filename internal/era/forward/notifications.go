package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// notifications are those of the server for the caller of one call. They go to the run of
// the caller's call that is attached; between two runs they wait for the next one.
type notifications struct {
	mu       sync.Mutex
	ctx      context.Context
	call     *mcp.Call // nil if no run is attached
	queue    []note
	size     int // bytes of the queue
	relaying bool
	relays   sync.WaitGroup // grows only while a run is attached
}

// A note is a notification.
type note struct {
	method string
	params json.RawMessage
	level  mcp.LoggingLevel // of a log message
}

// Limits of the notes that a slow caller has not taken. The oldest are dropped.
const (
	maxNotes     = 1024
	maxNotesSize = 1 << 20
)

// attach begins a run.
func (n *notifications) attach(ctx context.Context, call *mcp.Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ctx, n.call = ctx, call
	n.relay()
}

// detach ends the run, after all notes so far have been sent.
func (n *notifications) detach() {
	n.mu.Lock()
	n.ctx, n.call = nil, nil
	n.mu.Unlock()
	n.relays.Wait()
}

func (n *notifications) isAttached() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.call != nil
}

// add queues a notification, of which it keeps a copy. It does not block.
func (n *notifications) add(notification *jsonrpc.Request) {
	added := note{method: notification.Method, params: bytes.Clone(notification.Params)}
	if level := notification.Member("level"); jsonscan.KindOf(level) == jsonscan.String {
		added.level = mcp.LoggingLevel(jsonscan.Unquote(level))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, added)
	n.size += len(added.params)
	for len(n.queue) > 1 && (len(n.queue) > maxNotes || n.size > maxNotesSize) {
		n.size -= len(n.queue[0].params)
		n.queue = n.queue[1:]
	}
	n.relay()
}

// relay starts a goroutine that sends the queue to the run that is attached, until the
// queue is empty or, once more, when the run has ended. It is called with mu held.
func (n *notifications) relay() {
	if n.call == nil || n.relaying || len(n.queue) == 0 {
		return
	}
	n.relaying = true
	ctx, call := n.ctx, n.call
	n.relays.Go(func() {
		for last := false; !last; {
			n.mu.Lock()
			queue := n.queue
			n.queue, n.size = nil, 0
			last = len(queue) == 0 || n.call == nil
			n.relaying = !last
			n.mu.Unlock()
			for _, note := range queue {
				_ = note.send(ctx, call) // a caller that cannot be reached will not get the result either
			}
		}
	})
}

// send sends a note to the caller in its own terms, if the caller wants it.
func (n *note) send(ctx context.Context, call *mcp.Call) error {
	if n.method == mcp.NotificationMessage {
		wanted := call.Caller.LogLevel
		if wanted == "" || n.level == "" || n.level.Severity() < wanted.Severity() {
			return nil
		}
		return call.Notify(ctx, n.method, mcp.Raw(n.params))
	}
	token := call.Member(memberMeta, mcp.MetaProgressToken)
	if token == nil {
		return nil
	}
	params, err := jsonscan.Splice(nil, n.params, jsonscan.Edit{Name: mcp.MetaProgressToken, Value: token})
	if err != nil {
		return err
	}
	return call.Notify(ctx, n.method, mcp.Raw(params))
}
