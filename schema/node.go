package schema

import (
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/pattern"
)

// A node is one schema, compiled for instances that are raw bytes. A nil node
// accepts everything.
type node struct {
	types    typeSet // 0: any
	never    bool    // the schema false
	ref      *node
	alone    bool // nothing stands beside ref
	enum     *enum
	constant *enum // of one value
	number   *numberRules
	text     *textRules
	list     *listRules
	object   *objectRules
	fallback []byte // the default
}

type numberRules struct {
	bounds     []bound
	multipleOf *divisor
	multiple   string // multipleOf, as written
}

// A bound is one end of a range.
type bound struct {
	keyword string
	words   string // how a message says it
	limit   decimal
	small   int64 // limit, if isSmall
	isSmall bool
	sign    int  // of what is beyond the bound, compared with it
	open    bool // the limit itself is beyond
	text    string
}

type textRules struct {
	minLength, maxLength int // or unlimited
	pattern              *pattern.Pattern
}

type listRules struct {
	minItems, maxItems int // or unlimited
	prefix             []*node
	items              *node
	unique             bool
}

type objectRules struct {
	members    []member
	byName     map[string]int // of members, once there are many
	expected   []int          // places of the members that are required or have a default
	patterns   []patternRule
	additional *node
	min, max   int // members, or unlimited
}

// A member is a name that a schema knows.
type member struct {
	name     string
	quoted   []byte // the name as it is usually written in JSON
	declared bool   // by properties, rather than only required
	required bool
	node     *node
}

// A patternRule is a schema for the members whose names match.
type patternRule struct {
	pattern *pattern.Pattern
	node    *node
}

// manyMembers is up to how many names are compared one by one.
const manyMembers = 8

// find returns the place in members of a raw key, or -1.
func (o *objectRules) find(key []byte) int {
	if o.byName != nil {
		if i, ok := o.byName[string(plain(key))]; ok {
			return i
		}
		return -1
	}
	for i := range o.members {
		if string(o.members[i].quoted) == string(key) {
			return i
		}
	}
	for i := range o.members {
		if jsonscan.KeyIs(key, o.members[i].name) {
			return i
		}
	}
	return -1
}

// expect notes which members matter when they are absent, so that walking an
// object takes no longer for all the others that it may have.
func (o *objectRules) expect() {
	for i := range o.members {
		if m := &o.members[i]; m.required || m.hasDefault() {
			o.expected = append(o.expected, i)
		}
	}
}

// accepted lists the names for a message.
func (o *objectRules) accepted() []string {
	var names []string
	for i := range o.members[:min(len(o.members), maxListed)] {
		if m := &o.members[i]; m.declared && !(m.node != nil && m.node.never) {
			names = append(names, m.name)
		}
	}
	return names
}

// The rules of values that may be anything.
var (
	anything  = node{}
	anyObject = objectRules{min: unlimited, max: unlimited}
	anyList   = listRules{minItems: unlimited, maxItems: unlimited}
	anyText   = textRules{minLength: unlimited, maxLength: unlimited}
)

// unlimited stands for a count that has no limit.
const unlimited = -1

// A typeSet is a set of the types that a schema names.
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

func typeNamed(name string) (typeSet, bool) {
	for _, t := range typeNames {
		if t.name == name {
			return t.bit, true
		}
	}
	return 0, false
}

// String names the types as a message does.
func (t typeSet) String() string {
	var texts []string
	for _, name := range typeNames {
		if t&name.bit != 0 {
			texts = append(texts, name.text)
		}
	}
	return strings.Join(texts, " or ")
}

// saysNothing reports whether n itself, apart from what it refers to, accepts
// everything.
func (n *node) saysNothing() bool {
	return n.types == 0 && n.enum == nil && n.constant == nil &&
		n.number == nil && n.text == nil && n.list == nil && n.object == nil
}

// defaultValue returns the default of a schema, or of one that it refers to.
func (n *node) defaultValue() []byte {
	for range MaxSchemaDepth {
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
