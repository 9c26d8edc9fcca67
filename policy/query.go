package policy

import (
	"net/url"
	"strings"
)

// A queryGlob is a pattern of URIs with a query, split into its path and parameters. It matches the parameters in any order
// and among others: a caller chooses the order, and a function ignores what it does not know.
type queryGlob struct {
	path   glob
	params globs
}

// maxQueries is how many readings a pattern has at most: each wildcard before its parameters may match the question mark.
const maxQueries = 16

// compileQueries returns the ways to split the canonical spelling of a pattern.
func compileQueries(pattern string) (queries []queryGlob) {
	head, isLong := pattern, false // head ends within the first parameter
	if i := strings.IndexAny(pattern, "=&;"); i >= 0 {
		head, isLong = pattern[:i], true
	}
	for i := 0; i < len(head) && len(queries) < maxQueries; i++ {
		path, query := pattern[:i], ""
		switch {
		case strings.HasPrefix(pattern[i:], "[?]"):
			query = pattern[i+3:]
			i += 2
		case pattern[i] == '?':
			query = pattern[i+1:]
		case pattern[i] == '*' && isLong: // it may match the question mark and a part of the parameter's name
			path, query = pattern[:i+1], pattern[i:]
		default:
			continue
		}
		q := queryGlob{path: compileGlob(path)}
		for _, param := range splitQuery(query) {
			q.params = append(q.params, compileGlob(decodeParam(quoteWildcards.Replace(param))))
		}
		queries = append(queries, q)
	}
	return queries
}

// quoteWildcards makes encoded characters that would be wildcards match themselves.
var quoteWildcards = strings.NewReplacer("%2A", "[*]", "%3F", "[?]", "%5B", "[[]")

// matches reports whether each parameter of the pattern is a parameter of the query. A pattern without parameters matches a
// query without them.
func (q *queryGlob) matches(path []byte, params [][]byte) bool {
	if len(q.params) == 0 && len(params) > 0 || !q.path.match(path) {
		return false
	}
	for i := range q.params {
		if !containsMatch(params, &q.params[i]) {
			return false
		}
	}
	return true
}

func containsMatch(params [][]byte, g *glob) bool {
	for _, param := range params {
		if g.match(param) {
			return true
		}
	}
	return false
}

// findQuery returns the index of the first pattern that matches the parameters of a canonical URI, or -1.
func (g globs) findQuery(path, query string) int {
	var params [][]byte
	for _, param := range splitQuery(strings.Clone(query)) { // without the copy each decision about any name allocates
		params = append(params, []byte(decodeParam(param)))
	}
	for i := range g {
		for j := range g[i].queries {
			if g[i].queries[j].matches([]byte(path), params) {
				return i
			}
		}
	}
	return -1
}

// splitQuery returns the parameters that are not empty. Some programs separate them by semicolons.
func splitQuery(query string) []string {
	return strings.FieldsFunc(query, func(c rune) bool { return c == '&' || c == ';' })
}

// decodeParam returns a parameter without percent-encoding. A plus sign is a space, as in forms.
func decodeParam(param string) string {
	param = strings.ReplaceAll(param, "+", " ")
	if decoded, err := url.PathUnescape(param); err == nil {
		return decoded
	}
	return param
}
