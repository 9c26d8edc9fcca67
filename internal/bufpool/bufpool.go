package bufpool

import "sync"

const (
	// minSize is the capacity of a new buffer in bytes.
	minSize = 1 << 10
	// smallSize is up to which capacity a buffer is always kept.
	smallSize = 64 << 10
	// maxSize is the largest capacity of a buffer that is kept.
	maxSize = 8 << 20
	// maxExcess is how many times larger than a text its buffer may be.
	maxExcess = 4
	// maxWasted is after how many small texts in a row a large buffer is dropped.
	maxWasted = 16
)

// A Pool has free buffers, which the garbage collector may drop. The zero value is ready for
// use. Its methods may be called concurrently.
type Pool struct{ free sync.Pool }

// Get returns a buffer of length 0.
func (p *Pool) Get() *Buffer {
	if b, ok := p.free.Get().(*Buffer); ok {
		return b
	}
	return &Buffer{Bytes: make([]byte, 0, minSize), pool: p}
}

// Fit returns a buffer of length 0 that is not much larger than size, in case the caller
// retains it. Its capacity may be less than size.
func (p *Pool) Fit(size int) *Buffer {
	b := p.Get()
	if cap(b.Bytes) <= minSize || cap(b.Bytes)/maxExcess <= size {
		return b
	}
	b.Free()
	return &Buffer{Bytes: make([]byte, 0, minSize), pool: p}
}

// A Buffer is memory from a [Pool]. The caller of Get or Fit owns it until Free, and may
// append to Bytes or replace it. Free of the zero value has no effect.
type Buffer struct {
	Bytes  []byte
	pool   *Pool
	wasted int // how many uses in a row needed little of a large buffer
}

// Free returns the buffer to its pool. Neither the buffer nor a slice of it may be used
// afterwards. A buffer that is not freed is left to the garbage collector.
func (b *Buffer) Free() {
	if b.pool != nil && b.isWorthKeeping() {
		b.Bytes = b.Bytes[:0]
		b.pool.free.Put(b)
	}
}

// isWorthKeeping reports whether to keep the buffer. A large one is kept if one of the last
// uses needed it, so that small texts between large ones do not cost them their memory.
func (b *Buffer) isWorthKeeping() bool {
	size := cap(b.Bytes)
	switch {
	case size <= smallSize:
		return true
	case size > maxSize:
		return false
	case len(b.Bytes) >= size/maxExcess:
		b.wasted = 0
	default:
		b.wasted++
	}
	return b.wasted <= maxWasted
}

// A Recycler reuses the memory of messages. A jsonrpc.Conn looks for it on its stream and on each
// jsonrpc.Replier. Without it, the garbage collector frees the memory.
type Recycler interface {
	// Recycle makes the memory of a message available for reuse, because nothing retains the
	// message. memory is nil if only the recycler knows it.
	Recycle(memory []byte)
}

// A Charger charges large messages to a [Budget]. A jsonrpc.Conn looks for it on its stream and on each
// jsonrpc.Replier. Without it, messages are not counted.
type Charger interface {
	// TakeCharge returns the charge of the message. For a stream, that is the message that was read last. It returns
	// nil for a small message. The caller releases the charge.
	TakeCharge() *Charge
}

// A Holder keeps the buffer that the response to a call was read into until the response has
// been decoded. The client's end of streamable HTTP looks for it on the params of a call. Without it,
// the response is read into memory that is not reused.
type Holder interface {
	Hold(buffer *Buffer)
}
