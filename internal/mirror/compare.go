package mirror

import "github.com/dovetail-go/dovetail/internal/jsonscan"

// checkValue compares the lines of a header with a raw string, number or
// boolean of the body.
func checkValue(header string, lines []string, raw []byte) error {
	if len(lines) != 1 {
		return wrongCount(header, lines, excerpt(raw))
	}
	value, err := Decode(lines[0])
	if err != nil {
		return &HeaderError{header, "has a " + err.Error()}
	}
	var same bool
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		same = jsonscan.KeyIs(raw, value)
	case jsonscan.Number:
		want, ok := parseInteger(raw)
		if !ok {
			return &HeaderError{header, "mirrors " + excerpt(raw) + ", expected an integer from -(2^53-1) to 2^53-1"}
		}
		got, ok := parseInteger(value)
		same = ok && got == want
	default:
		same = string(raw) == value
	}
	if !same {
		return different(header, value, excerpt(raw))
	}
	return nil
}

// checkAbsent refuses a header that mirrors nothing.
func checkAbsent(header string, lines []string, what string) error {
	if len(lines) == 0 {
		return nil
	}
	return &HeaderError{header, "is " + jsonscan.Quote(lines[0]) + ", but the body has no value for " + what}
}

// excerpt is a raw value as an error shows it.
func excerpt(raw []byte) string {
	if jsonscan.KindOf(raw) == jsonscan.String {
		return jsonscan.Quote(jsonscan.Unquote(raw))
	}
	const most = 64
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}
