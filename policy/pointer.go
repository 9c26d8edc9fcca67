package policy

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A pointer is a JSON Pointer (RFC 6901), taken apart.
type pointer []string

func compilePointer(text string) (pointer, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, errors.New(`a path begins with "/"`)
	}
	tokens := strings.Split(text[1:], "/")
	for i, token := range tokens {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(token), "~") {
			return nil, errors.New(`in a path "~" is written "~0"`)
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return tokens, nil
}

// find returns the value that the pointer leads to, and whether there is one, as far as
// all who read the text would agree.
func (p pointer) find(text []byte) (value []byte, found truth) {
	value = text
	for _, token := range p {
		switch jsonscan.KindOf(value) {
		case jsonscan.Object:
			value, found = member(value, token)
		case jsonscan.Array:
			value, found = element(value, token)
		case jsonscan.Null, jsonscan.EOF:
			return nil, no
		default:
			return nil, unknown
		}
		if found != yes {
			return nil, found
		}
	}
	return value, yes
}

// member returns a member of an object. It is not known whether there is one that has been
// given twice, or in another case.
func member(object []byte, name string) (value []byte, found truth) {
	scan := jsonscan.New(object)
	if scan.EnterObject() != nil {
		return nil, unknown
	}
	for first := true; ; first = false {
		key, ok, err := scan.Member(first)
		if err != nil {
			return nil, unknown
		}
		if !ok {
			return value, found
		}
		text, err := scan.Value()
		if err != nil {
			return nil, unknown
		}
		switch {
		case jsonscan.KeyIs(key, name):
			if found == yes {
				return nil, unknown
			}
			value, found = text, yes
		case isVariant(key, name):
			return nil, unknown
		}
	}
}

// isVariant says whether readers who ignore case would take a key for the name.
func isVariant(key []byte, name string) bool {
	var buf [64]byte
	return bytes.EqualFold(unquoted(buf[:0], key), []byte(name))
}

func element(array []byte, token string) (value []byte, found truth) {
	index, err := strconv.ParseUint(token, 10, 31)
	if err != nil || len(token) > 1 && token[0] == '0' {
		return nil, unknown
	}
	scan := jsonscan.New(array)
	if scan.EnterArray() != nil {
		return nil, unknown
	}
	for i := uint64(0); ; i++ {
		ok, err := scan.Element(i == 0)
		if err != nil {
			return nil, unknown
		}
		if !ok {
			return nil, no
		}
		if value, err = scan.Value(); err != nil {
			return nil, unknown
		}
		if i == index {
			return value, yes
		}
	}
}

// unquoted is the text of a string as it was scanned. It is in buf only if there are
// escapes.
func unquoted(buf, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return jsonscan.AppendUnquoted(buf, raw)
}
