package config

import (
	"bytes"
	"strings"
)

const space = " \t\r\n"

// plainJSON is a text with white space in place of its comments and trailing
// commas, and every other byte where it was. What is no JSON apart from these it
// leaves for the scanner to refuse.
func plainJSON(text []byte) []byte {
	plain := bytes.Clone(text)
	last := byte('[') // the last byte of JSON
	trailing := -1    // the comma behind a value, while nothing else has come after it
	var end int
	for i := 0; i < len(plain); i = end {
		c := plain[i]
		switch end = commentEnd(plain, i); {
		case end < 0:
			return plain
		case end > i:
			copy(plain[i:end], bytes.Repeat([]byte(" "), end-i))
			continue
		}
		end = i + 1
		switch {
		case strings.IndexByte(space, c) >= 0:
			continue
		case (c == ']' || c == '}') && trailing >= 0:
			plain[trailing] = ' '
		case c == '"':
			n := stringEnd(plain[i:])
			if n == 0 {
				return plain
			}
			end = i + n
		}
		trailing = -1
		if c == ',' && strings.IndexByte("[{:,", last) < 0 {
			trailing = i
		}
		last = c
	}
	return plain
}

// commentEnd returns where the comment at i ends: i when there is none, -1 when it
// does not end.
func commentEnd(text []byte, i int) int {
	rest := text[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		return i + len(line)
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + 2 + n + 2
		}
		return -1
	}
	return i
}

// stringEnd returns how long the text in double quotes is with which the text begins,
// 0 when it is not closed.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}
