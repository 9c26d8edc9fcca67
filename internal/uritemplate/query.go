package uritemplate

import "strings"

// query matches the parameters of a URI's query, in any order.
type query struct {
	constants map[string]int           // name=value that must be there → its number
	variables map[string]queryVariable // by parameter
}

type queryVariable struct {
	name  string
	index int // in what a match found
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
			v.take(value, &found[v.index])
		}
	}
	return missing == 0
}

// take keeps the first value, and all of them if the variable is a list.
func (v queryVariable) take(value string, into *Variable) {
	if into.Name == "" {
		into.Name, into.Value = v.name, value
	}
	if v.list {
		into.List = append(into.List, value)
	}
}
