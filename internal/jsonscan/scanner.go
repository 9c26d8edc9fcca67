package jsonscan

import (
	"bytes"
	"fmt"
	"sync"
)

const (
	// MaxDepth is how deep arrays and objects may nest.
	MaxDepth = 1000
	// MaxMembers is how many members an object that is read may have.
	MaxMembers = 65536
)

// A Scanner reads one JSON text from its beginning. It must not be used after an error. It
// is small enough to be kept on the stack.
type Scanner struct {
	data  []byte
	pos   int
	key   int // offset of the last key
	depth int
	names *names
}

// New returns a scanner at the first byte of data.
func New(data []byte) Scanner { return Scanner{data: data} }

// NewUnique returns a scanner that refuses duplicate names in every object, as [Keys] does.
func NewUnique(data []byte) Scanner { return Scanner{data: data, names: new(names)} }

// names are the names of the open objects, by depth. A nil *names records nothing.
type names struct {
	levels []*Keys // reused by the next object of the same depth
}

// spareNames holds names for reuse by UniqueValue.
var spareNames = sync.Pool{New: func() any { return new(names) }}

// maxSpareLevels is how deep the names that are kept for reuse may nest.
const maxSpareLevels = 16

// recycle makes the names available for reuse, without references to the text.
func (n *names) recycle() {
	if len(n.levels) > maxSpareLevels {
		return
	}
	for _, keys := range n.levels {
		if keys.more != nil {
			*keys = Keys{}
			continue
		}
		clear(keys.few[:min(keys.n, len(keys.few))])
		keys.Reset()
	}
	spareNames.Put(n)
}

// open returns the keys of an object that begins at a depth.
func (n *names) open(depth int) *Keys {
	if n == nil {
		return nil
	}
	for len(n.levels) <= depth {
		n.levels = append(n.levels, new(Keys))
	}
	n.levels[depth].Reset()
	return n.levels[depth]
}

// at returns the keys of the open object at a depth.
func (n *names) at(depth int) *Keys {
	if n == nil {
		return nil
	}
	return n.levels[depth]
}

// TrimBOM returns a text without a byte order mark at its beginning.
func TrimBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\uFEFF")) }

// Valid returns nil if data is one JSON value with optional white space around it, and a
// *[SyntaxError] otherwise.
func Valid(data []byte) error {
	s := New(data)
	if _, err := s.Value(); err != nil {
		return err
	}
	return s.End()
}

// Kind returns the kind of the next value. It consumes nothing.
func (s Scanner) Kind() Kind { return kindAt(s.data, skipSpace(s.data, s.pos)) }

// Offset returns the index of the next unread byte.
func (s *Scanner) Offset() int { return s.pos }

// KeyOffset returns the index of the first byte of the last key that [Scanner.Member] has
// returned.
func (s *Scanner) KeyOffset() int { return s.key }

// Value scans one value and returns its bytes.
func (s *Scanner) Value() ([]byte, error) {
	start := skipSpace(s.data, s.pos)
	var end int
	var err error
	switch kindAt(s.data, start) {
	case Object, Array:
		end, err = scanContainer(s.data, start, s.depth, s.names)
	default:
		end, err = scanScalar(s.data, start)
	}
	return s.take(start, end, err)
}

// UniqueValue is [Scanner.Value], and refuses duplicate names in every object of the value, as [NewUnique]
// does. The error is also a *[DuplicateError] or a *[SizeError].
func (s *Scanner) UniqueValue() ([]byte, error) {
	if kind := s.Kind(); kind != Object && kind != Array {
		return s.Value()
	}
	before := s.names
	s.names = spareNames.Get().(*names)
	value, err := s.Value()
	s.names.recycle()
	s.names = before
	return value, err
}

// String scans a string and returns its raw text, with quotes.
func (s *Scanner) String() ([]byte, error) {
	start := skipSpace(s.data, s.pos)
	if kindAt(s.data, start) != String {
		return nil, expected(s.data, start, "a string")
	}
	end, err := scanString(s.data, start)
	return s.take(start, end, err)
}

// Number scans a number and returns its text.
func (s *Scanner) Number() ([]byte, error) {
	start := skipSpace(s.data, s.pos)
	if kindAt(s.data, start) != Number {
		return nil, expected(s.data, start, "a number")
	}
	end, err := scanNumber(s.data, start)
	return s.take(start, end, err)
}

func (s *Scanner) take(start, end int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	s.pos = end
	return s.data[start:end:end], nil
}

// EnterObject consumes the brace that opens an object. [Scanner.Member] continues.
func (s *Scanner) EnterObject() error { return s.enter('{', "an object") }

// EnterArray consumes the bracket that opens an array. [Scanner.Element] continues.
func (s *Scanner) EnterArray() error { return s.enter('[', "an array") }

func (s *Scanner) enter(open byte, what string) error {
	pos := skipSpace(s.data, s.pos)
	if pos >= len(s.data) || s.data[pos] != open {
		return expected(s.data, pos, what)
	}
	if s.depth == MaxDepth {
		return tooDeep(pos)
	}
	s.depth++
	s.pos = pos + 1
	if open == '{' {
		s.names.open(s.depth)
	}
	return nil
}

// Member reads the raw key of the next member of an object. The value must be read next. ok
// is false if the object has ended. first is true for the first call after
// [Scanner.EnterObject].
func (s *Scanner) Member(first bool) (key []byte, ok bool, err error) {
	pos, more, err := s.next(first, '}', "',' or '}' after a member")
	if err != nil || !more {
		return nil, false, err
	}
	if pos >= len(s.data) || s.data[pos] != '"' {
		return nil, false, expected(s.data, pos, memberName(first))
	}
	end, err := scanString(s.data, pos)
	if err != nil {
		return nil, false, err
	}
	colon := skipSpace(s.data, end)
	if colon >= len(s.data) || s.data[colon] != ':' {
		return nil, false, expected(s.data, colon, afterName)
	}
	if keys := s.names.at(s.depth); keys != nil {
		if err := keys.Add(s.data[pos:end:end], pos); err != nil {
			return nil, false, err
		}
	}
	s.key, s.pos = pos, colon+1
	return s.data[pos:end:end], true, nil
}

// Element goes to the next element of an array, which must be read next. ok is false if the
// array has ended. first is true for the first call after [Scanner.EnterArray].
func (s *Scanner) Element(first bool) (ok bool, err error) {
	pos, more, err := s.next(first, ']', "',' or ']' after an element")
	if err != nil || !more {
		return false, err
	}
	s.pos = pos
	return true, nil
}

// next consumes what is between two values of a container. It returns the offset of the next
// value, or ends the container.
func (s *Scanner) next(first bool, closer byte, want string) (pos int, more bool, err error) {
	pos = skipSpace(s.data, s.pos)
	switch {
	case pos < len(s.data) && s.data[pos] == closer:
		s.depth--
		s.pos = pos + 1
		return 0, false, nil
	case first:
		return pos, true, nil
	case pos < len(s.data) && s.data[pos] == ',':
		return skipSpace(s.data, pos+1), true, nil
	}
	return 0, false, expected(s.data, pos, want)
}

// End returns an error if the rest of the text is not white space.
func (s *Scanner) End() error {
	pos := skipSpace(s.data, s.pos)
	if pos < len(s.data) {
		return expected(s.data, pos, "the end of the text")
	}
	s.pos = pos
	return nil
}

const afterName = "':' after the name of a member"

func memberName(first bool) string {
	if first {
		return "the name of a member or '}'"
	}
	return "the name of a member"
}

func tooDeep(offset int) error {
	return syntaxError(offset, fmt.Sprintf("values nest more than %d deep", MaxDepth))
}

// nesting has one bit for each level: whether the container is an object.
type nesting [MaxDepth/64 + 1]uint64

func (n *nesting) set(level int, object bool) {
	bit := uint64(1) << (level % 64)
	if object {
		n[level/64] |= bit
	} else {
		n[level/64] &^= bit
	}
}

func (n *nesting) object(level int) bool { return n[level/64]>>(level%64)&1 != 0 }

// scanContainer scans the object or array at pos, which is depth levels below the top, and
// returns its end. It is a loop, so that a deep input needs no stack.
func scanContainer(data []byte, pos, depth int, names *names) (int, error) {
	var levels nesting
	var keys *Keys // of the innermost object; nil if duplicate names are allowed
	var err error
	outside := depth
	inObject := false
	for {
		// A value begins at pos.
		switch {
		case pos < len(data) && data[pos] == '"':
			if pos, err = scanString(data, pos); err != nil {
				return 0, err
			}
		case pos < len(data) && (data[pos] == '{' || data[pos] == '['):
			if depth == MaxDepth {
				return 0, tooDeep(pos)
			}
			inObject = data[pos] == '{'
			depth++
			levels.set(depth, inObject)
			pos = skipSpace(data, pos+1)
			if pos < len(data) && data[pos] == closer(inObject) {
				break
			}
			if inObject {
				keys = names.open(depth)
				if pos, err = scanKey(data, pos, true, keys); err != nil {
					return 0, err
				}
			}
			continue
		default:
			if pos, err = scanScalar(data, pos); err != nil {
				return 0, err
			}
		}

		// A value ended at pos, or an empty container is about to end. Containers are closed
		// until a comma announces another value.
		for {
			pos = skipSpace(data, pos)
			if pos < len(data) && data[pos] == ',' {
				pos = skipSpace(data, pos+1)
				if inObject {
					if pos, err = scanKey(data, pos, false, keys); err != nil {
						return 0, err
					}
				}
				break
			}
			if pos >= len(data) || data[pos] != closer(inObject) {
				return 0, expected(data, pos, separator(inObject))
			}
			pos++
			depth--
			if depth == outside {
				return pos, nil
			}
			if inObject = levels.object(depth); inObject {
				keys = names.at(depth)
			}
		}
	}
}

func closer(inObject bool) byte {
	if inObject {
		return '}'
	}
	return ']'
}

func separator(inObject bool) string {
	if inObject {
		return "',' or '}' after a member"
	}
	return "',' or ']' after an element"
}

// scanKey scans a key with its colon and returns the offset of the value.
func scanKey(data []byte, pos int, first bool, keys *Keys) (int, error) {
	if pos >= len(data) || data[pos] != '"' {
		return 0, expected(data, pos, memberName(first))
	}
	end, err := scanString(data, pos)
	if err != nil {
		return 0, err
	}
	if keys != nil {
		if err := keys.Add(data[pos:end], pos); err != nil {
			return 0, err
		}
	}
	pos = skipSpace(data, end)
	if pos >= len(data) || data[pos] != ':' {
		return 0, expected(data, pos, afterName)
	}
	return skipSpace(data, pos+1), nil
}

// scanScalar scans a string, number, boolean or null.
func scanScalar(data []byte, pos int) (int, error) {
	switch kindAt(data, pos) {
	case String:
		return scanString(data, pos)
	case Number:
		return scanNumber(data, pos)
	case Null:
		return scanWord(data, pos, "null")
	case Bool:
		if data[pos] == 't' {
			return scanWord(data, pos, "true")
		}
		return scanWord(data, pos, "false")
	}
	return 0, expected(data, pos, "a value")
}

func scanWord(data []byte, pos int, word string) (int, error) {
	if end := pos + len(word); end <= len(data) && string(data[pos:end]) == word {
		return end, nil
	}
	came := data[pos:min(pos+len(word), len(data))]
	return 0, syntaxError(pos, "expected "+word+", found "+Quote(string(came)))
}

// scanNumber scans a number: RFC 8259, section 6.
func scanNumber(data []byte, pos int) (int, error) {
	if data[pos] == '-' {
		pos++
	}
	start := pos
	pos = skipDigits(data, pos)
	if pos == start {
		return 0, expected(data, pos, "a digit")
	}
	if data[start] == '0' && pos > start+1 {
		return 0, syntaxError(start, "a number must not begin with 0 and another digit")
	}
	if pos < len(data) && data[pos] == '.' {
		start = pos + 1
		if pos = skipDigits(data, start); pos == start {
			return 0, expected(data, pos, "a digit after the decimal point")
		}
	}
	if pos < len(data) && data[pos]|0x20 == 'e' {
		pos++
		if pos < len(data) && (data[pos] == '+' || data[pos] == '-') {
			pos++
		}
		start = pos
		if pos = skipDigits(data, start); pos == start {
			return 0, expected(data, pos, "a digit in the exponent")
		}
	}
	return pos, nil
}

func skipDigits(data []byte, pos int) int {
	for pos < len(data) && data[pos]-'0' <= 9 {
		pos++
	}
	return pos
}

func skipSpace(data []byte, pos int) int {
	for pos < len(data) && isSpace(data[pos]) {
		pos++
	}
	return pos
}

// isSpace reports whether c is white space: RFC 8259, section 2.
func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}
