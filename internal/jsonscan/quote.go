package jsonscan

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. Only what must be escaped is, so
// that '<' stays '<'. A byte that is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	return AppendText(dst, []byte(s)) // read only, and so not copied
}

// AppendText is [AppendString] of a text in bytes.
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

// appendEscaped appends a byte that cannot stand for itself.
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

// Unquote returns the string that a raw string, quotes and all, stands for. The
// text must have been scanned.
func Unquote(raw []byte) string {
	text := inner(raw)
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	return string(AppendUnquoted(make([]byte, 0, len(text)), raw))
}

// AppendUnquoted appends the string that a raw string, quotes and all, stands
// for. The text must have been scanned.
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

// KeyIs tells whether a raw key, quotes and all, stands for that name, in exact
// case and whatever its escapes. The text must have been scanned.
func KeyIs(raw []byte, name string) bool {
	text := inner(raw)
	if len(text) <= len(name) {
		// An escape is longer than what it stands for: a key as long as the
		// name has none, or is another name.
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

// unescape returns the character that the escape at the beginning of text
// stands for, and the escape's length.
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
		if unit < surrogateMin || unit > surrogateMax {
			return unit, 6
		}
		return utf16.DecodeRune(unit, hex4(text, 8)), 12
	default:
		return rune(c), 2
	}
}
