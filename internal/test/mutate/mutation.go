package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The kinds of mutations.
const (
	condition  = "condition"  // a condition is negated
	comparison = "comparison" // a comparison is shifted by one: < becomes <=
	logic      = "logic"      // && becomes ||
	statement  = "statement"  // a call without result or an assignment is removed
	lock       = "lock"       // a mutex is not locked in a function
	errorValue = "error"      // nil is returned instead of an error
	constant   = "constant"   // an integer constant is increased by one
	arithmetic = "arithmetic" // + becomes -
	release    = "release"    // a call of delete, close, cancel and so on is removed
)

func kinds() []string {
	return []string{condition, comparison, logic, statement, lock, errorValue, constant, arithmetic, release}
}

// A mutation is a small change of a file.
type mutation struct {
	folder, file string // the package's folder, and the name of the file
	line, column int
	kind         string
	function     string // in which the change is
	what         string // the change as text
	number       int    // of the changes in this function with the same text
	edits        []edit // in the order of the file
}

// An edit replaces the bytes from start to end.
type edit struct {
	start, end int
	text       string
}

// id identifies the mutation in all versions of the file that have it.
func (m mutation) id() string {
	return fmt.Sprintf("%s %s %s: %s #%d", m.path(), m.function, m.kind, m.what, m.number)
}

func (m mutation) path() string { return path.Join(m.folder, m.file) }

func (m mutation) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", m.path(), m.line, m.column, m.kind, m.what)
}

// apply returns the changed source.
func (m mutation) apply(source []byte) []byte {
	var changed []byte
	end := 0
	for _, e := range m.edits {
		changed = append(append(changed, source[end:e.start]...), e.text...)
		end = e.end
	}
	return append(changed, source[end:]...)
}

// order returns the mutations in the order of a seed. Kinds alternate, because the tests notice
// some kinds more often than others, and the frequent kinds would hide the rest.
func order(candidates []mutation, seed string) []mutation {
	type ranked struct {
		mutation
		rank string
	}
	byKind := map[string][]ranked{}
	for _, m := range candidates {
		sum := sha256.Sum256([]byte(seed + "\n" + m.id()))
		byKind[m.kind] = append(byKind[m.kind], ranked{m, string(sum[:])})
	}
	for _, list := range byKind {
		slices.SortFunc(list, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	}
	ordered := make([]mutation, 0, len(candidates))
	for i := 0; len(ordered) < len(candidates); i++ {
		for _, kind := range kinds() {
			if list := byKind[kind]; i < len(list) {
				ordered = append(ordered, list[i].mutation)
			}
		}
	}
	return ordered
}

// maxShown is how many runes of source the description of a mutation has.
const maxShown = 60

// shown returns source on one line.
func shown(source string) string {
	line := []rune(strings.Join(strings.Fields(source), " "))
	if len(line) > maxShown {
		line = append(line[:maxShown], '…')
	}
	return "`" + string(line) + "`"
}
