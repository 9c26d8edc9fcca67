package jsonscan

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A SyntaxError is the error of a text that is not JSON or nests deeper than [MaxDepth].
type SyntaxError struct {
	// Offset is the index of the first wrong byte.
	Offset int
	// Message says what was expected and what was found.
	Message string
}

// Error returns the offset and the message.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Message)
}

// A DuplicateError is the error of an object with a name that readers may understand
// differently: one that occurs twice, or one with a NUL, which ends a string in C.
type DuplicateError struct {
	// Offset is the index of the first byte of the key.
	Offset int
	// Key is the name, without quotes and escapes.
	Key string
}

// Error names the member; a long name is cut.
func (e *DuplicateError) Error() string {
	if strings.IndexByte(e.Key, 0) >= 0 {
		return "a name must not contain NUL: member " + Quote(e.Key)
	}
	return "duplicate member " + Quote(e.Key)
}

// A SizeError is the error of an object with more than [MaxMembers] members.
type SizeError struct {
	// Offset is the index of the first byte of the first excess member.
	Offset int
}

// Error names the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("an object may have at most %d members", MaxMembers)
}

// maxQuoted is how many bytes of a text Quote returns.
const maxQuoted = 256

// Quote returns a text in a form that is safe in an error or a log: in quotes, on one line,
// without control characters, and cut after 256 bytes.
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

// expected returns the error of a text that does not have what is expected at pos.
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

// A Kind is the kind of a value.
type Kind byte

// The kinds of values. EOF is the end of the text; Invalid is a byte with which no value
// begins.
const (
	Invalid Kind = iota
	EOF
	Null
	Bool
	Number
	String
	Object
	Array
)

// String returns the kind with its article, for error messages.
func (k Kind) String() string {
	switch k {
	case EOF:
		return "the end of the text"
	case Null:
		return "null"
	case Bool:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case Object:
		return "an object"
	case Array:
		return "an array"
	}
	return "no JSON value"
}

// KindOf returns the kind of a raw value, by its first byte that is not white space. It
// checks nothing else.
func KindOf(raw []byte) Kind { return kindAt(raw, skipSpace(raw, 0)) }

// IsPresent reports whether a member has a value: it is neither absent, which is nil, nor null.
func IsPresent(raw []byte) bool { return raw != nil && KindOf(raw) != Null }

func kindAt(data []byte, pos int) Kind {
	if pos >= len(data) {
		return EOF
	}
	switch data[pos] {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return Invalid
}
