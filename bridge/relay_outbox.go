package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A notification that cannot be passed on at once waits, up to these bounds; then the
// oldest goes.
const (
	maxRelayed     = 1024
	maxRelayedSize = 1 << 20 // bytes of params
)

// A relayedNote is a notification on its way, or a mark among them.
type relayedNote struct {
	ctx context.Context
	to  interface {
		Notify(context.Context, string, jsonrpc.Appender) error
	}
	method string
	params json.RawMessage

	reached chan struct{} // of a mark: closed when all before it have been told
}

func (n *relayedNote) isMark() bool { return n.reached != nil }

// A relayOutbox passes notifications on in order, on a goroutine that lasts as long as
// any wait. The zero value is ready for use; it must be closed.
type relayOutbox struct {
	mu      sync.Mutex
	waiting []relayedNote
	notes   int           // that wait, without marks
	size    int           // bytes of their params
	telling chan struct{} // closed when who tells has ended; nil when nobody does
	closed  bool
}

// add takes a notification. It does not block.
func (o *relayOutbox) add(note relayedNote) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.waiting = append(o.waiting, note)
	o.notes++
	o.size += len(note.params)
	for o.notes > 1 && (o.notes > maxRelayed || o.size > maxRelayedSize) {
		oldest := slices.IndexFunc(o.waiting, func(n relayedNote) bool { return !n.isMark() })
		o.notes--
		o.size -= len(o.waiting[oldest].params)
		o.waiting = slices.Delete(o.waiting, oldest, oldest+1)
	}
	if o.telling == nil {
		o.telling = make(chan struct{})
		go o.run(o.telling)
	}
}

// flush returns when all that waits now has been told, or ctx has ended.
func (o *relayOutbox) flush(ctx context.Context) {
	o.mu.Lock()
	if o.telling == nil {
		o.mu.Unlock()
		return
	}
	reached := make(chan struct{})
	o.waiting = append(o.waiting, relayedNote{reached: reached})
	o.mu.Unlock()
	select {
	case <-reached:
	case <-ctx.Done():
	}
}

// close returns when all that waits has been told. Later notifications are dropped.
func (o *relayOutbox) close() {
	o.mu.Lock()
	o.closed = true
	telling := o.telling
	o.mu.Unlock()
	if telling != nil {
		<-telling
	}
}

func (o *relayOutbox) run(telling chan struct{}) {
	defer close(telling)
	for {
		note, ok := o.next()
		switch {
		case !ok:
			return
		case note.isMark():
			close(note.reached)
		case note.ctx.Err() == nil:
			// Who cannot be told will not get an answer either.
			_ = note.to.Notify(note.ctx, note.method, rawParams(note.params))
		}
	}
}

// next returns what is to be told next. When there is nothing, who tells ends.
func (o *relayOutbox) next() (relayedNote, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.waiting, o.telling = nil, nil
		return relayedNote{}, false
	}
	note := o.waiting[0]
	o.waiting[0] = relayedNote{}
	o.waiting = o.waiting[1:]
	if !note.isMark() {
		o.notes--
		o.size -= len(note.params)
	}
	return note, true
}
