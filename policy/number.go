package policy

import (
	"bytes"
	"cmp"
)

// A number is a JSON number, taken apart but not converted: ±0.digits × 10^magnitude.
type number struct {
	negative  bool
	digits    []byte // from the first to the last that is not 0; a point may be among them
	magnitude int64
}

// maxExponent is how many digits of an exponent are understood.
const maxExponent = 17

// readNumber takes a number apart that has been scanned. ok is false if its exponent is
// beyond all bounds.
func readNumber(text []byte) (n number, ok bool) {
	text, n.negative = bytes.CutPrefix(text, []byte("-"))
	mantissa, exponent, ok := text, int64(0), true
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		mantissa = text[:e]
		exponent, ok = readExponent(text[e+1:])
	}
	whole := len(mantissa)
	if point := bytes.IndexByte(mantissa, '.'); point >= 0 {
		whole = point
	}
	n.digits = bytes.TrimLeft(mantissa, "0.")
	first := len(mantissa) - len(n.digits)
	if n.digits = bytes.TrimRight(n.digits, "0."); len(n.digits) == 0 {
		return number{}, true
	}
	if first > whole { // the point comes before it
		first--
	}
	n.magnitude = int64(whole-first) + exponent
	return n, ok
}

func readExponent(text []byte) (exponent int64, ok bool) {
	text = bytes.TrimPrefix(text, []byte("+"))
	text, negative := bytes.CutPrefix(text, []byte("-"))
	text = bytes.TrimLeft(text, "0")
	if len(text) > maxExponent {
		return 0, false
	}
	for _, c := range text {
		exponent = exponent*10 + int64(c-'0')
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true
}

// compare is as that of package cmp.
func (n number) compare(other number) int {
	if n.sign() != other.sign() {
		return cmp.Compare(n.sign(), other.sign())
	}
	if n.magnitude != other.magnitude {
		return n.sign() * cmp.Compare(n.magnitude, other.magnitude)
	}
	return n.sign() * compareDigits(n.digits, other.digits)
}

func (n number) sign() int {
	switch {
	case len(n.digits) == 0:
		return 0
	case n.negative:
		return -1
	default:
		return 1
	}
}

func compareDigits(a, b []byte) int {
	for {
		a, b = bytes.TrimPrefix(a, []byte(".")), bytes.TrimPrefix(b, []byte("."))
		if len(a) == 0 || len(b) == 0 {
			return cmp.Compare(len(a), len(b)) // what is left ends with a digit above 0
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
}
