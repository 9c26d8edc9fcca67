package schema

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A number is the exact value of a JSON number.
type number struct {
	small int64    // if exact is nil
	exact *big.Rat // of every value that is no int64
}

// parseNumber returns the value of the text of a JSON number. ok is false if the number has too
// many digits or too large an exponent.
func parseNumber(text []byte) (n number, ok bool) {
	if isPlain(text) {
		if small, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return number{small: small}, true
		}
	}
	if !isBounded(text) {
		return number{}, false
	}
	exact, ok := new(big.Rat).SetString(string(text))
	if ok && exact.IsInt() && exact.Num().IsInt64() {
		return number{small: exact.Num().Int64()}, true
	}
	return number{exact: exact}, ok
}

// isPlain reports whether a number is written without fraction and exponent.
func isPlain(text []byte) bool { return !bytes.ContainsAny(text, ".eE") }

// isBounded reports whether a number has at most maxNumberDigits digits and an exponent of at most
// maxNumberExponent.
func isBounded(text []byte) bool {
	digits, exponent := numberSize(text)
	return digits <= maxNumberDigits && exponent <= maxNumberExponent
}

// numberSize returns the number of digits before the exponent, and the exponent without its sign.
// An exponent above maxNumberExponent is maxNumberExponent+1.
func numberSize(text []byte) (digits, exponent int) {
	mantissa, power := text, []byte(nil)
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		mantissa, power = text[:i], bytes.TrimLeft(text[i+1:], "+-")
	}
	for _, c := range mantissa {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	for _, c := range power {
		exponent = min(10*exponent+int(c-'0'), maxNumberExponent+1)
	}
	return digits, exponent
}

func (n number) isInteger() bool { return n.exact == nil || n.exact.IsInt() }

func (n number) rat() *big.Rat {
	if n.exact != nil {
		return n.exact
	}
	return new(big.Rat).SetInt64(n.small)
}

// compare returns -1, 0 or 1 as n is less than, equal to or greater than m.
func (n number) compare(m number) int {
	if n.exact == nil && m.exact == nil {
		return cmp.Compare(n.small, m.small)
	}
	return n.rat().Cmp(m.rat())
}

// isMultipleOf reports whether n is an integer times m, which is not 0.
func (n number) isMultipleOf(m number) bool {
	if n.exact == nil && m.exact == nil {
		return n.small%m.small == 0
	}
	return new(big.Rat).Quo(n.rat(), m.rat()).IsInt()
}

// append appends the canonical text of a number. An integer has neither fraction nor exponent.
func (n number) append(dst []byte) []byte {
	if n.exact == nil {
		return strconv.AppendInt(dst, n.small, 10)
	}
	return append(dst, n.exact.RatString()...)
}

// An enum is the set of values that a schema allows.
type enum struct {
	values    [][]byte // as written
	canonical map[string]bool
	longest   int // of the canonical forms
}

func newEnum(values ...[]byte) *enum {
	e := &enum{values: values, canonical: make(map[string]bool, len(values))}
	for _, value := range values {
		form := string(canonical(value, math.MaxInt, &meter{limit: math.MaxInt64}))
		e.canonical[form] = true
		e.longest = max(e.longest, len(form))
	}
	return e
}

// has reports whether raw is one of the values. The work depends on raw only, and the memory on the
// values of the enum.
func (e *enum) has(raw []byte, m *meter) bool {
	return e.canonical[string(canonical(raw, e.longest, m))]
}

// lacksNull reports whether there is an enum without null.
func (e *enum) lacksNull() bool { return e != nil && !e.canonical["null"] }

// canonical returns the canonical form of a valid JSON value. Equal values, and only these, have
// equal forms: numbers are compared by value, and the order of members does not matter. A form that is
// longer than limit is incomplete. When the meter is empty the result has no meaning.
func canonical(raw []byte, limit int, m *meter) []byte {
	m.spend(readCost * len(raw))
	switch raw = bytes.TrimSpace(raw); jsonscan.KindOf(raw) {
	case jsonscan.Array, jsonscan.Object:
	case jsonscan.Number:
		if isCanonical(raw) {
			return raw
		}
	default:
		if bytes.IndexByte(raw, '\\') < 0 {
			return raw
		}
	}
	s := jsonscan.New(raw)
	return appendCanonical(nil, &s, limit, m)
}

func appendCanonical(dst []byte, s *jsonscan.Scanner, limit int, m *meter) []byte {
	switch kind := s.Kind(); {
	case m.isEmpty():
		_, _ = s.Value()
		return dst
	case kind == jsonscan.Array:
		dst = append(dst, '[')
		_ = s.EnterArray()
		for first := true; len(dst) <= limit; first = false {
			if more, _ := s.Element(first); !more {
				return append(dst, ']')
			}
			dst = append(appendCanonical(dst, s, limit, m), ',')
		}
		return dst
	case kind == jsonscan.Object:
		return appendCanonicalObject(append(dst, '{'), s, limit, m)
	case kind == jsonscan.Number:
		text, _ := s.Value()
		return appendCanonicalNumber(dst, text)
	case kind == jsonscan.String:
		text, _ := s.Value()
		return jsonscan.AppendText(dst, plain(text))
	default:
		text, _ := s.Value()
		return append(dst, text...)
	}
}

// isCanonical reports whether a number is its own canonical form.
func isCanonical(text []byte) bool {
	return isPlain(text) && (text[len(text)-1] != '0' || len(text) == 1)
}

// appendCanonicalNumber appends the digits of a number without zeros at both ends, and the power of
// ten that they are multiplied with. It takes time and memory linear in the text.
func appendCanonicalNumber(dst, text []byte) []byte {
	if isCanonical(text) {
		return append(dst, text...)
	}
	mantissa, power := text, 0
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		power = exponentOf(text[i+1:])
	}
	start := len(dst)
	if mantissa[0] == '-' {
		dst, mantissa = append(dst, '-'), mantissa[1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := len(dst)
	dst = append(append(dst, whole...), fraction...)
	power -= len(fraction)
	for len(dst) > digits && dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
		power++
	}
	leading := 0
	for digits+leading < len(dst) && dst[digits+leading] == '0' {
		leading++
	}
	dst = append(dst[:digits], dst[digits+leading:]...)
	switch {
	case len(dst) == digits:
		return append(dst[:start], '0')
	case power == 0:
		return dst
	}
	return strconv.AppendInt(append(dst, 'e'), int64(power), 10)
}

// exponentOf returns the value of the text after e. Exponents that are beyond the limits are all equal.
func exponentOf(text []byte) int {
	n := 0
	for _, c := range bytes.TrimLeft(text, "+-") {
		n = min(10*n+int(c-'0'), 1<<30)
	}
	if text[0] == '-' {
		return -n
	}
	return n
}

// appendCanonicalObject appends the members and the end of an object.
func appendCanonicalObject(dst []byte, s *jsonscan.Scanner, limit int, m *meter) []byte {
	start := len(dst)
	var members [][]byte // slices of dst, and of its former memory
	_ = s.EnterObject()
	for first := true; ; first = false {
		if len(dst) > limit {
			return dst
		}
		key, more, _ := s.Member(first)
		if !more {
			break
		}
		from := len(dst)
		dst = append(jsonscan.AppendText(dst, plain(key)), ':')
		dst = append(appendCanonical(dst, s, limit, m), ',')
		members = append(members, dst[from:])
	}
	if len(members) > 1 {
		m.spend(readCost * (len(dst) - start))
		if !slices.IsSortedFunc(members, bytes.Compare) {
			slices.SortFunc(members, bytes.Compare)
			dst = append(dst[:start], bytes.Join(members, nil)...)
		}
	}
	return append(dst, '}')
}

// plain returns the text of a valid raw string. It allocates only if the string has escapes.
func plain(raw []byte) []byte {
	raw = bytes.TrimSpace(raw)
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return jsonscan.AppendUnquoted(nil, raw)
}

// elements yields the elements of a valid array.
func elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		s := jsonscan.New(array)
		_ = s.EnterArray()
		for i := 0; ; i++ {
			if more, _ := s.Element(i == 0); !more {
				return
			}
			if item, _ := s.Value(); !yield(i, item) {
				return
			}
		}
	}
}
