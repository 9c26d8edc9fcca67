package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// scanString scans the string whose quote is at pos and returns the end of it.
func scanString(data []byte, pos int) (int, error) {
	// Most strings are short and plain: this loop ends them without another look.
	for pos++; len(data)-pos >= 8; pos += 8 {
		special := specialBytes(binary.LittleEndian.Uint64(data[pos:]))
		if special == 0 {
			continue
		}
		pos += bits.TrailingZeros64(special) / 8
		if data[pos] == '"' {
			return pos + 1, nil
		}
		break
	}
	return scanRest(data, pos)
}

// scanRest scans a string from anywhere between its quotes.
func scanRest(data []byte, pos int) (int, error) {
	for {
		pos = skipPlain(data, pos)
		if pos == len(data) {
			return 0, expected(data, pos, "'\"' at the end of a string")
		}
		switch c := data[pos]; {
		case c == '"':
			return pos + 1, nil
		case c == '\\':
			var err error
			if pos, err = scanEscape(data, pos); err != nil {
				return 0, err
			}
		case c < ' ':
			return 0, syntaxError(pos, "a control character in a string must be escaped, found "+found(data, pos))
		default:
			return 0, syntaxError(pos, "a string must be valid UTF-8, found "+found(data, pos))
		}
	}
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// skipPlain returns the index of the first byte at or after pos that does not
// stand for itself in a JSON string: a quote, a backslash, a control character
// or a byte that is not UTF-8. Without one it is the length of data.
func skipPlain(data []byte, pos int) int {
	for {
		for len(data)-pos >= 8 {
			w := binary.LittleEndian.Uint64(data[pos:])
			if special := specialBytes(w); special != 0 {
				pos += bits.TrailingZeros64(special) / 8
				break
			}
			pos += 8
		}
		for pos < len(data) && isPlainASCII(data[pos]) {
			pos++
		}
		if pos == len(data) || data[pos] < utf8.RuneSelf {
			return pos
		}
		for pos < len(data) && data[pos] >= utf8.RuneSelf {
			_, size := utf8.DecodeRune(data[pos:])
			if size == 1 {
				return pos
			}
			pos += size
		}
	}
}

// specialBytes looks at eight bytes at once. The lowest high bit that is set in
// its result marks the first byte that is a quote, a backslash, a control
// character or not ASCII; zero means that there is none. Each subtraction
// borrows from a byte's high bit exactly where the byte is one of those, and a
// borrow can only spoil the bytes after it.
func specialBytes(w uint64) uint64 {
	control := w - ' '*everyByte
	quote := w ^ '"'*everyByte - everyByte
	backslash := w ^ '\\'*everyByte - everyByte
	return (w | control | quote | backslash) & highBits
}

func isPlainASCII(c byte) bool {
	return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
}

// scanEscape scans the escape whose backslash is at pos, both halves of a
// surrogate pair at once.
func scanEscape(data []byte, pos int) (int, error) {
	if pos+1 >= len(data) {
		return 0, expected(data, pos+1, "an escape after '\\'")
	}
	switch data[pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return pos + 2, nil
	case 'u':
		unit := hex4(data, pos+2)
		switch {
		case unit < 0:
			return 0, syntaxError(pos, "expected four hexadecimal digits after \\u")
		case unit < surrogateMin || unit > surrogateMax:
			return pos + 6, nil
		case unit < lowSurrogateMin && isLowSurrogate(data, pos+6):
			return pos + 12, nil
		}
		return 0, syntaxError(pos, "an escaped surrogate must come with its other half")
	}
	return 0, expected(data, pos+1, "an escape after '\\'")
}

// The halves of UTF-16 surrogate pairs: RFC 8259, section 7.
const (
	surrogateMin    = 0xD800
	lowSurrogateMin = 0xDC00
	surrogateMax    = 0xDFFF
)

func isLowSurrogate(data []byte, pos int) bool {
	if pos+1 >= len(data) || data[pos] != '\\' || data[pos+1] != 'u' {
		return false
	}
	unit := hex4(data, pos+2)
	return unit >= lowSurrogateMin && unit <= surrogateMax
}

// hex4 returns the number that four hexadecimal digits at pos make, -1 when
// they are not there.
func hex4(data []byte, pos int) rune {
	if len(data)-pos < 4 {
		return -1
	}
	var n rune
	for _, c := range data[pos : pos+4] {
		switch {
		case c-'0' <= 9:
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return n
}
