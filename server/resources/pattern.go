package resources

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// A pattern matches paths element by element, with doublestar.Match. The element ** matches
// any number of elements, including none.
type pattern []string

const anyElements = "**"

func parsePattern(text string) (pattern, error) {
	p, err := splitPattern(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern %.80q: %w", text, err)
	}
	return p, nil
}

func splitPattern(text string) (pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(text), maxPattern)
	}
	if strings.ContainsAny(text, "\\\x00") {
		return nil, errors.New("it must not contain a backslash or NUL")
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("it is not UTF-8")
	}
	p := pattern(strings.Split(text, "/"))
	for _, element := range p {
		switch {
		case element == "":
			return nil, errors.New("it must be relative and have no empty element")
		case element == "." || element == "..":
			return nil, fmt.Errorf("it must not contain the element %q", element)
		case element != anyElements && strings.Contains(element, anyElements):
			return nil, fmt.Errorf("** must be a complete element, not a part of %q", element)
		}
		if !doublestar.ValidatePattern(element) {
			return nil, fmt.Errorf("%q has a bracket or brace that is not closed, or an invalid range; braces cannot contain a slash", element)
		}
		if strings.Count(element, "{") > maxBraces {
			return nil, fmt.Errorf("%.80q has more than %d braces", element, maxBraces)
		}
	}
	return p, nil
}

// maxBraces bounds the braces of an element, because all combinations of their alternatives
// are tried.
const maxBraces = 4

// matches reports whether the pattern matches a path. It backtracks only to the last **, so
// its cost is bounded by the product of the two lengths.
func (p pattern) matches(name string) bool {
	elements := strings.Split(name, "/")
	at, star, resume := 0, -1, 0
	for i := 0; i < len(elements); {
		switch {
		case at < len(p) && p[at] == anyElements:
			star, resume = at, i
			at++
		case at < len(p) && matchElement(p[at], elements[i]):
			at++
			i++
		case star >= 0:
			resume++
			at, i = star+1, resume
		default:
			return false
		}
	}
	for at < len(p) && p[at] == anyElements {
		at++
	}
	return at == len(p)
}

// leadsBelow reports whether the pattern may match files below a directory.
func (p pattern) leadsBelow(dir string) bool {
	elements := strings.Split(dir, "/")
	for i, element := range elements {
		switch {
		case i == len(p):
			return false
		case p[i] == anyElements:
			return true
		case !matchElement(p[i], element):
			return false
		}
	}
	return len(elements) < len(p)
}

func matchElement(pattern, element string) bool {
	return doublestar.MatchUnvalidated(pattern, element)
}
