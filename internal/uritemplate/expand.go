package uritemplate

import (
	"fmt"
	"unicode/utf8"
)

// The library's own expansion is not used: v3.0.2 percent-encodes code points
// where RFC 6570, section 1.6 wants the octets of their UTF-8 form (it writes %FC for
// "ü"), counts prefixes in bytes, and encodes the triplets that reserved expansion keeps.

// operation is a row of the table in RFC 6570, appendix A.
type operation struct {
	first    string // before the first defined variable
	sep      string // between variables, and between exploded items
	named    bool   // values are written as name=value
	ifEmpty  string // what follows the name of an empty value
	reserved bool   // reserved characters and triplets stand for themselves
}

func operationOf(operator byte) operation {
	switch operator {
	case '+':
		return operation{sep: ",", reserved: true}
	case '#':
		return operation{first: "#", sep: ",", reserved: true}
	case '.':
		return operation{first: ".", sep: "."}
	case '/':
		return operation{first: "/", sep: "/"}
	case ';':
		return operation{first: ";", sep: ";", named: true}
	case '?':
		return operation{first: "?", sep: "&", named: true, ifEmpty: "="}
	case '&':
		return operation{first: "&", sep: "&", named: true, ifEmpty: "="}
	default:
		return operation{sep: ","}
	}
}

// Expand writes the template with the given values (RFC 6570, section 3).
// Variables that are not given expand to nothing. The error is a [*ValueError]: a
// value is not valid UTF-8, a prefix such as {x:3} is asked of a list or a map, or
// the URI is longer than [MaxURI].
func (t *Template) Expand(values map[string]Value) (string, error) {
	uri := make([]byte, 0, 2*len(t.text))
	for _, p := range t.parts {
		if p.variables == nil {
			uri = appendEscaped(uri, p.text, true)
			continue
		}
		op := operationOf(p.operator)
		lead := op.first
		for _, v := range p.variables {
			value := values[v.name]
			if value.kind == undefined {
				continue
			}
			if err := v.check(value); err != nil {
				return "", err
			}
			uri = append(uri, lead...)
			uri = op.appendValue(uri, v, value)
			if len(uri) > MaxURI { // here too: an expression may hold thousands of variables
				return "", errTooLong()
			}
			lead = op.sep
		}
	}
	if len(uri) > MaxURI {
		return "", errTooLong()
	}
	return string(uri), nil
}

func errTooLong() error {
	return &ValueError{Reason: fmt.Sprintf("the expanded URI is longer than %d bytes", MaxURI)}
}

func (v variable) check(value Value) error {
	if v.prefix > 0 && value.kind != text {
		return &ValueError{v.name, fmt.Sprintf("the prefix :%d takes text, not a list or a map", v.prefix)}
	}
	size := 0
	for _, item := range value.items {
		if !utf8.ValidString(item) {
			return &ValueError{v.name, "the value is not valid UTF-8"}
		}
		size += len(item)
	}
	if v.prefix == 0 && size > MaxURI {
		return &ValueError{v.name, fmt.Sprintf("the value is longer than %d bytes", MaxURI)}
	}
	return nil
}

func (op operation) appendValue(dst []byte, v variable, value Value) []byte {
	if value.kind == text {
		s := firstCharacters(value.items[0], v.prefix)
		return op.appendItem(dst, v.name, s)
	}
	if v.explode {
		return op.appendExploded(dst, v.name, value)
	}
	if op.named {
		dst = append(dst, v.name...)
		if len(value.items) == 1 && value.items[0] == "" {
			return append(dst, op.ifEmpty...)
		}
		dst = append(dst, '=')
	}
	for i, item := range value.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendEscaped(dst, item, op.reserved)
	}
	return dst
}

func (op operation) appendExploded(dst []byte, name string, value Value) []byte {
	if value.kind == list {
		for i, item := range value.items {
			if i > 0 {
				dst = append(dst, op.sep...)
			}
			dst = op.appendItem(dst, name, item)
		}
		return dst
	}
	for i := 0; i < len(value.items); i += 2 {
		if i > 0 {
			dst = append(dst, op.sep...)
		}
		// Keys are escaped as values are. The RFC's literal encoding would let
		// a key that holds "&" or "=" forge further parameters.
		dst = appendEscaped(dst, value.items[i], op.reserved)
		if item := value.items[i+1]; item != "" || !op.named {
			dst = append(dst, '=')
			dst = appendEscaped(dst, item, op.reserved)
		} else {
			dst = append(dst, op.ifEmpty...)
		}
	}
	return dst
}

// appendItem appends one text, with its name if the operation wants names.
func (op operation) appendItem(dst []byte, name, item string) []byte {
	if op.named {
		dst = append(dst, name...)
		if item == "" {
			return append(dst, op.ifEmpty...)
		}
		dst = append(dst, '=')
	}
	return appendEscaped(dst, item, op.reserved)
}

// firstCharacters returns the first n characters of s, all of them if n is 0.
func firstCharacters(s string, n int) string {
	if n == 0 {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
