package webclient

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/dovetail-go/dovetail/internal/buffer"
)

// A Text is what is posted. net/http may still read it when Post has returned: its memory
// is given back when whoever has made it and all who read it are done. The zero value has
// no text, and may be released.
type Text struct {
	mu     sync.Mutex
	bytes  []byte
	memory *buffer.Buffer // that the bytes stand in, nil when it need not be given back
	users  int
}

// Hold makes what is in a buffer the text, and the buffer the text's. It is called once.
func (t *Text) Hold(memory *buffer.Buffer) {
	if len(memory.Bytes) < lentFrom {
		t.bytes = bytes.Clone(memory.Bytes)
		memory.Free()
		return
	}
	t.bytes, t.memory, t.users = memory.Bytes, memory, 1
}

// Bytes are the text's as long as it has not been released.
func (t *Text) Bytes() []byte { return t.bytes }

// Retain says that somebody else needs the text as well, and releases it too.
func (t *Text) Retain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users++
}

// Release says that whoever has made the text does not need it any more.
func (t *Text) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users == 0 && t.memory != nil {
		t.memory.Free()
	}
}

var errReleased = errors.New("the text to post has been released")

// open returns a body that reads the text from its beginning.
func (t *Text) open() (io.ReadCloser, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.memory == nil:
		return io.NopCloser(bytes.NewReader(t.bytes)), nil // of which net/http knows that it need not wait for it
	case t.users == 0:
		return nil, errReleased
	}
	t.users++
	return &reading{text: t}, nil
}

// A reading is a body, which net/http may close on another goroutine than it reads it.
type reading struct {
	mu   sync.Mutex
	text *Text // nil when it is closed
	read int
}

// Read copies what comes next.
func (r *reading) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == nil {
		return 0, errReleased
	}
	n := copy(p, r.text.bytes[r.read:])
	r.read += n
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close may be called more than once.
func (r *reading) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != nil {
		r.text.Release()
		r.text = nil
	}
	return nil
}
