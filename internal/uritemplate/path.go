package uritemplate

import (
	"strings"
	"unicode/utf8"
)

// path matches the path of a URI, and what comes before it. Literals and
// variables take turns: there is one literal more than there are variables, and only the
// outer two may be empty.
type path struct {
	literals  []string // canonical
	variables []pathVariable
	pivot     int // the variable that takes what the others leave; no other may cross "/"
	folded    int // so many bytes of the first literal match in either case; ASCII
}

type pathVariable struct {
	name    string
	crosses bool // may hold "/"
	list    bool // is a list of segments
}

// cutFirst cuts off the literal before the first variable.
func (p *path) cutFirst(text string) (rest string, ok bool) {
	literal := p.literals[0]
	if len(text) < len(literal) {
		return "", false
	}
	head, rest := text[:len(literal)], text[len(literal):]
	return rest, head[p.folded:] == literal[p.folded:] && strings.EqualFold(head[:p.folded], literal[:p.folded])
}

// match takes what cutFirst left and fills in found from its beginning. Literals
// before the pivot are sought from the left, those after it from the right, and no
// search looks at what an earlier one passed, so the work is linear. It misses no
// match: where a literal could stand at several places, the one found leaves the most to
// the variables not yet matched, and no "/" that the others would not leave them too.
func (p *path) match(rest string, found Variables) bool {
	if len(p.variables) == 0 {
		return rest == ""
	}
	last := len(p.literals) - 1
	rest, ok := strings.CutSuffix(rest, p.literals[last])
	if !ok {
		return false
	}
	for i := range p.pivot {
		literal := p.literals[i+1]
		at := indexAfterFirst(rest, literal)
		if at < 0 || !p.variables[i].take(rest[:at], &found[i]) {
			return false
		}
		rest = rest[at+len(literal):]
	}
	for i := len(p.variables) - 1; i > p.pivot; i-- {
		literal := p.literals[i]
		at := lastIndexBeforeLast(rest, literal)
		if at < 0 || !p.variables[i].take(rest[at+len(literal):], &found[i]) {
			return false
		}
		rest = rest[:at]
	}
	return p.variables[p.pivot].take(rest, &found[p.pivot])
}

// indexAfterFirst finds the first literal that leaves at least a byte before it.
func indexAfterFirst(text, literal string) int {
	if text == "" {
		return -1
	}
	at := strings.Index(text[1:], literal)
	if at < 0 {
		return -1
	}
	return at + 1
}

// lastIndexBeforeLast finds the last literal that leaves at least a byte after it.
func lastIndexBeforeLast(text, literal string) int {
	if text == "" {
		return -1
	}
	return strings.LastIndex(text[:len(text)-1], literal)
}

func (v *pathVariable) take(value string, into *Variable) bool {
	if value == "" || !v.crosses && strings.IndexByte(value, '/') >= 0 {
		return false
	}
	*into = Variable{Name: v.name, Value: value}
	if v.list {
		into.List = strings.Split(value, "/")
	}
	return true
}

// foldedPrefix returns how much of the beginning of canonical text is scheme and
// host, which are case-insensitive (RFC 3986, section 6.2.2.1). User information is
// not, and folding other characters than ASCII is not for us to define.
func foldedPrefix(text string) int {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || !isScheme(scheme) {
		return 0
	}
	authority, ok := strings.CutPrefix(rest, "//")
	host, _, _ := strings.Cut(authority, "/")
	if !ok || strings.Contains(host, "@") || !isASCII(host) {
		return len(scheme) + len(":")
	}
	return len(scheme) + len("://") + len(host)
}

// isScheme: RFC 3986, section 3.1.
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return false
		}
	}
	return s != ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
