package schema

import "bytes"

// A decimal is a JSON number, exactly: 0.d1d2d3… × 10^point, where neither the
// first digit nor the last is 0. Its digits are slices of the number's text, so
// that making one copies nothing.
type decimal struct {
	negative bool
	whole    []byte
	fraction []byte
	point    int
}

// parseDecimal reads the text of a JSON number. ok is false when it has more
// digits or a larger exponent than is allowed.
func parseDecimal(text []byte) (d decimal, ok bool) {
	d.negative = text[0] == '-'
	if d.negative {
		text = text[1:]
	}
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		if d.point, ok = parseExponent(text[i+1:]); !ok {
			return d, false
		}
		text = text[:i]
	}
	d.whole = text
	if i := bytes.IndexByte(text, '.'); i >= 0 {
		d.whole, d.fraction = text[:i], text[i+1:]
	}
	if len(d.whole)+len(d.fraction) > MaxNumberDigits {
		return d, false
	}
	d.normalize()
	return d, true
}

func parseExponent(text []byte) (exponent int, ok bool) {
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	for _, c := range text {
		if exponent = exponent*10 + int(c-'0'); exponent > MaxNumberExponent {
			return 0, false
		}
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true
}

func (d *decimal) normalize() {
	d.whole = bytes.TrimLeft(d.whole, "0")
	d.fraction = bytes.TrimRight(d.fraction, "0")
	switch {
	case len(d.whole) > 0:
		d.point += len(d.whole)
		if len(d.fraction) == 0 {
			d.whole = bytes.TrimRight(d.whole, "0")
		}
	case len(d.fraction) > 0:
		n := len(d.fraction)
		d.fraction = bytes.TrimLeft(d.fraction, "0")
		d.point -= n - len(d.fraction)
	default:
		*d = decimal{}
	}
}

func (d *decimal) digits() int { return len(d.whole) + len(d.fraction) }

func (d *decimal) digit(i int) byte {
	if i < len(d.whole) {
		return d.whole[i]
	}
	return d.fraction[i-len(d.whole)]
}

func (d *decimal) isInteger() bool { return d.digits() <= d.point || d.digits() == 0 }

// compare returns a number that is negative, zero or positive, as d is less
// than, equal to or more than e.
func (d *decimal) compare(e *decimal) int {
	sign := 1
	switch {
	case d.digits() == 0 && e.digits() == 0:
		return 0
	case d.digits() == 0:
		return e.signum() * -1
	case d.negative != e.negative || e.digits() == 0:
		return d.signum()
	case d.negative:
		sign = -1
	}
	if d.point != e.point {
		return sign * (d.point - e.point)
	}
	for i := range min(d.digits(), e.digits()) {
		if a, b := d.digit(i), e.digit(i); a != b {
			return sign * (int(a) - int(b))
		}
	}
	return sign * (d.digits() - e.digits())
}

// signum is -1 or 1, for a number that is not 0.
func (d *decimal) signum() int {
	if d.negative {
		return -1
	}
	return 1
}

// appendInteger writes an integer without point and exponent.
func (d *decimal) appendInteger(dst []byte) []byte {
	if d.digits() == 0 {
		return append(dst, '0')
	}
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, d.whole...), d.fraction...)
	for range d.point - d.digits() {
		dst = append(dst, '0')
	}
	return dst
}

// A divisor is a positive number of at most 17 digits: significand × 10^scale.
type divisor struct {
	significand uint64
	scale       int
}

// newDivisor says whether d is one.
func newDivisor(d decimal) (divisor, bool) {
	if d.negative || d.digits() == 0 || d.digits() > 17 {
		return divisor{}, false
	}
	m := divisor{scale: d.point - d.digits()}
	for i := range d.digits() {
		m.significand = m.significand*10 + uint64(d.digit(i)-'0')
	}
	return m, true
}

// divides reports whether d is an integer times m.
func (m divisor) divides(d *decimal) bool {
	if d.digits() == 0 {
		return true
	}
	zeros := d.point - d.digits() - m.scale
	if zeros < 0 {
		return false // the last digit of d is finer than any multiple's
	}
	rest := uint64(0)
	for i := range d.digits() {
		rest = (rest*10 + uint64(d.digit(i)-'0')) % m.significand
	}
	for range zeros {
		rest = rest * 10 % m.significand
	}
	return rest == 0
}

// isPlain reports whether a number is written without point and exponent.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}

// small returns a number as an int64, if it is an integer that is plainly
// written and of at most 18 digits.
func small(text []byte) (n int64, ok bool) {
	digits := text
	if text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if text[0] == '-' {
		n = -n
	}
	return n, true
}
