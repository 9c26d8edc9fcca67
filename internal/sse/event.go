package sse

import (
	"strconv"
	"strings"
	"time"
)

// An Event is one event of a stream.
type Event struct {
	// ID is where a client that comes back wants to go on; "" is none.
	ID string
	// Name is the event's type; "" means "message".
	Name string
	// Data may have any number of lines.
	Data []byte
	// Retry is how long a client is to wait before it comes back; 0 says nothing
	// about it.
	Retry time.Duration
}

// Append appends one event. The data are split at CR, LF and CRLF, and a reader
// gets LF for each. An id or a name with CR, LF or NUL and a negative retry time
// are a *[FieldError], and dst is returned as it was; a retry time is rounded up
// to whole milliseconds.
//
// An event of nothing but a retry time has no data line, so that readers do not
// see an event. Any other has at least one: an event of nothing but an id moves
// the id, and is seen as one with empty data.
func Append(dst []byte, e Event) ([]byte, error) {
	if err := e.check(); err != nil {
		return dst, err
	}
	if e.ID != "" {
		dst = append(dst, "id: "...)
		dst = append(dst, e.ID...)
		dst = append(dst, '\n')
	}
	if e.Name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, e.Name...)
		dst = append(dst, '\n')
	}
	if e.Retry > 0 {
		ms := e.Retry.Milliseconds()
		if e.Retry%time.Millisecond > 0 {
			ms++
		}
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, ms, 10)
		dst = append(dst, '\n')
	}
	if len(e.Data) > 0 || e.Retry == 0 || e.ID != "" || e.Name != "" {
		dst = appendLines(dst, "data:", e.Data)
	}
	return append(dst, '\n'), nil
}

func (e *Event) check() error {
	const forbidden = "must not contain CR, LF or NUL"
	switch {
	case strings.ContainsAny(e.ID, "\r\n\x00"):
		return &FieldError{Field: "id", Reason: forbidden}
	case strings.ContainsAny(e.Name, "\r\n\x00"):
		return &FieldError{Field: "event", Reason: forbidden}
	case e.Retry < 0:
		return &FieldError{Field: "retry", Reason: "must not be negative"}
	}
	return nil
}

// AppendComment appends a comment, which readers skip, and a blank line. A stream
// that is silent for long sends one now and then, so that nothing between the two
// ends takes it for dead.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ":", text), '\n')
}

// appendLines appends a line for each line of the text, each after the prefix.
func appendLines[T string | []byte](dst []byte, prefix string, text T) []byte {
	rest := []byte(text)
	for {
		end := lineEnd(rest)
		line := rest
		if end >= 0 {
			line = rest[:end]
		}
		dst = append(dst, prefix...)
		if len(line) > 0 {
			dst = append(dst, ' ')
			dst = append(dst, line...)
		}
		dst = append(dst, '\n')
		if end < 0 {
			return dst
		}
		if rest[end] == '\r' && end+1 < len(rest) && rest[end+1] == '\n' {
			end++
		}
		rest = rest[end+1:]
	}
}
