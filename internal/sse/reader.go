package sse

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"time"
)

// A Reader reads events from a stream.
type Reader struct {
	source  io.Reader
	readErr error  // came with the last bytes, and is told when those have been read
	buf     []byte // what unread is part of
	full    bool   // the last read left no room in buf
	unread  []byte
	afterCR bool // an LF that comes now belongs to a line that has ended

	maxEvent int
	begun    bool  // the byte order mark is behind
	err      error // what every later call returns

	event   Event // so far
	hasData bool
	value   []byte // of a field other than data, so far

	nextID string // becomes lastID when the event is complete
	lastID string
	retry  time.Duration
}

// NewReader returns a reader of events with at most maxEvent bytes of data; its
// other fields may have [MaxField] bytes each. What is skipped, such as comments, has no
// limit and takes no memory.
func NewReader(r io.Reader, maxEvent int) *Reader {
	return &Reader{source: r, maxEvent: maxEvent, buf: make([]byte, minReadBuffer)}
}

// Next waits for the next event. The slice of its data is the caller's. io.EOF is
// the end of the stream, whether or not an event was begun; an event beyond a
// limit is a *[TooLongError]. After an error, which may be the source's own, all
// calls return that error.
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

// Recycle takes back the data of the event that Next has returned last, once nobody uses
// them any more.
func (r *Reader) Recycle(data []byte) {
	if cap(data) <= maxRecycled {
		r.event.Data = data[:0]
	}
}

// LastID returns the last event id so far, "" if none came or the last was empty.
// Events without data, which Next does not return, count as well.
func (r *Reader) LastID() string { return r.lastID }

// Retry returns the last valid retry time so far, within [MinRetry] and
// [MaxRetry]; 0 says that none came.
func (r *Reader) Retry() time.Duration { return r.retry }

// complete ends an event and says whether it is one that has data.
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

// readLine takes one line into the event. A line may be longer than the buffer:
// its beginning says what it is, and the rest is taken as it comes.
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
		if err := r.take(field, piece); err != nil {
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
	skipped field = iota // a comment, or nothing that the standard knows
	dataField
	idField
	nameField
	retryField
)

// fieldNames are the fields by their names in a stream.
var fieldNames = [...]string{dataField: "data", idField: "id", nameField: "event", retryField: "retry"}

// longestPrefix is how much of a line says what it is.
const longestPrefix = len("retry: ")

// beginField says which field a line has that ends at end, or later than what
// there is of it if end is -1, and how long the prefix is.
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

// take takes a piece of a field's value.
func (r *Reader) take(f field, piece []byte) error {
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

// endField uses a value that is complete.
func (r *Reader) endField(f field) {
	switch f {
	case skipped, dataField:
	case idField:
		if bytes.IndexByte(r.value, 0) < 0 {
			r.event.ID = string(r.value)
			r.nextID = r.event.ID
		}
	case nameField:
		r.event.Name = nameOf(r.value)
	case retryField:
		if d, ok := parseRetry(r.value); ok {
			r.event.Retry = d
			r.retry = d
		}
	}
}

// nameOf saves a string for the name that nearly all events have.
func nameOf(value []byte) string {
	if string(value) == "message" {
		return "message"
	}
	return string(value)
}

// parseRetry reads whole milliseconds, of which there may be more than a number
// can hold.
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

// endLine goes on behind the line end at that place.
func (r *Reader) endLine(at int) {
	r.afterCR = r.unread[at] == '\r'
	r.unread = r.unread[at+1:]
	r.dropLF()
}

// dropLF drops the second half of a CRLF, if that is what comes.
func (r *Reader) dropLF() {
	if r.afterCR && len(r.unread) > 0 {
		r.afterCR = false
		if r.unread[0] == '\n' {
			r.unread = r.unread[1:]
		}
	}
}

// fill reads more behind what is unread, which is always short.
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
