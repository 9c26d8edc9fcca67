package era

import (
	"bytes"
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// An EventQueue holds the notifications of a stream of events until they are taken. When it is full,
// it cancels the stream, which can be continued after what was taken: nothing is dropped. Add, End
// and Take may be called concurrently.
type EventQueue struct {
	most, mostBytes int
	cancel          context.CancelFunc
	ready           chan struct{} // has a value if something was added

	mu      sync.Mutex
	waiting []*jsonrpc.Request
	bytes   int
	full    bool
	ended   bool
	err     error
}

// NewEventQueue returns an empty queue for a number of notifications, and for a number of bytes. One
// notification may be larger.
func NewEventQueue(most, mostBytes int, cancel context.CancelFunc) *EventQueue {
	return &EventQueue{most: most, mostBytes: mostBytes, cancel: cancel, ready: make(chan struct{}, 1)}
}

// Ready returns a channel that gets a value when there is something to take.
func (q *EventQueue) Ready() <-chan struct{} { return q.ready }

func (q *EventQueue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Add queues a copy of a notification. It does not block.
func (q *EventQueue) Add(n *jsonrpc.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.full {
		return
	}
	if len(q.waiting) > 0 && (len(q.waiting) >= q.most || q.bytes+len(n.Params) > q.mostBytes) {
		q.full = true
		q.cancel()
		return
	}
	q.waiting = append(q.waiting, &jsonrpc.Request{Method: n.Method, Params: bytes.Clone(n.Params)})
	q.bytes += len(n.Params)
	q.signal()
}

// End records why the stream has ended.
func (q *EventQueue) End(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.full {
		err = nil
	}
	q.ended, q.err = true, err
	q.signal()
}

// Take returns what waits. If nothing does, ended reports whether the stream has ended, and err why;
// it is nil if the queue was full.
func (q *EventQueue) Take() (waiting []*jsonrpc.Request, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting = q.waiting
	q.waiting, q.bytes = nil, 0
	return waiting, q.ended, q.err
}
