package jsonscan

import (
	"errors"
	"strconv"
	"strings"
)

// EscapeToken returns a token as it is written in a pointer: "a/b" is "a~1b".
func EscapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

// UnescapeToken is the inverse of [EscapeToken]. A "~" without "0" or "1" after it stays as it is.
func UnescapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// FormatPointer returns the pointer with these tokens. Without tokens it is "", the whole document.
func FormatPointer(tokens ...string) string {
	var pointer strings.Builder
	for _, token := range tokens {
		pointer.WriteByte('/')
		pointer.WriteString(EscapeToken(token))
	}
	return pointer.String()
}

// ParsePointer returns the tokens of a pointer, none for "".
func ParsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, errors.New(`a JSON Pointer begins with "/"`)
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		tokens[i] = UnescapeToken(token)
		if EscapeToken(tokens[i]) != token {
			return nil, errors.New(`in a JSON Pointer "~" is written "~0"`)
		}
	}
	return tokens, nil
}

// Child returns the member or element of a JSON value that a token names, nil if there is none. The result is a slice
// of the value. If the value is not valid JSON, or has a member twice, Child returns the error of [ReadObject].
func Child(value []byte, token string) ([]byte, error) {
	switch KindOf(value) {
	case Object:
		members, err := ReadObject(value)
		return members.Get(token), err
	case Array:
		if i, ok := TokenIndex(token); ok {
			return ElementAt(value, i)
		}
	}
	return nil, nil
}

// FindPointer returns the value that the tokens lead to, nil if there is none; errors are as of [Child].
func FindPointer(value []byte, tokens ...string) ([]byte, error) {
	for _, token := range tokens {
		var err error
		if value, err = Child(value, token); value == nil {
			return nil, err
		}
	}
	return value, nil
}

// TokenIndex returns the index that a token is. ok is false if the token is no index: digits without
// a leading zero, below 2^31.
func TokenIndex(token string) (index int, ok bool) {
	n, err := strconv.ParseUint(token, 10, 31)
	return int(n), err == nil && (len(token) == 1 || token[0] != '0')
}

// ElementAt returns an element of an array, nil if the array is shorter. The array is read up to
// the end of the element; the error says what is not valid JSON there.
func ElementAt(array []byte, index int) ([]byte, error) {
	scan := New(array)
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
