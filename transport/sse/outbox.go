package sse

import (
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
)

// An outbox holds events that wait to be sent, as they will be. Many put messages
// in, one takes events out.
type outbox struct {
	pending chan struct{} // has an element when something is queued

	mu     sync.Mutex
	queued []byte
	spare  []byte        // the events taken last, whose memory is filled next
	room   chan struct{} // closed when the queue has been taken; nil when nobody waits for that
	err    error         // why nothing can be put in any more
}

func newOutbox() *outbox { return &outbox{pending: make(chan struct{}, 1)} }

// put queues a message. It waits while too much is queued, as long as ctx allows.
func (o *outbox) put(ctx context.Context, msg []byte) error {
	o.mu.Lock()
	for len(o.queued) >= maxQueued && o.err == nil {
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		o.mu.Lock()
	}
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	var err error
	if o.queued, err = sse.Append(o.queued, sse.Event{Name: eventMessage, Data: jsonscan.Line(msg)}); err != nil {
		return err
	}
	select {
	case o.pending <- struct{}{}:
	default:
	}
	return nil
}

// take returns what is queued. It is the taker's until the next take.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.queued
	o.queued, o.spare = o.spare[:0], taken
	if cap(taken) > maxPooled {
		o.spare = nil
	}
	o.makeRoom()
	return taken
}

// fail lets nothing more in, for the reason that is given first. What is queued can
// still be taken.
func (o *outbox) fail(reason error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = reason
	}
	o.makeRoom()
}

func (o *outbox) makeRoom() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}
