package schema

import (
	"math"
	"strings"

	"github.com/dovetail-go/dovetail/internal/pattern"
)

// A node is one schema, compiled for validating raw bytes. A nil node accepts every value. Fields
// named after keywords hold the values of these keywords.
type node struct {
	types    typeSet // 0: any
	isFalse  bool    // the schema false
	ref      *node
	refOnly  bool // no other keyword restricts values
	enum     *enum
	constant *enum  // of one value
	fallback []byte // the default

	bounds     []bound
	multipleOf *multiple

	minLength, maxLength int
	pattern              *pattern.Pattern

	minItems, maxItems int
	prefixItems        []*node
	items              *node
	uniqueItems        bool

	minProperties, maxProperties int
	members                      []member
	byName                       map[string]int // the index in members
	expected                     []int          // indexes of the members that are required or have a default
	patternProperties            []patternMember
	additionalProperties         *node
}

// noLimit is the maximum where a schema has none.
const noLimit = math.MaxInt

// anything accepts every value. Unlike nil it has fields.
var anything = node{maxLength: noLimit, maxItems: noLimit, maxProperties: noLimit}

// A bound is one end of a range of numbers.
type bound struct {
	keyword  string
	relation string // in messages, such as "at least"
	limit    number
	sign     int  // what comparing a refused number with limit gives
	open     bool // limit itself is refused
	text     string
}

// A multiple is the value of multipleOf.
type multiple struct {
	of   number
	text string
}

// A member is a name that is in properties or required.
type member struct {
	name     string
	declared bool // in properties
	required bool
	node     *node
}

// A patternMember is the schema of the members with matching names.
type patternMember struct {
	pattern *pattern.Pattern
	node    *node
}

// find returns the index in members of a raw key, or -1.
func (n *node) find(key []byte) int {
	if i, ok := n.byName[string(plain(key))]; ok {
		return i
	}
	return -1
}

// findExpected lists the members whose absence matters, so that validating an object takes no
// time for the other members of the schema.
func (n *node) findExpected() {
	for i := range n.members {
		if m := &n.members[i]; m.required || m.hasDefault() {
			n.expected = append(n.expected, i)
		}
	}
}

func (m *member) hasDefault() bool { return m.node.defaultValue() != nil }

// accepted lists the names of properties for a message.
func (n *node) accepted() []string {
	var names []string
	for i := range n.members[:min(len(n.members), maxListed)] {
		if m := &n.members[i]; m.declared && !(m.node != nil && m.node.isFalse) {
			names = append(names, m.name)
		}
	}
	return names
}

// defaultValue returns the default of a schema, or of a schema it refers to.
func (n *node) defaultValue() []byte {
	for range maxSchemaDepth {
		switch {
		case n == nil:
			return nil
		case n.fallback != nil:
			return n.fallback
		}
		n = n.ref
	}
	return nil
}

// refusesNull reports whether a schema accepts other values but not null.
func (n *node) refusesNull() bool {
	refuses := false
	for ; n != nil; n = n.ref {
		if n.isFalse {
			return false
		}
		refuses = refuses || n.types != 0 && n.types&nullType == 0 || n.enum.lacksNull() || n.constant.lacksNull()
	}
	return refuses
}

// A typeSet is a set of values of the keyword type.
type typeSet uint8

const (
	nullType typeSet = 1 << iota
	boolType
	integerType
	numberType
	stringType
	arrayType
	objectType
)

var typeNames = []struct {
	bit        typeSet
	name, text string
}{
	{nullType, "null", "null"},
	{boolType, "boolean", "a boolean"},
	{integerType, "integer", "an integer"},
	{numberType, "number", "a number"},
	{stringType, "string", "a string"},
	{arrayType, "array", "an array"},
	{objectType, "object", "an object"},
}

// typeNamed returns the type of a name, or 0.
func typeNamed(name string) typeSet {
	for _, t := range typeNames {
		if t.name == name {
			return t.bit
		}
	}
	return 0
}

// String returns the types as in a message.
func (t typeSet) String() string {
	var texts []string
	for _, name := range typeNames {
		if t&name.bit != 0 {
			texts = append(texts, name.text)
		}
	}
	return strings.Join(texts, " or ")
}
