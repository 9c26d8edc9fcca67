package uritemplate

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Matcher reports whether a URI matches a template and extracts the values of the variables.
// Use [Template.Matcher] to make one.
type Matcher struct {
	path      path // Variables lists the variables of the path first,
	query     query
	fragment  string // then the variables of the query, then this one; "" if the template has no fragment
	variables int
}

// A Variable is a variable with the value that it has in a URI.
type Variable struct {
	Name  string
	Value string   // decoded; for a list in a query, its first element
	List  []string // the decoded elements of {/x*}, {?x*} and {&x*}, otherwise nil
}

// Variables lists the variables with values, in the order of the template.
type Variables []Variable

// Lookup returns the variable of that name; ok is false if it has no value.
func (vs Variables) Lookup(name string) (v Variable, ok bool) {
	for _, v := range vs {
		if v.Name == name {
			return v, true
		}
	}
	return Variable{}, false
}

// Match matches a complete URI of at most [MaxURI] bytes. A URI does not match if its
// percent-encoding is malformed or does not decode to UTF-8. The result may share memory with uri.
func (m *Matcher) Match(uri string) (Variables, bool) {
	if len(uri) > MaxURI {
		return nil, false
	}
	text, ok := canonical(uri)
	if !ok {
		return nil, false
	}
	text, fragment, hasFragment := strings.Cut(text, "#")
	text, query, _ := strings.Cut(text, "?")
	rest, ok := m.path.cutPrefix(text)
	if !ok {
		return nil, false
	}

	found := make(Variables, m.variables)
	if !m.path.match(rest, found) || !m.query.match(query, found) {
		return nil, false
	}
	if hasFragment && m.fragment != "" {
		found[m.variables-1] = Variable{Name: m.fragment, Value: fragment}
	}
	found = slices.DeleteFunc(found, func(v Variable) bool { return v.Name == "" })
	for i := range found {
		found[i].decode()
	}
	return found, true
}

// MatchContained is [Matcher.Match] for values that are used in file paths. A URI does not match
// if a value of its path could lead out of a directory: no value holds NUL or has a segment "."
// or "..", and only a value that may cross "/" holds a slash or a backslash, percent-encoded or
// not. Values of the query and the fragment are not restricted.
func (m *Matcher) MatchContained(uri string) (Variables, bool) {
	values, ok := m.Match(uri)
	if !ok {
		return nil, false
	}
	for i, v := range m.path.variables { // they come first and always have a value
		if v.list {
			for _, element := range values[i].List {
				if !isContained(element, false) {
					return nil, false
				}
			}
		} else if !isContained(values[i].Value, v.crosses) {
			return nil, false
		}
	}
	return values, true
}

func isContained(value string, crosses bool) bool {
	if strings.IndexByte(value, 0) >= 0 || !crosses && strings.ContainsAny(value, `/\`) {
		return false
	}
	for segment := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// decode replaces canonical text by decoded text. Matching is complete by then, so an encoded
// delimiter is never taken for a delimiter.
func (v *Variable) decode() {
	v.Value = decode(v.Value)
	for i, element := range v.List {
		v.List[i] = decode(element)
	}
}

// A path matches the part of a URI before the query. Its literals and variables alternate and
// begin and end with a literal. Only the first and the last literal may be empty.
type path struct {
	literals     []string // canonical
	variables    []pathVariable
	pivot        int // the variable that takes the text between the others; only it may cross "/"
	foldedLength int // this many bytes of the first literal match without regard to case; ASCII
}

type pathVariable struct {
	name    string
	crosses bool // may hold "/"
	list    bool // is a list of segments
}

// cutPrefix returns text without the literal before the first variable.
func (p *path) cutPrefix(text string) (rest string, ok bool) {
	literal := p.literals[0]
	if len(text) < len(literal) {
		return "", false
	}
	head, rest := text[:len(literal)], text[len(literal):]
	return rest, head[p.foldedLength:] == literal[p.foldedLength:] && strings.EqualFold(head[:p.foldedLength], literal[:p.foldedLength])
}

// match matches the text that cutPrefix returned and writes the values to the start of found. It
// finds literals before the pivot from the left and those after it from the right, and reads no
// byte twice, so its work is linear. It misses no match: where a literal occurs several times,
// the occurrence that it takes leaves the longest text to the variables that follow.
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
		if at < 0 || !p.variables[i].set(rest[:at], &found[i]) {
			return false
		}
		rest = rest[at+len(literal):]
	}
	for i := len(p.variables) - 1; i > p.pivot; i-- {
		literal := p.literals[i]
		at := lastIndexBeforeLast(rest, literal)
		if at < 0 || !p.variables[i].set(rest[at+len(literal):], &found[i]) {
			return false
		}
		rest = rest[:at]
	}
	return p.variables[p.pivot].set(rest, &found[p.pivot])
}

// indexAfterFirst returns the first index of literal in text after the first byte, or -1.
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

// lastIndexBeforeLast returns the last index of literal in text before the last byte, or -1.
func lastIndexBeforeLast(text, literal string) int {
	if text == "" {
		return -1
	}
	return strings.LastIndex(text[:len(text)-1], literal)
}

func (v *pathVariable) set(value string, into *Variable) bool {
	if value == "" || !v.crosses && strings.IndexByte(value, '/') >= 0 {
		return false
	}
	*into = Variable{Name: v.name, Value: value}
	if v.list {
		into.List = strings.Split(value, "/")
	}
	return true
}

// foldedLength returns the length of the scheme and host at the start of canonical text. They are
// case-insensitive (RFC 3986, section 6.2.2.1), unlike user information. A host that is not ASCII
// is compared exactly.
func foldedLength(text string) int {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || !isScheme(scheme) {
		return 0
	}
	authority, ok := strings.CutPrefix(rest, "//")
	host := authority
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		host = authority[:end]
	}
	if !ok || strings.Contains(host, "@") || strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
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

// A query matches the parameters of a URI's query, in any order.
type query struct {
	constants map[string]int           // the number of each required name=value
	variables map[string]queryVariable // by parameter
}

type queryVariable struct {
	name  string
	index int // in Variables
	list  bool
}

func (q *query) match(text string, found Variables) bool {
	if len(q.constants)+len(q.variables) == 0 {
		return true
	}
	seen := make([]bool, len(q.constants))
	missing := len(q.constants)
	for pair := range strings.SplitSeq(text, "&") {
		if i, ok := q.constants[pair]; ok {
			if !seen[i] {
				seen[i] = true
				missing--
			}
			continue
		}
		parameter, value, _ := strings.Cut(pair, "=")
		if v, ok := q.variables[parameter]; ok {
			v.set(value, &found[v.index])
		}
	}
	return missing == 0
}

// set keeps the first value, and all values if the variable is a list.
func (v queryVariable) set(value string, into *Variable) {
	if into.Name == "" {
		into.Name, into.Value = v.name, value
	}
	if v.list {
		into.List = append(into.List, value)
	}
}
