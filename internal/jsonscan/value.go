package jsonscan

import "fmt"

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

// nesting remembers for each level whether it is an object: one bit a level, so
// that it fits on the stack.
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

// scanContainer scans the object or array at pos, which lies depth levels below
// the top, and returns the end of it. It loops rather than recurses: the depth
// of the input costs a bit a level, never stack. Names that come twice are
// refused when names is not nil.
func scanContainer(data []byte, pos, depth int, names *names) (int, error) {
	var levels nesting
	var keys *Keys // of the innermost object; nil when nobody asks
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

		// A value ended at pos, or an empty container is about to end: whatever
		// ends here is closed, until a comma says that another value follows.
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

// scanKey scans a key with its colon and returns where the value begins. keys,
// unless it is nil, are those before it.
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

// isSpace tells the four bytes of white space: RFC 8259, section 2.
func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}
