package jsonrpc

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// MaxIDLength is how many bytes the JSON text of an id may have.
const MaxIDLength = 256

// An ID is the id of a request: its own JSON text, a string or an integer,
// which goes back to its sender as it came. IDs compare with ==, by that text:
// 1 and "1" differ, and so do 0 and -0. The zero ID is none, as notifications
// have it. (https://www.jsonrpc.org/specification, section 4; MCP forbids null
// and fractions.)
type ID struct{ text string }

// IntID returns the id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the id s, a JSON string. Its JSON text should have at most
// [MaxIDLength] bytes: [Append] refuses longer ones.
func StringID(s string) ID { return ID{string(jsonscan.AppendString(nil, s))} }

// ParseID returns the id that a JSON value is: a string, or a number without
// fraction and exponent, of at most [MaxIDLength] bytes. White space around it
// is no part of it.
func ParseID(raw []byte) (ID, error) {
	s := jsonscan.New(raw)
	text, err := s.Value()
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return ID{}, fmt.Errorf("jsonrpc: id: %w", err)
	}
	if problem := idProblem(text); problem != "" {
		return ID{}, errors.New("jsonrpc: " + problem)
	}
	return ID{string(text)}, nil
}

// idProblem says what keeps a value that has been scanned from being an id.
func idProblem(text []byte) string {
	kind := jsonscan.KindOf(text)
	switch {
	case kind != jsonscan.String && kind != jsonscan.Number:
		return "id must be a string or an integer, not " + kind.String()
	case len(text) > MaxIDLength:
		return fmt.Sprintf("id must have at most %d bytes, not %d", MaxIDLength, len(text))
	case kind == jsonscan.Number && !isInteger(text):
		return "id must be a string or an integer, not " + string(text)
	}
	return ""
}

// isInteger tells whether a number that has been scanned has neither fraction
// nor exponent.
func isInteger(number []byte) bool {
	for _, c := range number {
		if c == '.' || c|0x20 == 'e' {
			return false
		}
	}
	return true
}

// IsZero tells whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the id's JSON text, a string with its quotes. It is empty for
// the zero ID.
func (id ID) String() string { return id.text }

// AppendJSON appends the id's JSON text, null for the zero ID.
func (id ID) AppendJSON(dst []byte) []byte {
	if id.IsZero() {
		return append(dst, "null"...)
	}
	return append(dst, id.text...)
}

// MarshalJSON returns the id's JSON text, null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) { return id.AppendJSON(nil), nil }

// UnmarshalJSON is [ParseID].
func (id *ID) UnmarshalJSON(raw []byte) error {
	parsed, err := ParseID(raw)
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
