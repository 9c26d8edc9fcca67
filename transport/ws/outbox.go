package ws

import (
	"context"
	"iter"
	"sync"
)

// An outbox holds messages that wait to be written. Many put them in, one takes
// them out.
type outbox struct {
	pending chan struct{} // has an element when something is queued

	mu     sync.Mutex
	queued batch
	spare  batch         // the one written last, to be filled next
	room   chan struct{} // closed when the queue has been taken; nil when nobody waits for that
	err    error         // why nothing can be put in any more
}

func newOutbox() *outbox {
	return &outbox{pending: make(chan struct{}, 1)}
}

// put queues a copy of a message. It waits while too much is queued, as long as
// ctx allows.
func (o *outbox) put(ctx context.Context, message []byte) error {
	o.mu.Lock()
	for len(o.queued.text) >= maxQueued && o.err == nil {
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
	o.queued.add(message)
	select {
	case o.pending <- struct{}{}:
	default:
	}
	return nil
}

// take returns what is queued. It is the taker's until the next take.
func (o *outbox) take() batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.queued
	o.queued, o.spare = o.spare.emptied(), taken
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

// A batch is a sequence of messages in one piece of memory.
type batch struct {
	text []byte
	ends []int
}

func (b *batch) add(message []byte) {
	b.text = append(b.text, message...)
	b.ends = append(b.ends, len(b.text))
}

func (b *batch) messages() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := 0
		for _, end := range b.ends {
			if !yield(b.text[start:end]) {
				return
			}
			start = end
		}
	}
}

// emptied keeps the memory, unless it is too much to keep.
func (b *batch) emptied() batch {
	if cap(b.text) > maxSpare {
		return batch{}
	}
	return batch{text: b.text[:0], ends: b.ends[:0]}
}
