package sse

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	// MaxField is the maximum length in bytes of a field other than data in an event that
	// is read.
	MaxField = 4 << 10
	// MinRetry is the shortest retry time of a reader.
	MinRetry = 100 * time.Millisecond
	// MaxRetry is the longest retry time of a reader.
	MaxRetry = time.Minute

	// minReadBuffer is the first buffer of a reader. It grows up to maxReadBuffer when a
	// read fills it.
	minReadBuffer = 4 << 10
	maxReadBuffer = 64 << 10
	// maxEmptyReads is how often in a row a source may return nothing and no error.
	maxEmptyReads = 100
	// maxRecycled is the largest buffer that a reader reuses.
	maxRecycled = 4 << 10
)

// Reader decodes the events of a stream.
type Reader struct {
	source  io.Reader
	readErr error  // came with the last bytes, and is returned after them
	buf     []byte // contains unread
	full    bool   // the last read filled buf
	unread  []byte
	afterCR bool // a following LF belongs to the same line end

	maxEvent int
	begun    bool  // the byte order mark has been handled
	err      error // of every later call

	event   Event // the incomplete event
	hasData bool
	value   []byte // of the incomplete field, except data

	nextID string // becomes lastID when the event is complete
	lastID string
	retry  time.Duration
}

// NewReader returns a reader of events with at most maxEvent bytes of data and [MaxField]
// bytes in each other field. Comments and unknown fields have no limit and take no memory.
func NewReader(r io.Reader, maxEvent int) *Reader {
	return &Reader{source: r, maxEvent: maxEvent, buf: make([]byte, minReadBuffer)}
}

// Next waits for the next event. The caller owns its data. The error is io.EOF at the end of the stream, also within an
// event; a *[TooLongError]; or the error of the source. All later calls return the same error.
func (r *Reader) Next() (Event, error) {
	if r.err == nil {
		r.err = r.skipMark()
	}
	for r.err == nil {
		var blank bool
		blank, r.err = r.readLine()
		if !blank {
			continue
		}
		if e, ok := r.complete(); ok {
			return e, nil
		}
	}
	return Event{}, r.err
}

// Recycle reuses the data of the last event, which the caller must not use anymore.
func (r *Reader) Recycle(data []byte) {
	if cap(data) <= maxRecycled {
		r.event.Data = data[:0]
	}
}

// LastID returns the last event id, or "" if there was none or it was empty. Events without
// data, which Next does not return, count too.
func (r *Reader) LastID() string { return r.lastID }

// Retry returns the last valid retry time, limited to [MinRetry] and [MaxRetry], or 0 if
// there was none.
func (r *Reader) Retry() time.Duration { return r.retry }

// complete ends an event and reports whether it has data.
func (r *Reader) complete() (Event, bool) {
	e, ok := r.event, r.hasData
	r.event, r.hasData = Event{}, false
	r.lastID = r.nextID
	return e, ok
}

// skipMark skips a byte order mark at the beginning of the stream.
func (r *Reader) skipMark() error {
	mark := []byte("\ufeff")
	for !r.begun {
		switch {
		case bytes.HasPrefix(r.unread, mark):
			r.unread = r.unread[len(mark):]
			r.begun = true
		case !bytes.HasPrefix(mark, r.unread):
			r.begun = true
		default:
			if err := r.fill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLine adds one line to the event. A line may be longer than the buffer: its first
// bytes determine the field, and the rest is added as it arrives.
func (r *Reader) readLine() (blank bool, err error) {
	end := lineEnd(r.unread)
	for end < 0 && len(r.unread) < longestPrefix {
		if err := r.fill(); err != nil {
			return false, err
		}
		end = lineEnd(r.unread)
	}
	if end == 0 {
		r.endLine(end)
		return true, nil
	}
	field, prefix := r.beginField(end)
	r.unread = r.unread[prefix:]
	if end >= 0 {
		end -= prefix
	}
	for {
		piece := r.unread
		if end >= 0 {
			piece = piece[:end]
		}
		if err := r.appendValue(field, piece); err != nil {
			return false, err
		}
		if end >= 0 {
			break
		}
		r.unread = nil
		if err := r.fill(); err != nil {
			return false, err
		}
		end = lineEnd(r.unread)
	}
	r.endLine(end)
	r.endField(field)
	return false, nil
}

type field int

const (
	skipped field = iota // a comment or an unknown field
	dataField
	idField
	nameField
	retryField
)

// fieldNames contains the names of the fields.
var fieldNames = [...]string{dataField: "data", idField: "id", nameField: "event", retryField: "retry"}

// longestPrefix is how many bytes of a line determine the field.
const longestPrefix = len("retry: ")

// beginField returns the field of a line and the length of its prefix. The line ends at
// end, or is incomplete if end is -1.
func (r *Reader) beginField(end int) (f field, prefix int) {
	line := r.unread
	if end >= 0 {
		line = line[:end]
	}
	line = line[:min(len(line), longestPrefix)]
	before, value, colon := bytes.Cut(line, []byte(":"))
	f = field(max(slices.Index(fieldNames[:], string(before)), 0))
	if f == dataField {
		if r.hasData {
			r.event.Data = append(r.event.Data, '\n')
		}
		r.hasData = true
	}
	r.value = r.value[:0]
	prefix = len(before)
	if colon {
		prefix++
	}
	if len(value) > 0 && value[0] == ' ' {
		prefix++
	}
	return f, prefix
}

// appendValue adds a piece of a field's value.
func (r *Reader) appendValue(f field, piece []byte) error {
	switch f {
	case skipped:
	case dataField:
		have := len(r.event.Data)
		if len(piece) > r.maxEvent-have {
			return &TooLongError{Field: "data", Max: r.maxEvent}
		}
		if have > 0 && len(piece) > cap(r.event.Data)-have {
			r.event.Data = slices.Grow(r.event.Data, max(len(piece), min(have, r.maxEvent-have)))
		}
		r.event.Data = append(r.event.Data, piece...)
	case idField, nameField, retryField:
		if len(piece) > MaxField-len(r.value) {
			return &TooLongError{Field: fieldNames[f], Max: MaxField}
		}
		r.value = append(r.value, piece...)
	}
	return nil
}

// endField uses a complete value.
func (r *Reader) endField(f field) {
	switch f {
	case skipped, dataField:
	case idField:
		if bytes.IndexByte(r.value, 0) < 0 {
			r.event.ID = string(r.value)
			r.nextID = r.event.ID
		}
	case nameField:
		r.event.Name = eventName(r.value)
	case retryField:
		if d, ok := parseRetry(r.value); ok {
			r.event.Retry = d
			r.retry = d
		}
	}
}

// eventName returns a string without an allocation for the usual name.
func eventName(value []byte) string {
	if string(value) == "message" {
		return "message"
	}
	return string(value)
}

// parseRetry parses whole milliseconds of any size.
func parseRetry(digits []byte) (time.Duration, bool) {
	if len(digits) == 0 || strings.Trim(string(digits), "0123456789") != "" {
		return 0, false
	}
	var ms int64
	for _, c := range digits {
		ms = min(ms*10+int64(c-'0'), MaxRetry.Milliseconds())
	}
	return max(time.Duration(ms)*time.Millisecond, MinRetry), true
}

// endLine continues after the line end at an index.
func (r *Reader) endLine(at int) {
	r.afterCR = r.unread[at] == '\r'
	r.unread = r.unread[at+1:]
	r.dropLF()
}

// dropLF drops the second half of a CRLF.
func (r *Reader) dropLF() {
	if r.afterCR && len(r.unread) > 0 {
		r.afterCR = false
		if r.unread[0] == '\n' {
			r.unread = r.unread[1:]
		}
	}
}

// fill reads more bytes after the unread ones, which are always few.
func (r *Reader) fill() error {
	if r.readErr != nil {
		return r.readErr
	}
	if r.full && len(r.buf) < maxReadBuffer {
		bigger := make([]byte, 2*len(r.buf))
		r.unread = bigger[:copy(bigger, r.unread)]
		r.buf = bigger
	}
	have := copy(r.buf, r.unread)
	for range maxEmptyReads {
		n, err := r.source.Read(r.buf[have:])
		if n == 0 && err == nil {
			continue
		}
		r.unread = r.buf[:have+n]
		r.full = have+n == len(r.buf)
		r.readErr = err
		r.dropLF()
		if n == 0 {
			return err
		}
		return nil
	}
	return io.ErrNoProgress
}
