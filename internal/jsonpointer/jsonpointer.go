package jsonpointer

import (
	"errors"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Escape returns a token as it is written in a pointer: "a/b" is "a~1b".
func Escape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

// Unescape is the inverse of [Escape]. A "~" without "0" or "1" after it stays as it is.
func Unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// Format returns the pointer with these tokens. Without tokens it is "", the whole document.
func Format(tokens ...string) string {
	var pointer strings.Builder
	for _, token := range tokens {
		pointer.WriteByte('/')
		pointer.WriteString(Escape(token))
	}
	return pointer.String()
}

// Parse returns the tokens of a pointer, none for "".
func Parse(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, errors.New(`a JSON Pointer begins with "/"`)
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		tokens[i] = Unescape(token)
		if Escape(tokens[i]) != token {
			return nil, errors.New(`in a JSON Pointer "~" is written "~0"`)
		}
	}
	return tokens, nil
}

// Child returns the member or element of a JSON value that a token names, nil if there is none. The result is a slice
// of the value. If the value is not valid JSON, or has a member twice, Child returns the error of package jsonscan.
func Child(value []byte, token string) ([]byte, error) {
	switch jsonscan.KindOf(value) {
	case jsonscan.Object:
		members, err := jsonscan.ReadObject(value)
		return members.Get(token), err
	case jsonscan.Array:
		if i, ok := Index(token); ok {
			return Element(value, i)
		}
	}
	return nil, nil
}

// Find returns the value that the tokens lead to, nil if there is none; errors are as of [Child].
func Find(value []byte, tokens ...string) ([]byte, error) {
	for _, token := range tokens {
		var err error
		if value, err = Child(value, token); value == nil {
			return nil, err
		}
	}
	return value, nil
}

// Index returns the index that a token is. ok is false if the token is no index: digits without
// a leading zero, below 2^31.
func Index(token string) (index int, ok bool) {
	n, err := strconv.ParseUint(token, 10, 31)
	return int(n), err == nil && (len(token) == 1 || token[0] != '0')
}

// Element returns an element of an array, nil if the array is shorter. The array is read up to
// the end of the element; the error says what is not valid JSON there.
func Element(array []byte, index int) ([]byte, error) {
	scan := jsonscan.New(array)
	if err := scan.EnterArray(); err != nil {
		return nil, err
	}
	for i := 0; ; i++ {
		if more, err := scan.Element(i == 0); err != nil || !more {
			return nil, err
		}
		value, err := scan.Value()
		if err != nil || i == index {
			return value, err
		}
	}
}
