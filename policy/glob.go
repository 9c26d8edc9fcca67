package policy

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// A glob is a compiled pattern. Matching takes time linear in the pattern and in the
// text, multiplied, at most.
type glob struct {
	pattern string
	literal string // what every match begins with
	rest    []step // what follows it
}

// A step is one part of a pattern behind its literal beginning.
type step struct {
	kind stepKind
	run  []byte
	set  *set
}

type stepKind uint8

const (
	run stepKind = iota // of characters that stand for themselves
	anyChar
	anyText
	ofSet
)

// A set is of characters: pairs of bounds, both within.
type set struct {
	ranges  []span
	negated bool
}

type span struct{ low, high rune }

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

// cutSet cuts a set behind its opening bracket. A closing bracket that comes first is one
// of the set.
func cutSet(text string) (inside, rest string, closed bool) {
	first := 1 // of the bytes that may be the closing bracket
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
				s.ranges = append(s.ranges, span{chars[0], chars[2]})
			}
			chars = chars[3:]
			continue
		}
		s.ranges = append(s.ranges, span{chars[0], chars[0]})
		chars = chars[1:]
	}
	return s
}

// match says whether the pattern matches all of a text.
func (g *glob) match(text []byte) bool {
	return len(text) >= len(g.literal) && string(text[:len(g.literal)]) == g.literal &&
		walk(g.rest, text[len(g.literal):])
}

// walk has each any-text begin with nothing, and take in more whenever what follows it
// fails. Only the last one is gone back to: what came before it need not change.
func walk(steps []step, text []byte) bool {
	at, pos := 0, 0
	after, resume := 0, 0 // the step after the last any-text, and where it was tried; 0 if there was none
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
		if s := &steps[after]; s.kind == run { // not by package bytes, for which callers' strings were copied
			for resume < len(text) && text[resume] != s.run[0] {
				resume++
			}
		}
		at, pos = after, resume
	}
	return true
}

// take is how many bytes of a text the step matches, -1 if it does not.
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

// isOpen says whether whatever begins with the literal is matched.
func (g *glob) isOpen() bool { return len(g.rest) == 1 && g.rest[0].kind == anyText }

// covers says whether all that other matches is matched. It may say no wrongly.
func (g *glob) covers(other *glob) bool {
	return g.pattern == other.pattern || g.isOpen() && strings.HasPrefix(other.literal, g.literal) ||
		len(other.rest) == 0 && g.match([]byte(other.literal))
}

// isVoid says whether a pattern cannot match anything.
func (g *glob) isVoid() bool {
	for _, s := range g.rest {
		if s.kind == ofSet && !s.set.negated && len(s.set.ranges) == 0 {
			return true
		}
	}
	return false
}

// globs are patterns of which one must match; none at all match everything.
type globs []glob

func (g globs) match(text string) bool { return len(g) == 0 || g.matchAny([]byte(text)) }

func (g globs) matchAny(text []byte) bool {
	for i := range g {
		if g[i].match(text) {
			return true
		}
	}
	return false
}

func (g globs) patterns() []string {
	patterns := make([]string, len(g))
	for i := range g {
		patterns[i] = g[i].pattern
	}
	return patterns
}
