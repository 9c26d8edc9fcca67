// Package globtest has a slow and simple matcher of path patterns, with which tests compare the matchers
// of server/resources and server/workspace.
package globtest

import (
	"slices"
	"strings"
)

// Match reports whether a valid pattern matches a path. * and ? match within an element, the element **
// matches any number of elements, [a-z] and [!a] match one character, and {a,b} one of the alternatives.
// A backslash is an ordinary character. It tries everything and takes exponential time.
func Match(pattern, name string) bool {
	for _, one := range alternatives(pattern) {
		if matchElements(strings.Split(one, "/"), strings.Split(name, "/")) {
			return true
		}
	}
	return false
}

// MayMiss reports whether github.com/bmatcuk/doublestar, which both packages use, may not match some
// names that a pattern should match: those that end where a star matches no character and other stars
// or braces follow, such as a for a*** and for a*/**.
func MayMiss(pattern string) bool {
	if strings.Contains(pattern, "{") && strings.Contains(pattern, "*") {
		return true
	}
	elements := strings.Split(pattern, "/")
	for i, element := range elements {
		if element != "**" && strings.Contains(element, "**") ||
			strings.HasSuffix(element, "*") && i+1 < len(elements) && elements[i+1] == "**" {
			return true
		}
	}
	return false
}

// alternatives returns the patterns without braces that a pattern stands for.
func alternatives(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	if open < 0 {
		return []string{pattern}
	}
	var all []string
	depth, start := 0, open+1
	for i := open; i < len(pattern); i++ {
		switch pattern[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if c := pattern[i]; c == ',' && depth == 1 || depth == 0 {
			all = append(all, pattern[start:i])
			start = i + 1
		}
		if depth == 0 {
			break
		}
	}
	var expanded []string
	for _, one := range all {
		expanded = append(expanded, alternatives(pattern[:open]+one+pattern[start:])...)
	}
	return expanded
}

func matchElements(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return matchElements(pattern[1:], name) || len(name) > 0 && matchElements(pattern, name[1:])
	}
	return len(name) > 0 && matchElement([]rune(pattern[0]), []rune(name[0])) && matchElements(pattern[1:], name[1:])
}

func matchElement(pattern, text []rune) bool {
	if len(pattern) == 0 {
		return len(text) == 0
	}
	rest := pattern[1:]
	one := len(text) > 0 && pattern[0] == text[0]
	switch pattern[0] {
	case '*':
		return matchElement(rest, text) || len(text) > 0 && matchElement(pattern, text[1:])
	case '?':
		one = len(text) > 0
	case '[':
		negated := rest[0] == '!' || rest[0] == '^'
		end := slices.Index(rest, ']')
		set := rest[:end]
		if negated {
			set = set[1:]
		}
		rest = rest[end+1:]
		one = len(text) > 0 && contains(set, text[0]) != negated
	}
	return one && matchElement(rest, text[1:])
}

// contains reports whether a set of characters and ranges has c. The first character of a range always
// belongs to it, also if the last one is less.
func contains(set []rune, c rune) bool {
	switch {
	case len(set) == 0:
		return false
	case len(set) >= 3 && set[1] == '-':
		return set[0] == c || set[0] <= c && c <= set[2] || contains(set[3:], c)
	}
	return set[0] == c || contains(set[1:], c)
}

// Texts returns all texts of the characters of an alphabet, up to a length.
func Texts(alphabet string, most int) []string {
	texts, last := []string{""}, []string{""}
	for range most {
		var next []string
		for _, text := range last {
			for _, c := range alphabet {
				next = append(next, text+string(c))
			}
		}
		texts, last = append(texts, next...), next
	}
	return texts
}
