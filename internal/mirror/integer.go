package mirror

// parseInteger reads the text of a JSON number (RFC 8259, section 6) whose value
// is an integer of at most [MaxInteger] either way, however it is written: 42,
// 42.0 and 4.2e1 are one number. ok is false for any other text.
func parseInteger[T ~string | ~[]byte](text T) (n int64, ok bool) {
	pos := 0
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		pos++
	}
	var d digits
	whole := pos
	for ; pos < len(text) && isDigit(text[pos]); pos++ {
		d.add(text[pos])
	}
	if pos == whole || text[whole] == '0' && pos > whole+1 {
		return 0, false
	}
	exponent := 0
	if pos < len(text) && text[pos] == '.' {
		pos++
		fraction := pos
		for ; pos < len(text) && isDigit(text[pos]); pos++ {
			d.add(text[pos])
		}
		if exponent = fraction - pos; exponent == 0 {
			return 0, false
		}
	}
	if pos < len(text) && text[pos]|0x20 == 'e' {
		written, ok := parseExponent(text[pos+1:])
		if !ok {
			return 0, false
		}
		exponent += written
		pos = len(text)
	}
	if n, ok = d.shift(exponent); !ok || pos < len(text) {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// digits are those of a number, its sign and decimal point aside.
type digits struct {
	n     int64 // without the zeros at the end
	count int   // how many there are from the first that is not 0
	zeros int   // at the end, not yet in n
}

// maxDigits is how many digits MaxInteger has.
const maxDigits = 16

func (d *digits) add(c byte) {
	switch {
	case c == '0':
		d.zeros++
		return
	case d.count == 0:
		d.zeros = 0
	}
	d.count += d.zeros + 1
	if d.count > maxDigits {
		return // too many, whatever they are
	}
	for ; d.zeros > 0; d.zeros-- {
		d.n *= 10
	}
	d.n = d.n*10 + int64(c-'0')
}

// shift moves the decimal point behind the digits to the right.
func (d *digits) shift(exponent int) (n int64, ok bool) {
	if d.count == 0 {
		return 0, true
	}
	exponent += d.zeros
	if exponent < 0 || d.count+exponent > maxDigits {
		return 0, false
	}
	for n = d.n; exponent > 0; exponent-- {
		n *= 10
	}
	return n, n <= MaxInteger
}

func parseExponent[T ~string | ~[]byte](text T) (exponent int, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	for i := range len(text) {
		if !isDigit(text[i]) {
			return 0, false
		}
		// Longer than any text: more makes no difference.
		exponent = min(exponent*10+int(text[i]-'0'), 1<<30)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, len(text) > 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
