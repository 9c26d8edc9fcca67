package uritemplate

import (
	"maps"
	"slices"
)

// A Value is what a variable expands to: text, a list or a map (RFC 6570,
// section 2.3). The zero Value is undefined and expands to nothing, like a
// variable that is not given at all.
type Value struct {
	kind  kind
	items []string // of a map: key, value, key, value …
}

type kind uint8

const (
	undefined kind = iota
	text
	list
	pairs
)

// String makes a Value of text. Empty text is defined.
func String(s string) Value { return Value{text, []string{s}} }

// List makes a Value of a list. An empty list is undefined.
func List(items ...string) Value {
	if len(items) == 0 {
		return Value{}
	}
	return Value{list, slices.Clone(items)}
}

// Map makes a Value of a map, in the order of its sorted keys. An empty map is
// undefined.
func Map(m map[string]string) Value {
	if len(m) == 0 {
		return Value{}
	}
	items := make([]string, 0, 2*len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		items = append(items, key, m[key])
	}
	return Value{pairs, items}
}
