package process

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
)

// defaultMaxOutput is the default of [Output].Max, in bytes.
const defaultMaxOutput = 64 << 10

// An Output is an io.Writer that keeps the last bytes written to it and counts all of them.
// The zero value is ready to use.
type Output struct {
	// Max is the number of bytes that are kept. Default 64 KiB.
	Max int

	mu      sync.Mutex
	end     []byte // grows to twice Max between writes, so that few bytes are moved
	written int64
}

// Write never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written += int64(len(p))
	limit := cmp.Or(o.Max, defaultMaxOutput)
	o.end = append(o.end, p[max(0, len(p)-limit):]...)
	if len(o.end) > 2*limit {
		o.end = append(o.end[:0], o.end[len(o.end)-limit:]...)
	}
	return len(p), nil
}

// Written returns the number of bytes that have been written.
func (o *Output) Written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written
}

// Since returns a copy of the bytes written after the first since bytes. now is the number of
// bytes written so far, to be passed to the next call. omitted is the number of bytes after
// since that are no longer kept.
func (o *Output) Since(since int64) (text []byte, now, omitted int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := min(int64(len(o.end)), int64(cmp.Or(o.Max, defaultMaxOutput)))
	since = min(max(since, 0), o.written)
	if oldest := o.written - kept; since < oldest {
		omitted = oldest - since
		since = oldest
	}
	return append([]byte{}, o.end[int64(len(o.end))-(o.written-since):]...), o.written, omitted
}

// Text returns the bytes that are kept as valid UTF-8. A first line says how many bytes
// before them are omitted, if any.
func (o *Output) Text() string {
	kept, _, omitted := o.Since(0)
	text := strings.ToValidUTF8(string(kept), "\uFFFD")
	if omitted > 0 {
		text = fmt.Sprintf("… %d bytes omitted before this\n%s", omitted, text)
	}
	return text
}

// String returns the bytes that are kept.
func (o *Output) String() string {
	text, _, _ := o.Since(0)
	return string(text)
}
