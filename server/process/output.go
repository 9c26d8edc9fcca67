package process

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
)

// An Output keeps the end of what a command writes, and counts the rest. The zero value is
// good.
type Output struct {
	// Most is how many bytes are kept. Default [DefaultKept].
	Most int

	mu      sync.Mutex
	end     []byte // up to twice as much between writes, so that little is moved
	written int64
}

// Write takes everything.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written += int64(len(p))
	most := cmp.Or(o.Most, DefaultKept)
	o.end = append(o.end, p[max(0, len(p)-most):]...)
	if len(o.end) > 2*most {
		o.end = append(o.end[:0], o.end[len(o.end)-most:]...)
	}
	return len(p), nil
}

// Written is how many bytes have been written.
func (o *Output) Written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written
}

// Since returns what has been written after so many bytes, as far as it has been kept, and
// how many bytes have been written by now: the next call's since. left is how many of the
// bytes after since are left out.
func (o *Output) Since(since int64) (text []byte, now, left int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := min(int64(len(o.end)), int64(cmp.Or(o.Most, DefaultKept)))
	since = min(max(since, 0), o.written)
	if oldest := o.written - kept; since < oldest {
		left = oldest - since
		since = oldest
	}
	return append([]byte{}, o.end[int64(len(o.end))-(o.written-since):]...), o.written, left
}

// Text is what has been kept as UTF-8, after a line that says how much has not been.
func (o *Output) Text() string {
	kept, _, left := o.Since(0)
	text := strings.ToValidUTF8(string(kept), "\uFFFD")
	if left > 0 {
		text = fmt.Sprintf("… %d bytes before this are left out\n%s", left, text)
	}
	return text
}

// String is what has been kept.
func (o *Output) String() string {
	text, _, _ := o.Since(0)
	return string(text)
}
