package policy

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// A glob is a compiled pattern. Matching takes at most time proportional to the length of the
// pattern times the length of the text.
type glob struct {
	pattern string
	literal string // the prefix of every match
	rest    []step // the steps after the prefix
}

// A step is one part of a pattern.
type step struct {
	kind stepKind
	run  []byte
	set  *set
}

type stepKind uint8

const (
	run stepKind = iota // literal bytes
	anyChar
	anyText
	ofSet
)

// A set is a set of characters, as inclusive ranges.
type set struct {
	ranges  []runeRange
	negated bool
}

type runeRange struct{ low, high rune }

func (s *set) has(c rune) bool {
	for _, r := range s.ranges {
		if r.low <= c && c <= r.high {
			return !s.negated
		}
	}
	return s.negated
}

func compileGlob(pattern string) glob {
	g := glob{pattern: pattern}
	end := strings.IndexAny(pattern, "*?[")
	if end < 0 {
		end = len(pattern)
	}
	g.literal = pattern[:end]
	for rest := pattern[end:]; rest != ""; {
		var s step
		s, rest = nextStep(rest)
		if n := len(g.rest); n > 0 && g.rest[n-1].kind == s.kind {
			switch s.kind {
			case anyText:
				continue
			case run:
				g.rest[n-1].run = append(g.rest[n-1].run, s.run...)
				continue
			}
		}
		g.rest = append(g.rest, s)
	}
	return g
}

func nextStep(pattern string) (s step, rest string) {
	switch pattern[0] {
	case '*':
		return step{kind: anyText}, pattern[1:]
	case '?':
		return step{kind: anyChar}, pattern[1:]
	case '[':
		if inside, rest, closed := cutSet(pattern[1:]); closed {
			return step{kind: ofSet, set: compileSet(inside)}, rest
		}
	}
	return step{kind: run, run: []byte(pattern[:1])}, pattern[1:]
}

// cutSet splits the text after an opening bracket at the closing one. A closing bracket in
// the first position belongs to the set.
func cutSet(text string) (inside, rest string, closed bool) {
	first := 1 // index of the first byte that may be the closing bracket
	if strings.HasPrefix(text, "!") {
		first = 2
	}
	first = min(first, len(text))
	end := strings.IndexByte(text[first:], ']')
	if end < 0 {
		return "", "", false
	}
	return text[:first+end], text[first+end+1:], true
}

func compileSet(inside string) *set {
	inside, negated := strings.CutPrefix(inside, "!")
	s := &set{negated: negated}
	for chars := []rune(inside); len(chars) > 0; {
		if len(chars) >= 3 && chars[1] == '-' {
			if chars[0] <= chars[2] {
				s.ranges = append(s.ranges, runeRange{chars[0], chars[2]})
			}
			chars = chars[3:]
			continue
		}
		s.ranges = append(s.ranges, runeRange{chars[0], chars[0]})
		chars = chars[1:]
	}
	return s
}

// match reports whether the pattern matches all of a text.
func (g *glob) match(text []byte) bool {
	return len(text) >= len(g.literal) && string(text[:len(g.literal)]) == g.literal &&
		walk(g.rest, text[len(g.literal):])
}

// walk first matches each anyText with the empty text, and extends the last one whenever a
// later step fails. Earlier ones need no backtracking.
func walk(steps []step, text []byte) bool {
	at, pos := 0, 0
	after, resume := 0, 0 // the step after the last anyText, 0 for none, and the position where it was tried
	for at < len(steps) || pos < len(text) {
		if at < len(steps) {
			s := &steps[at]
			if s.kind == anyText {
				at++
				if at == len(steps) {
					return true
				}
				after, resume = at, pos
				continue
			}
			if n := s.take(text[pos:]); n >= 0 {
				at, pos = at+1, pos+n
				continue
			}
		}
		if after == 0 || resume == len(text) {
			return false
		}
		_, size := utf8.DecodeRune(text[resume:])
		resume += size
		if s := &steps[after]; s.kind == run { // bytes.IndexByte would make the compiler copy the caller's string
			for resume < len(text) && text[resume] != s.run[0] {
				resume++
			}
		}
		at, pos = after, resume
	}
	return true
}

// take returns the number of bytes that the step matches at the start of a text, or -1.
func (s *step) take(text []byte) int {
	switch {
	case s.kind == run:
		if !bytes.HasPrefix(text, s.run) {
			return -1
		}
		return len(s.run)
	case len(text) == 0:
		return -1
	}
	c, size := utf8.DecodeRune(text)
	if s.kind == ofSet && !s.set.has(c) {
		return -1
	}
	return size
}

// isOpen reports whether the pattern is a literal followed by *.
func (g *glob) isOpen() bool { return len(g.rest) == 1 && g.rest[0].kind == anyText }

// covers reports whether the pattern matches everything that other matches. It may return
// false although it does.
func (g *glob) covers(other *glob) bool {
	return g.pattern == other.pattern || g.isOpen() && strings.HasPrefix(other.literal, g.literal) ||
		len(other.rest) == 0 && g.match([]byte(other.literal))
}

// isVoid reports whether the pattern matches nothing.
func (g *glob) isVoid() bool {
	for _, s := range g.rest {
		if s.kind == ofSet && !s.set.negated && len(s.set.ranges) == 0 {
			return true
		}
	}
	return false
}

// globs is a list of patterns.
type globs []glob

// match reports whether a pattern matches, or the list is empty.
func (g globs) match(text string) bool { return len(g) == 0 || g.find(text) >= 0 }

// find returns the index of the first pattern that matches, or -1.
func (g globs) find(text string) int { return g.findBytes([]byte(text)) }

func (g globs) findBytes(text []byte) int {
	for i := range g {
		if g[i].match(text) {
			return i
		}
	}
	return -1
}

func (g globs) patterns() []string {
	patterns := make([]string, len(g))
	for i := range g {
		patterns[i] = g[i].pattern
	}
	return patterns
}
