package uritemplate

import (
	"slices"
	"strings"
)

// A Matcher finds out whether a URI fits a template and which values its variables
// have. Make one with [Template.Matcher].
type Matcher struct {
	path      path   // its variables come first,
	query     query  // then these,
	fragment  string // then this one; empty: the template has none
	variables int
	literals  int
}

// Literals returns how many bytes of the template are literal text. Of two
// templates that match a URI, the one with more of it is the more specific.
func (m *Matcher) Literals() int { return m.literals }

// A Variable is a variable that a URI gave a value.
type Variable struct {
	Name  string
	Value string   // decoded; of a list in a query: its first element
	List  []string // the decoded elements of {/x*}, {?x*} and {&x*}, otherwise nil
}

// Variables is what a match found, in the order of the template.
type Variables []Variable

// Lookup returns the variable of that name; ok is false if the URI gave it no value.
func (vs Variables) Lookup(name string) (v Variable, ok bool) {
	for _, v := range vs {
		if v.Name == name {
			return v, true
		}
	}
	return Variable{}, false
}

// Match matches a whole URI of up to [MaxURI] bytes. There is no match if its
// percent-encoding is malformed or decodes to anything but UTF-8. The result may
// share memory with uri.
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
	rest, ok := m.path.cutFirst(text)
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

// MatchContained is Match for values that may become paths of files: there is no match if
// a value of the path could lead to another place. A value that must not cross "/" holds
// no slash and no backslash, none of its segments is "." or "..", and none holds NUL,
// percent-encoded or not. Values of the query and the fragment may be anything.
func (m *Matcher) MatchContained(uri string) (Variables, bool) {
	values, ok := m.Match(uri)
	if !ok {
		return nil, false
	}
	for i, v := range m.path.variables { // they come first, and are always there
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

// decode turns canonical text into values. It comes last, so that an encoded
// delimiter is never taken for a delimiter.
func (v *Variable) decode() {
	v.Value = decode(v.Value)
	for i, element := range v.List {
		v.List[i] = decode(element)
	}
}
