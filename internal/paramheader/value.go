package paramheader

import (
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// The marks around an encoded value.
const (
	prefix = "=?base64?"
	suffix = "?="
)

// Encode returns the form of a value in a header: the value itself, or its Base64 between
// =?base64? and ?=. It uses Base64 for a value with other characters than ASCII from space
// to tilde, with a space at an end, or that looks encoded. [Decode] restores valid UTF-8
// unchanged.
func Encode(value string) string {
	if isPlain(value) && trim(value) == value && !(strings.HasPrefix(value, prefix) && strings.HasSuffix(value, suffix)) {
		return value
	}
	buf := make([]byte, 0, len(prefix)+base64.StdEncoding.EncodedLen(len(value))+len(suffix))
	buf = append(buf, prefix...)
	buf = base64.StdEncoding.AppendEncode(buf, []byte(value))
	return string(append(buf, suffix...))
}

// Decode returns the value in a header, without surrounding spaces and tabs. Incomplete
// marks are part of a plain value. The error is a *[ValueError]: for characters other than
// printable ASCII and tab, and for marks around something other than the strict, padded
// Base64 of UTF-8.
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

// headerValue returns the encoded form of a raw string, number or boolean.
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

// trim removes the white space that HTTP allows around a value (RFC 9110, section 5.6.3).
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

// parseInteger parses a JSON number (RFC 8259, section 6) whose value is an integer from
// -[MaxInteger] to [MaxInteger], in any notation: 42, 42.0 and 4.2e1 are equal. ok is false for
// any other text, and for more than 4 KiB.
func parseInteger(raw []byte) (n int64, ok bool) {
	if len(raw) > maxNumber || jsonscan.KindOf(raw) != jsonscan.Number || !json.Valid(raw) {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, isExact(n)
	}
	text := string(raw)
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(text), "e")
	if strings.Trim(mantissa, "-0.") == "" {
		return 0, true
	}
	if scientific {
		// With a larger exponent, the value is neither an integer nor in the range.
		if e, err := strconv.Atoi(exponent); err != nil || max(e, -e) > len(mantissa)+maxDigits {
			return 0, false
		}
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok || !value.IsInt() || !value.Num().IsInt64() {
		return 0, false
	}
	n = value.Num().Int64()
	return n, isExact(n)
}

const (
	// maxDigits is the number of digits of MaxInteger.
	maxDigits = 16
	// maxNumber bounds the cost of parsing a number.
	maxNumber = 4 << 10
)

func isExact(n int64) bool { return -MaxInteger <= n && n <= MaxInteger }
