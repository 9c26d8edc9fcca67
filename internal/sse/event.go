package sse

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Event is one event of a stream.
type Event struct {
	// ID is the position from which a client resumes; "" means none.
	ID string
	// Name is the event's type; "" means "message".
	Name string
	// Data may contain any number of lines.
	Data []byte
	// Retry is the delay before a client reconnects; 0 means that no delay is sent.
	Retry time.Duration
}

// Append appends one event. It splits the data at CR, LF and CRLF, for each of which a
// reader gets LF. It rounds a retry time up to whole milliseconds. An id or a name with CR,
// LF or NUL or a negative retry time is a *[FieldError], and dst is returned unchanged.
//
// An event with only a retry time has no data line, so that readers do not report an event.
// Any other event has at least one: readers report an event with only an id as one with
// empty data.
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

// AppendComment appends a comment, which readers skip, and a blank line. Sending comments
// keeps intermediaries from closing a silent connection.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ":", text), '\n')
}

// appendLines appends each line of the text after the prefix.
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

// lineEnd returns the index of the first CR or LF, or -1. It searches windows of growing
// size, so that its time depends on the first line only, whatever follows.
func lineEnd(text []byte) int {
	for from, size := 0, 64; from < len(text); from, size = from+size, 2*size {
		window := text[from:min(from+size, len(text))]
		end := bytes.IndexByte(window, '\n')
		if end >= 0 {
			window = window[:end]
		}
		if cr := bytes.IndexByte(window, '\r'); cr >= 0 {
			end = cr
		}
		if end >= 0 {
			return from + end
		}
	}
	return -1
}

// TooLongError is the error of a reader for an event that exceeds a limit.
type TooLongError struct {
	// Field is "data", "id", "event" or "retry".
	Field string
	// Max is the limit in bytes.
	Max int
}

// Error returns the field and its limit.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("sse: the %s of an event is longer than %d bytes", e.Field, e.Max)
}

// FieldError is the error of an event that cannot be encoded.
type FieldError struct {
	// Field is "id", "event" or "retry".
	Field string
	// Reason describes the invalid value.
	Reason string
}

// Error returns the field and the reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("sse: the field %s of an event %s", e.Field, e.Reason)
}
