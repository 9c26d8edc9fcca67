package mirror

import (
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// badName says what keeps a raw annotation from being the end of a header's
// name.
func badName(raw []byte) string {
	if kind := jsonscan.KindOf(raw); kind != jsonscan.String {
		return fmt.Sprintf("a header name is a string, not %v", kind)
	}
	name := jsonscan.Unquote(raw)
	switch {
	case name == "":
		return "a header name is not empty"
	case len(name) > MaxParamName:
		return fmt.Sprintf("a header name has at most %d bytes", MaxParamName)
	}
	for _, r := range name {
		if !isToken(r) {
			return fmt.Sprintf("a header name consists of letters, digits and !#$%%&'*+-.^_`|~, not of %+q", r)
		}
	}
	return ""
}

// isToken tells the characters of a name: RFC 9110, section 5.6.2.
func isToken(r rune) bool {
	return isAlphanumeric(r) || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}

// canonical returns a header's name in the form that net/http has for it:
// capitals at the beginning and after each hyphen.
func canonical(name string) string {
	out := []byte(name)
	upper := true
	for i, c := range out {
		switch {
		case upper && 'a' <= c && c <= 'z':
			out[i] -= 'a' - 'A'
		case !upper && 'A' <= c && c <= 'Z':
			out[i] += 'a' - 'A'
		}
		upper = c == '-'
	}
	return string(out)
}
