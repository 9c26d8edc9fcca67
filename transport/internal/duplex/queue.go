package duplex

import (
	"context"
	"iter"
	"sync"
)

const (
	// maxQueued is the number of bytes from which Put waits.
	maxQueued = 256 << 10
	// maxPooled is the largest buffer in bytes that a queue keeps for reuse.
	maxPooled = 64 << 10
)

// Queue holds encoded messages that wait to be sent, at most about
// 256 KiB and one message. Many goroutines put messages in, one takes them out.
type Queue struct {
	encode func(dst, message []byte) ([]byte, error)
	ready  chan struct{}

	mu     sync.Mutex
	queued Batch
	spare  Batch         // the batch taken last, whose memory is reused
	room   chan struct{} // closed when the queue has room; nil when no writer waits
	err    error         // why the queue is closed
}

// NewQueue returns an empty queue. encode appends the form in which a message is sent; nil
// means the message itself.
func NewQueue(encode func(dst, message []byte) ([]byte, error)) *Queue {
	if encode == nil {
		encode = func(dst, message []byte) ([]byte, error) { return append(dst, message...), nil }
	}
	return &Queue{encode: encode, ready: make(chan struct{}, 1)}
}

// Ready receives a value when there is something to take.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Put queues a message and does not retain it. While the queue is full, Put waits until ctx ends. Put returns the error
// of ctx, the error of encoding, or the reason given to Close.
func (q *Queue) Put(ctx context.Context, message []byte) error {
	q.mu.Lock()
	for len(q.queued.text) >= maxQueued && q.err == nil {
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	text, err := q.encode(q.queued.text, message)
	if err != nil {
		return err
	}
	q.queued.text, q.queued.ends = text, append(q.queued.ends, len(text))
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return nil
}

// Take removes everything from the queue. The batch is valid until the next Take.
func (q *Queue) Take() Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.queued
	q.queued = Batch{q.spare.text[:0], q.spare.ends[:0]}
	q.spare = taken
	if cap(taken.text) > maxPooled {
		q.spare = Batch{}
	}
	q.signalRoom()
	return taken
}

// Close makes every later Put fail with the reason of the first Close. Take still returns
// what is queued.
func (q *Queue) Close(reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = reason
	}
	q.signalRoom()
}

func (q *Queue) signalRoom() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// Batch is a sequence of encoded messages in one buffer.
type Batch struct {
	text []byte
	ends []int
}

// Bytes returns all messages, one after the other.
func (b Batch) Bytes() []byte { return b.text }

// Messages returns the messages one by one.
func (b Batch) Messages() iter.Seq[[]byte] {
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
