package schema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A compiler builds nodes. Where a schema says what nodes cannot judge it notes
// so and goes on, for the defaults and types of the rest.
type compiler struct {
	root     []byte
	draft07  bool
	beyond   bool             // the general validator must judge
	nodes    map[string]*node // by pointer
	patterns patterns
	count    int
	searched int         // bytes, to find what references lead to
	refs     []reference // all
	defaults []defaulted
}

// A reference is a $ref to somewhere in the same document.
type reference struct {
	from    *node
	pointer string // of from
	target  string
	depth   int
}

func (c *compiler) compile() (*node, error) {
	if jsonscan.KindOf(c.root) == jsonscan.Object {
		members, err := jsonscan.ReadObject(c.root)
		if err != nil {
			return nil, &CompileError{Reason: err.Error()}
		}
		if dialect := members.Get("$schema"); dialect != nil {
			switch dialectOf(dialect) {
			case draft2020:
			case draft07:
				c.draft07 = true
			default:
				c.beyond = true
			}
		}
	}
	root, err := c.schema(c.root, "", 0)
	if err != nil {
		return nil, err
	}
	for i := range len(c.refs) { // resolving may add more
		if err := c.resolve(c.refs[i]); err != nil {
			return nil, err
		}
	}
	for _, ref := range c.refs {
		if err := checkCycle(ref.from, ref.pointer); err != nil {
			return nil, err
		}
	}
	for _, n := range c.nodes {
		if n.object != nil {
			n.object.expect()
		}
	}
	return root, nil
}

// checkCycle refuses a schema that refers to itself before it looks into the
// value.
func checkCycle(n *node, pointer string) error {
	for slow, step := n, 0; n.ref != nil; step++ {
		n = n.ref
		if step%2 == 1 {
			slow = slow.ref
		}
		if n == slow {
			return &limitError{&CompileError{Pointer: pointer, Reason: "$ref leads back to itself: the schema would be applied to one value without end"}}
		}
	}
	return nil
}

// A dialect is a version of JSON Schema.
type dialect int

const (
	unknownDialect dialect = iota
	draft2020
	draft07
)

func dialectOf(raw []byte) dialect {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return unknownDialect
	}
	return dialectNamed(string(plain(raw)))
}

// dialectNamed tells what the value of $schema names.
func dialectNamed(value any) dialect {
	uri, _ := value.(string)
	_, path, _ := strings.Cut(strings.TrimSuffix(uri, "#"), "://")
	switch path {
	case "json-schema.org/draft/2020-12/schema":
		return draft2020
	case "json-schema.org/draft-07/schema":
		return draft07
	}
	return unknownDialect
}

// schema compiles the schema at a pointer.
func (c *compiler) schema(raw []byte, pointer string, depth int) (*node, error) {
	if n, ok := c.nodes[pointer]; ok {
		return n, nil
	}
	if c.count++; c.count > MaxSubschemas {
		return nil, &limitError{&CompileError{Pointer: pointer, Reason: fmt.Sprintf("a schema may consist of %d schemas", MaxSubschemas)}}
	}
	if depth > MaxSchemaDepth {
		return nil, &limitError{&CompileError{Pointer: pointer, Reason: fmt.Sprintf("a schema may be nested %d deep", MaxSchemaDepth)}}
	}
	n := &node{}
	c.nodes[pointer] = n
	switch jsonscan.KindOf(raw) {
	case jsonscan.Bool:
		n.never = strings.TrimSpace(string(raw)) == "false"
		return n, nil
	case jsonscan.Object:
	default:
		return nil, &CompileError{Pointer: pointer, Reason: "expected a schema, got " + typedText(raw)}
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, &CompileError{Pointer: pointer, Reason: err.Error()}
	}
	b := builder{compiler: c, node: n, pointer: pointer, depth: depth}
	if ref := members.Get("$ref"); ref != nil && c.draft07 {
		// In draft-07 nothing counts beside $ref.
		n.alone = true
		return n, b.ref(ref)
	}
	// First, so that messages name the members in this order.
	if properties := members.Get("properties"); properties != nil {
		if err := b.properties(properties); err != nil {
			return nil, err
		}
	}
	for member := range members.All() {
		if err := b.keyword(plain(member.Key), member.Value); err != nil {
			return nil, err
		}
	}
	n.alone = n.saysNothing()
	return n, nil
}

// refer notes a $ref. It is resolved when all is compiled, so that most targets
// need not be searched for.
func (c *compiler) refer(from *node, ref, pointer string, depth int) error {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local || fragment != "" && fragment[0] != '/' {
		c.beyond = true // to another document, or to an anchor
		return nil
	}
	target, err := url.PathUnescape(fragment)
	if err != nil {
		return &CompileError{Pointer: pointer + "/$ref", Reason: err.Error()}
	}
	c.refs = append(c.refs, reference{from, pointer, target, depth})
	return nil
}

// resolve compiles what a $ref leads to.
func (c *compiler) resolve(ref reference) error {
	if n, ok := c.nodes[ref.target]; ok {
		ref.from.ref = n
		return nil
	}
	value := c.root
	for i, step := range strings.Split(ref.target, "/") {
		if i == 0 {
			continue
		}
		if c.searched += len(value); c.searched > maxSearched {
			return &limitError{&CompileError{Pointer: ref.pointer, Reason: "too many references to places that are no schemas"}}
		}
		if value = child(value, step); value == nil {
			return &CompileError{Pointer: ref.pointer + "/$ref", Reason: "there is nothing at " + strconv.Quote(cut("#"+ref.target))}
		}
	}
	n, err := c.schema(value, ref.target, ref.depth+1)
	ref.from.ref = n
	return err
}

// valueAt returns the part of a JSON value that a pointer leads to, or the last
// one on the way there.
func valueAt(value []byte, pointer string) []byte {
	for _, step := range strings.Split(pointer, "/")[1:] {
		part := child(value, step)
		if part == nil {
			break
		}
		value = part
	}
	return value
}

// child returns the part of a JSON value that one step of a pointer leads to.
func child(value []byte, step string) []byte {
	switch jsonscan.KindOf(value) {
	case jsonscan.Object:
		members, err := jsonscan.ReadObject(value)
		if err != nil {
			return nil
		}
		return members.Get(strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
	case jsonscan.Array:
		if n, err := strconv.Atoi(step); err == nil && n >= 0 {
			for i, item := range elements(value) {
				if i == n {
					return item
				}
			}
		}
	}
	return nil
}
