package jsonscan

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A SyntaxError is a text that is not JSON, or nests deeper than [MaxDepth].
type SyntaxError struct {
	// Offset is the byte at which the text goes wrong, from 0.
	Offset int
	// Message says what was expected and what came.
	Message string
}

// Error tells the place and what was expected there.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Message)
}

// A DuplicateError is an object with a name that its readers may understand
// differently: one that occurs twice, or one with a NUL, at which a reader
// written in C ends the name.
type DuplicateError struct {
	// Offset is the byte at which the key begins, from 0.
	Offset int
	// Key is the name, without quotes and escapes.
	Key string
}

// Error names the member, cut when it is long.
func (e *DuplicateError) Error() string {
	if strings.IndexByte(e.Key, 0) >= 0 {
		return "a name must not contain NUL: member " + Quote(e.Key)
	}
	return "duplicate member " + Quote(e.Key)
}

// A SizeError is an object with more than [MaxMembers] members.
type SizeError struct {
	// Offset is the byte at which the first member too many begins, from 0.
	Offset int
}

// Error tells the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("an object may have at most %d members", MaxMembers)
}

// Quote returns text of a peer in a form that is safe in an error or a log: in
// quotes, on one line, without control characters and cut after 256 bytes.
func Quote(text string) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(text)
	}
	end := maxQuoted
	for end > maxQuoted-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strconv.Quote(text[:end]) + "…"
}

func syntaxError(offset int, message string) error {
	return &SyntaxError{Offset: offset, Message: message}
}

// expected is the error of a text that has something else at pos.
func expected(data []byte, pos int, what string) error {
	return syntaxError(pos, "expected "+what+", found "+found(data, pos))
}

func found(data []byte, pos int) string {
	if pos >= len(data) {
		return "the end of the text"
	}
	c := data[pos]
	switch {
	case c == 0xEF && strings.HasPrefix(string(data[pos:min(pos+3, len(data))]), "\uFEFF"):
		return "a byte order mark"
	case c > ' ' && c < utf8.RuneSelf-1:
		return strconv.QuoteRune(rune(c))
	}
	return fmt.Sprintf("the byte 0x%02X", c)
}
