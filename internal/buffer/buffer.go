// Package buffer lends memory for texts that somebody makes or reads, and that nobody
// keeps.
package buffer

import (
	"bytes"
	"sync"
)

const (
	// smallest is what a new buffer has room for, in bytes.
	smallest = 1 << 10
	// common is up to how many bytes a buffer is kept whatever it was used for.
	common = 64 << 10
	// largest is the largest buffer that is kept.
	largest = 8 << 20
	// loose is how many times what is needed a buffer may hold, and be of use.
	loose = 4
	// patience is how many small texts in a row may have had a large buffer that is kept.
	patience = 16
)

// A Buffer is a slice on loan, with a length of 0 to begin with. Whoever has got it from
// a [Pool] owns it until Free, and may let it grow or put another slice in its place. The
// zero value is no loan.
type Buffer struct {
	Bytes []byte
	pool  *Pool
	usage Usage
}

// Free ends the loan: neither the buffer nor a slice of it may be used any more. Without
// Free it is garbage, as anything else.
func (b *Buffer) Free() {
	if b.pool != nil && b.usage.IsWorthKeeping(b.Bytes) {
		b.Bytes = b.Bytes[:0]
		b.pool.free.Put(b)
	}
}

// A Usage remembers how much of a buffer was needed whenever it was used. The zero value
// is that of a new one.
type Usage struct {
	wasted int // in how many uses in a row a large buffer was not needed
}

// IsWorthKeeping says whether to keep a buffer that has been used, as far as its length.
// A large one is kept if it was needed lately: small texts between large ones do not cost
// them their memory, nor do small texts hold it for ever.
func (u *Usage) IsWorthKeeping(used []byte) bool {
	size := cap(used)
	switch {
	case size <= common:
		return true
	case size > largest:
		return false
	case len(used) >= size/loose:
		u.wasted = 0
	default:
		u.wasted++
	}
	return u.wasted <= patience
}

// A Pool has the buffers that are not on loan, for as long as the garbage collector
// leaves them. The zero value is ready, and its methods may be called concurrently.
type Pool struct{ free sync.Pool }

// Get lends a buffer.
func (p *Pool) Get() *Buffer {
	if b, ok := p.free.Get().(*Buffer); ok {
		return b
	}
	return p.make()
}

// Fit lends a buffer for a text of that size, or a new one. It is not much larger, in case
// the text is kept.
func (p *Pool) Fit(size int) *Buffer {
	if b := p.fitting(size); b != nil {
		return b
	}
	return p.make()
}

// Clone copies a text into memory of the pool that fits, or new memory. [Pool.Give] ends
// the loan.
func (p *Pool) Clone(text []byte) []byte {
	if b := p.fitting(len(text)); b != nil {
		return append(b.Bytes, text...)
	}
	return bytes.Clone(text)
}

// Give gives memory to the pool, which nobody else may use any more.
func (p *Pool) Give(memory []byte) { (&Buffer{Bytes: memory, pool: p}).Free() }

func (p *Pool) make() *Buffer { return &Buffer{Bytes: make([]byte, 0, smallest), pool: p} }

// fitting is a buffer of the pool that is not much too large, nil if the next one is.
func (p *Pool) fitting(size int) *Buffer {
	b, ok := p.free.Get().(*Buffer)
	if !ok {
		return nil
	}
	if cap(b.Bytes)/loose > size {
		b.Free()
		return nil
	}
	return b
}
