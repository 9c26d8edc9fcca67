package policy

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// A glob is a compiled pattern. Matching takes at most time proportional to the length of the
// pattern times the length of the text.
type glob struct {
	pattern string
	literal string // the prefix of every match
	rest    []part // the parts after the prefix
	ofURIs  *glob  // the canonical spelling of a pattern of URIs; nil if it is the pattern
}

// A part is one part of a pattern.
type part struct {
	kind    partKind
	literal []byte
	set     *set
}

type partKind uint8

const (
	literal partKind = iota // literal bytes
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
		var p part
		p, rest = nextPart(rest)
		if n := len(g.rest); n > 0 && g.rest[n-1].kind == p.kind {
			switch p.kind {
			case anyText:
				continue
			case literal:
				g.rest[n-1].literal = append(g.rest[n-1].literal, p.literal...)
				continue
			}
		}
		g.rest = append(g.rest, p)
	}
	return g
}

func nextPart(pattern string) (p part, rest string) {
	switch pattern[0] {
	case '*':
		return part{kind: anyText}, pattern[1:]
	case '?':
		return part{kind: anyChar}, pattern[1:]
	case '[':
		if inside, rest, closed := cutSet(pattern[1:]); closed {
			return part{kind: ofSet, set: compileSet(inside)}, rest
		}
	}
	return part{kind: literal, literal: []byte(pattern[:1])}, pattern[1:]
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
// later part fails. Earlier ones need no backtracking.
func walk(parts []part, text []byte) bool {
	at, pos := 0, 0
	after, resume := 0, 0 // the part after the last anyText, 0 for none, and the position where it was tried
	for at < len(parts) || pos < len(text) {
		if at < len(parts) {
			p := &parts[at]
			if p.kind == anyText {
				at++
				if at == len(parts) {
					return true
				}
				after, resume = at, pos
				continue
			}
			if n := p.matchPrefix(text[pos:]); n >= 0 {
				at, pos = at+1, pos+n
				continue
			}
		}
		if after == 0 || resume == len(text) {
			return false
		}
		_, size := utf8.DecodeRune(text[resume:])
		resume += size
		if p := &parts[after]; p.kind == literal { // bytes.IndexByte would make the compiler copy the caller's string
			for resume < len(text) && text[resume] != p.literal[0] {
				resume++
			}
		}
		at, pos = after, resume
	}
	return true
}

// matchPrefix returns the number of bytes that the part matches at the start of a text, or -1.
func (p *part) matchPrefix(text []byte) int {
	switch {
	case p.kind == literal:
		if !bytes.HasPrefix(text, p.literal) {
			return -1
		}
		return len(p.literal)
	case len(text) == 0:
		return -1
	}
	c, size := utf8.DecodeRune(text)
	if p.kind == ofSet && !p.set.has(c) {
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
	for _, p := range g.rest {
		if p.kind == ofSet && !p.set.negated && len(p.set.ranges) == 0 {
			return true
		}
	}
	return false
}

// globs is a list of patterns.
type globs []glob

// match reports whether a pattern matches, or the list is empty.
func (g globs) match(text string) bool { return len(g) == 0 || g.find(text) >= 0 }

// matchAny reports whether a pattern matches one of several texts, "" if there are none.
func (g globs) matchAny(texts []string) bool {
	return len(texts) == 0 && g.match("") || slices.ContainsFunc(texts, g.match)
}

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

// holds reports whether a pattern matches, or the list is empty. It is unknown if a pattern matches the given spelling
// or a part that a template may use, and none the canonical spelling.
func (g globs) holds(name spellings) tristate {
	if len(g) == 0 {
		return yes
	}
	switch i, isCanonical := g.findName(name); {
	case isCanonical:
		return yes
	case i >= 0:
		return unknown
	}
	return no
}

// findName returns the index of the first pattern that matches the canonical spelling of a name, otherwise that of the
// first one that matches a part of it that a template may use, or the given spelling, otherwise -1.
func (g globs) findName(name spellings) (index int, isCanonical bool) {
	if i := g.findSpelling(name.canonical, name.isURI); i >= 0 {
		return i, true
	}
	if name.isMatched {
		resource, _, _ := strings.Cut(name.canonical, "#")
		path, _, _ := strings.Cut(resource, "?")
		for _, part := range [...]string{resource, path} {
			if i := g.findSpelling(part, true); i >= 0 {
				return i, false
			}
		}
	}
	if name.given == name.canonical {
		return -1, false
	}
	return g.find(name.given), false
}

// findSpelling returns the index of the first pattern that matches a canonical spelling, or -1.
func (g globs) findSpelling(name string, isURI bool) int {
	text := []byte(name)
	for i := range g {
		if g[i].match(text) || isURI && g[i].ofURIs != nil && g[i].ofURIs.match(text) {
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
