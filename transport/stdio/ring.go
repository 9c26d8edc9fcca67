package stdio

import (
	"io"
	"sync"
)

// A ring keeps the end of what is written to it, and passes all of it on.
type ring struct {
	mu   sync.Mutex
	tail []byte
	most int
	next io.Writer // nil: nobody wants it
}

// Write never fails: a reader of standard error that does must not stop the
// child.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.tail = append(r.tail, p...)
	if over := len(r.tail) - r.most; over > 0 {
		r.tail = append(r.tail[:0], r.tail[over:]...)
	}
	r.mu.Unlock()
	if r.next != nil {
		_, _ = r.next.Write(p)
	}
	return len(p), nil
}

// String is what has been kept.
func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.tail)
}
