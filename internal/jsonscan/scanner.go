package jsonscan

// A Scanner reads one JSON text from its beginning. It is a small value that
// belongs on the stack. After an error it must not be used any more.
type Scanner struct {
	data  []byte
	pos   int
	key   int // where the last key begins
	depth int
	names *names // nil: members given twice are not looked for
}

// New returns a scanner before the first byte of data.
func New(data []byte) Scanner { return Scanner{data: data} }

// NewUnique is [New] for a scanner that refuses what [Keys] refuses, in every
// object that it enters or scans, at any depth.
func NewUnique(data []byte) Scanner { return Scanner{data: data, names: new(names)} }

// Valid returns nil when data is one JSON value with nothing but white space
// around it, a *[SyntaxError] otherwise. Members given twice are not looked for.
func Valid(data []byte) error {
	s := New(data)
	if _, err := s.Value(); err != nil {
		return err
	}
	return s.End()
}

// Kind says what begins here, white space aside. It consumes nothing.
func (s Scanner) Kind() Kind { return kindAt(s.data, skipSpace(s.data, s.pos)) }

// Offset is the index of the next unread byte.
func (s *Scanner) Offset() int { return s.pos }

// KeyOffset is the index of the first byte of the key that [Scanner.Member]
// returned last.
func (s *Scanner) KeyOffset() int { return s.key }

// Value scans one whole value and returns its bytes.
func (s *Scanner) Value() ([]byte, error) {
	start := skipSpace(s.data, s.pos)
	var end int
	var err error
	switch kindAt(s.data, start) {
	case String:
		end, err = scanString(s.data, start)
	case Object, Array:
		end, err = scanContainer(s.data, start, s.depth, s.names)
	default:
		end, err = scanScalar(s.data, start)
	}
	return s.take(start, end, err)
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

// EnterObject steps over the brace that opens an object. [Scanner.Member] reads
// what follows.
func (s *Scanner) EnterObject() error {
	if err := s.enter('{', "an object"); err != nil {
		return err
	}
	s.names.open(s.depth)
	return nil
}

// EnterArray steps over the bracket that opens an array. [Scanner.Element]
// reads what follows.
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
	return nil
}

// Member goes to the next member of an object: it returns its raw key, with
// quotes, and stands before its value, which must be read next. ok is false
// when the object was closed instead. first is true for the first call after
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
	if keys := s.names.at(s.depth); keys != nil {
		if err := keys.Add(s.data[pos:end:end], pos); err != nil {
			return nil, false, err
		}
	}
	colon := skipSpace(s.data, end)
	if colon >= len(s.data) || s.data[colon] != ':' {
		return nil, false, expected(s.data, colon, afterName)
	}
	s.key, s.pos = pos, colon+1
	return s.data[pos:end:end], true, nil
}

// Element goes to the next element of an array, which must be read next. ok is
// false when the array was closed instead. first is true for the first call
// after [Scanner.EnterArray].
func (s *Scanner) Element(first bool) (ok bool, err error) {
	pos, more, err := s.next(first, ']', "',' or ']' after an element")
	if err != nil || !more {
		return false, err
	}
	s.pos = pos
	return true, nil
}

// next steps over what stands between two values of an object or array. It
// returns where the next one begins, or closes the container.
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

// End returns an error when anything but white space is left.
func (s *Scanner) End() error {
	pos := skipSpace(s.data, s.pos)
	if pos < len(s.data) {
		return expected(s.data, pos, "the end of the text")
	}
	s.pos = pos
	return nil
}
