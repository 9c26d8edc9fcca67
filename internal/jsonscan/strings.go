package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanString scans the string that begins at pos and returns its end.
func scanString(data []byte, pos int) (int, error) {
	// Most strings are short and have no escapes.
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

// scanRest scans a string from a position between its quotes.
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

// skipPlain returns the index of the first byte at or after pos that needs attention in a
// JSON string: a quote, a backslash, a control character or a byte that is not UTF-8. It
// returns the length of data if there is none.
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

// specialBytes checks eight bytes at a time. The lowest high bit that is set in the result
// marks the first byte that is a quote, a backslash, a control character or not ASCII; 0 means
// that there is none. Each subtraction borrows from the high bit of exactly those bytes, and a
// borrow can change later bytes only.
func specialBytes(w uint64) uint64 {
	control := w - ' '*everyByte
	quote := w ^ '"'*everyByte - everyByte
	backslash := w ^ '\\'*everyByte - everyByte
	return (w | control | quote | backslash) & highBits
}

func isPlainASCII(c byte) bool {
	return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
}

// scanEscape scans the escape at pos, including both halves of a surrogate pair. Half a pair
// is an escape of its own, as RFC 8259, section 8.2, permits.
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
		case unit >= surrogateMin && unit < lowSurrogateMin && isLowSurrogate(data, pos+6):
			return pos + 12, nil
		}
		return pos + 6, nil
	}
	return 0, expected(data, pos+1, "an escape after '\\'")
}

// The halves of UTF-16 surrogate pairs: RFC 8259, section 7.
const (
	surrogateMin    = 0xD800
	lowSurrogateMin = 0xDC00
	surrogateMax    = 0xDFFF
)

func isSurrogate(unit rune) bool { return unit >= surrogateMin && unit <= surrogateMax }

func isLowSurrogate(data []byte, pos int) bool {
	if pos+1 >= len(data) || data[pos] != '\\' || data[pos+1] != 'u' {
		return false
	}
	unit := hex4(data, pos+2)
	return unit >= lowSurrogateMin && unit <= surrogateMax
}

// hex4 returns the value of four hexadecimal digits at pos, -1 if there are none.
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

// AppendString appends s as a JSON string. It escapes only what JSON requires, so '<' stays
// '<'. A byte that is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	return AppendText(dst, []byte(s)) // the compiler does not copy s, which is only read
}

// AppendText is [AppendString] for bytes.
func AppendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	for pos := 0; ; {
		end := skipPlain(text, pos)
		dst = append(dst, text[pos:end]...)
		if end == len(text) {
			return append(dst, '"')
		}
		dst = appendEscaped(dst, text[end])
		pos = end + 1
	}
}

// appendEscaped appends a byte that must be escaped or replaced.
func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\n':
		return append(dst, '\\', 'n')
	case c == '\t':
		return append(dst, '\\', 't')
	case c == '\r':
		return append(dst, '\\', 'r')
	case c == '\b':
		return append(dst, '\\', 'b')
	case c == '\f':
		return append(dst, '\\', 'f')
	case c < ' ':
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
	}
	return utf8.AppendRune(dst, utf8.RuneError)
}

// Unquote returns the value of a raw string, which must have been scanned. Half a surrogate
// pair becomes U+FFFD.
func Unquote(raw []byte) string {
	text := inner(raw)
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	return string(AppendUnquoted(make([]byte, 0, len(text)), raw))
}

// AppendUnquoted is [Unquote] for bytes.
func AppendUnquoted(dst, raw []byte) []byte {
	text := inner(raw)
	for {
		end := bytes.IndexByte(text, '\\')
		if end < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:end]...)
		r, size := unescape(text[end:])
		dst = utf8.AppendRune(dst, r)
		text = text[end+size:]
	}
}

// KeyIs reports whether the value of a raw key or string is name, in exact case. The key must
// have been scanned; it may have escapes.
func KeyIs(raw []byte, name string) bool {
	text := inner(raw)
	if len(text) <= len(name) {
		// An escape is longer than its value, so a key that is no longer than the name has no escapes, or differs from
		// the name.
		return string(text) == name && strings.IndexByte(name, '\\') < 0
	}
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\\')
		if end < 0 {
			return string(text) == name
		}
		if len(name) < end || string(text[:end]) != name[:end] {
			return false
		}
		r, size := unescape(text[end:])
		want, width := utf8.DecodeRuneInString(name[end:])
		if width == 0 || want != r || want == utf8.RuneError && width == 1 {
			return false
		}
		text, name = text[end+size:], name[end+width:]
	}
	return name == ""
}

func inner(raw []byte) []byte { return raw[1 : len(raw)-1] }

// unescape returns the value and the length of the escape at the beginning of text.
func unescape(text []byte) (r rune, size int) {
	switch c := text[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		unit := hex4(text, 2)
		switch {
		case !isSurrogate(unit):
			return unit, 6
		case unit < lowSurrogateMin && isLowSurrogate(text, 6):
			return utf16.DecodeRune(unit, hex4(text, 8)), 12
		}
		return utf8.RuneError, 6
	default:
		return rune(c), 2
	}
}

// AppendLine appends a JSON text as one line: line breaks become spaces. In a valid text they
// occur between tokens only; AppendLine does not check that.
func AppendLine(dst, value []byte) []byte {
	start := len(dst)
	dst = append(dst, value...)
	for _, lineBreak := range []byte{'\n', '\r'} {
		line := dst[start:]
		for {
			i := bytes.IndexByte(line, lineBreak)
			if i < 0 {
				break
			}
			line[i] = ' '
			line = line[i+1:]
		}
	}
	return dst
}

// Line returns a JSON text as one line. It returns value itself if that is one line.
func Line(value []byte) []byte {
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 {
		return value
	}
	return AppendLine(nil, value)
}
