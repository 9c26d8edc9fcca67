package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// An Error is one thing that is wrong in a file. Errors of [Parse] and
// [Server.Expand] are all that were found, 64 at the most, joined as by errors.Join.
type Error struct {
	// File is the name of the file, Line and Column the place in it, from 1; columns
	// are characters. Line is 0 for a server that was not read from a file.
	File         string
	Line, Column int
	// Server is the alias of the server, Field the member of it, such as args[1];
	// each is "" when it is not about one.
	Server, Field string
	// Message says what was expected. It never tells values.
	Message string
	// Err is the reason, if there is one beside Message.
	Err error
}

// Error tells all of it on one line.
func (e *Error) Error() string {
	var b strings.Builder
	if b.WriteString(e.File); e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if e.Server != "" {
		b.WriteString(": server " + e.Server)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	b.WriteString(": " + e.Message)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// A Warning is about something in a file that has no effect.
type Warning struct {
	// Line and Column tell where, from 1. Columns are characters.
	Line, Column int
	// Path names the member: servers.github.icon.
	Path string
	// Message says what is the matter with it.
	Message string
}

// String tells all of it but the file.
func (w Warning) String() string {
	return fmt.Sprintf("%d:%d: %s: %s", w.Line, w.Column, w.Path, w.Message)
}

// fail makes the error of a place. Without a file there is none.
func (f *File) fail(at int, server, field, message string, cause error) *Error {
	e := &Error{Server: server, Field: field, Message: message, Err: cause}
	if f != nil {
		e.File = f.Name
		e.Line, e.Column = f.position(at)
	}
	return e
}

// position returns the line and column of a byte.
func (f *File) position(offset int) (line, column int) {
	before := f.text[:min(offset, len(f.text))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[begin:])
}
