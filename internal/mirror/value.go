package mirror

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// The marks around a value that cannot stand in a header as it is.
const (
	prefix = "=?base64?"
	suffix = "?="
)

// Encode returns the form that a value has in a header: the value itself, or
// its Base64 between =?base64? and ?=. The latter is for values with anything
// but ASCII from space to tilde, with a space at an end, or that look encoded
// themselves. Valid UTF-8 comes out of [Decode] unchanged.
func Encode(value string) string {
	if isPlain(value) && trim(value) == value && !(strings.HasPrefix(value, prefix) && strings.HasSuffix(value, suffix)) {
		return value
	}
	buf := make([]byte, 0, len(prefix)+base64.StdEncoding.EncodedLen(len(value))+len(suffix))
	buf = append(buf, prefix...)
	buf = base64.StdEncoding.AppendEncode(buf, []byte(value))
	return string(append(buf, suffix...))
}

// Decode returns the value that a header stands for, whatever spaces and tabs
// surround it. Marks that are not exact, or only one of them, are part of a
// plain value. The error is a *[ValueError]: for what is neither printable ASCII
// nor a tab, and for marks around something else than the Base64 of UTF-8, with
// padding and in the one form that an encoder gives it.
func Decode(header string) (string, error) {
	header = trim(header)
	for i := range len(header) {
		if c := header[i]; !isPrintable(c) && c != '\t' {
			return "", &ValueError{"expected printable ASCII, or Base64 between " + prefix + " and " + suffix}
		}
	}
	if len(header) < len(prefix)+len(suffix) || !strings.HasPrefix(header, prefix) || !strings.HasSuffix(header, suffix) {
		return header, nil
	}
	value, err := base64.StdEncoding.Strict().DecodeString(header[len(prefix) : len(header)-len(suffix)])
	if err != nil {
		return "", &ValueError{"expected Base64 with padding between " + prefix + " and " + suffix}
	}
	if !utf8.Valid(value) {
		return "", &ValueError{"expected the Base64 of UTF-8"}
	}
	return string(value), nil
}

// headerValue is the encoded form of a raw string, number or boolean.
func headerValue(raw []byte) string {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return Encode(jsonscan.Unquote(raw))
	case jsonscan.Number:
		if n, ok := parseInteger(raw); ok {
			return strconv.FormatInt(n, 10)
		}
	}
	return string(raw)
}

// trim drops the white space that HTTP allows around a value: RFC 9110,
// section 5.6.3.
func trim(value string) string { return strings.Trim(value, " \t") }

func isPlain(value string) bool {
	for i := range len(value) {
		if !isPrintable(value[i]) {
			return false
		}
	}
	return true
}

func isPrintable(c byte) bool { return ' ' <= c && c <= '~' }
