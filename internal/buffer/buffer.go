// Package buffer lends memory for texts that somebody makes or reads, and that nobody
// keeps.
package buffer

import "sync"

const (
	// smallest is what a new buffer has room for, in bytes.
	smallest = 1 << 10
	// common is up to how many bytes a buffer is kept whatever it was used for.
	common = 64 << 10
	// largest is the largest buffer that is kept.
	largest = 8 << 20
)

// A Buffer is a slice on loan, with a length of 0 to begin with. Whoever has got it from
// a [Pool] owns it until Free, and may let it grow or put another slice in its place. The
// zero value is no loan.
type Buffer struct {
	Bytes []byte
	pool  *Pool
}

// Free ends the loan: neither the buffer nor a slice of it may be used any more. Without
// Free it is garbage, as anything else.
func (b *Buffer) Free() {
	if b.pool != nil && isWorthKeeping(len(b.Bytes), cap(b.Bytes)) {
		b.Bytes = b.Bytes[:0]
		b.pool.free.Put(b)
	}
}

// isWorthKeeping says whether a buffer of which so much was used goes back. A large one
// does only if it was needed: so it is not held by small texts for ever.
func isWorthKeeping(used, size int) bool {
	return size <= common || size <= largest && used >= size/4
}

// A Pool has the buffers that are not on loan, for as long as the garbage collector
// leaves them. The zero value is ready, and its methods may be called concurrently.
type Pool struct{ free sync.Pool }

// Get lends a buffer.
func (p *Pool) Get() *Buffer {
	if b, ok := p.free.Get().(*Buffer); ok {
		return b
	}
	return &Buffer{make([]byte, 0, smallest), p}
}
