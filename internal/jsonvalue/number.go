package jsonvalue

import (
	"encoding/json"
	"strconv"
	"strings"
)

// exactDigits is the number of significant digits that tell apart all values of float64.
const exactDigits = 17

// exactText is the length of a text that a float64 always holds: it has at most 15 digits.
const exactText = 15

// numberValue returns the value of a JSON number: a float64, or a json.Number if float64 cannot hold it.
func numberValue(text string) any {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return json.Number(text) // it is beyond the range
	}
	if len(text) <= exactText && !strings.ContainsAny(text, "eE") {
		return value
	}
	digits, exponent := decimal(text)
	if kept, keptExponent := decimal(strconv.FormatFloat(value, 'e', -1, 64)); digits == kept && exponent == keptExponent {
		return value
	}
	if exponent < 0 && len(digits) <= exactDigits && value != 0 {
		return value
	}
	return json.Number(text)
}

// decimal returns the significant digits of a number and the power of ten that they are multiplied with. Its sign does
// not matter here. An exponent that is too large for an int has no meaning: the text is then out of the range of
// float64, or zero.
func decimal(text string) (digits string, exponent int) {
	mantissa := strings.TrimPrefix(text, "-")
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(mantissa[i+1:])
		mantissa = mantissa[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return "", 0
	}
	return trimmed, exponent
}
