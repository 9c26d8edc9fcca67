package schema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// CompileOptions are the options of [Compile]. The zero value and nil mean that a schema may refer
// only to itself.
type CompileOptions struct {
	// Resources are the other documents that the schema may refer to, by absolute URL without
	// fragment. Nothing else is ever loaded. The metaschemas of the supported dialects are
	// built in.
	Resources map[string]json.RawMessage
	// MaxWork is the work that validating one instance may take. 0 means 1,000,000,000.
	MaxWork int64
	// Memory limits the memory that this validator and others use at a time. nil means that the
	// validator has one of its own, of 48 MiB.
	Memory *Memory
}

// CompileError reports a schema that cannot be used.
type CompileError struct {
	Pointer string // a JSON Pointer into the schema
	Reason  string
	limit   bool // the schema exceeds a limit of this package
}

// Error returns the pointer and the reason.
func (e *CompileError) Error() string {
	if e.Pointer == "" {
		return "schema: invalid schema: " + e.Reason
	}
	return "schema: invalid schema " + placed(e.Pointer) + e.Reason
}

// A Validator is a compiled schema. It is immutable and safe for concurrent use.
type Validator struct {
	root     *node    // nil if the schema could not be compiled to nodes
	general  *general // nil if root is sufficient
	unique   bool     // a node has uniqueItems
	maxWork  int64
	memory   *Memory
	defaults []defaulted
}

// Compile compiles a schema of the dialect that its $schema names: JSON Schema 2020-12, which is
// also the default, draft-07, or a dialect based on these whose metaschema is in
// [CompileOptions.Resources]. The error is a [*CompileError].
//
// The keywords format, contentEncoding, contentMediaType and contentSchema are annotations and
// restrict no values. Patterns have the syntax of package regexp (RE2); a pattern that RE2 does not
// support, such as a look-ahead, is an error. A schema that applies itself to the same value is an
// error.
func Compile(schema json.RawMessage, opts *CompileOptions) (*Validator, error) {
	if opts == nil {
		opts = &CompileOptions{}
	}
	if err := checkText(schema); err != nil {
		return nil, err
	}
	v := &Validator{maxWork: cmp.Or(opts.MaxWork, defaultMaxWork), memory: opts.Memory}
	if v.memory == nil {
		v.memory = NewMemory(0)
	}
	c := compiler{document: schema, nodes: map[string]*node{}}
	root, err := c.compile()
	v.defaults, v.unique = c.defaults, c.unique
	if err == nil {
		v.root = root
		if !c.needsGeneral {
			return v, nil
		}
	}
	if invalid, ok := errors.AsType[*CompileError](err); ok && invalid.limit {
		return nil, err
	}
	var generalErr error
	if v.general, generalErr = compileGeneral(schema, opts); generalErr != nil {
		return nil, cmp.Or(err, generalErr)
	}
	return v, nil
}

// WithMemory returns a copy of the validator that shares m with others. It returns v itself if v or m is
// nil.
func (v *Validator) WithMemory(m *Memory) *Validator {
	if v == nil || m == nil {
		return v
	}
	with := *v
	with.memory = m
	return &with
}

// Validate validates an instance, given as JSON text. It blocks while other validations use the memory
// that a large instance needs; see [Memory]. The error is a [*ValidationError], a [*BudgetError], or
// the cause of the end of ctx.
func (v *Validator) Validate(ctx context.Context, instance []byte) error {
	if err := v.memory.enter(ctx, len(instance)); err != nil {
		return err
	}
	defer v.memory.leave(len(instance))
	if v.general != nil {
		return v.general.validate(ctx, instance, v.meter(), v.memory)
	}
	size, err := v.reserve(ctx, instance)
	if err != nil {
		return err
	}
	defer v.memory.release(size)
	w := newWalker(instance, v.meter())
	return w.instance(v.root)
}

// reserve waits for the memory of validating an instance with nodes, and returns its size. The memory
// of a small instance is not counted.
func (v *Validator) reserve(ctx context.Context, instance []byte) (size int64, err error) {
	if len(instance) <= maxSmall {
		return 0, nil
	}
	m, err := measure(instance)
	if err != nil {
		return 0, textError(err)
	}
	size = m.names
	if v.unique {
		size += hashSize*m.items + canonicalSize*int64(len(instance))
	}
	return size, v.memory.acquire(ctx, size)
}

// meter returns the meter of one validation.
func (v *Validator) meter() meter { return meter{limit: v.maxWork} }

// checkText refuses a schema that is not valid JSON or exceeds limits that apply to all JSON.
func checkText(schema []byte) error {
	if len(schema) > maxSchemaBytes {
		return &CompileError{Reason: fmt.Sprintf("a schema may have %d bytes, not %d", maxSchemaBytes, len(schema))}
	}
	w := newWalker(schema, meter{limit: defaultMaxWork})
	if err := w.instance(nil); err != nil {
		if invalid, ok := errors.AsType[*ValidationError](err); ok {
			v := invalid.Violations[0]
			return &CompileError{Pointer: v.Pointer, Reason: v.message()}
		}
		if budget, ok := errors.AsType[*BudgetError](err); ok {
			return &CompileError{Pointer: budget.Pointer, Reason: budget.Reason}
		}
		return err
	}
	switch jsonscan.KindOf(schema) {
	case jsonscan.Object, jsonscan.Bool:
		return nil
	}
	return &CompileError{Reason: "expected an object or a boolean, got " + typedText(schema)}
}

// A defaulted is a schema with a default.
type defaulted struct {
	pointer string
	node    *node
}

// checkDefaults returns an error if a schema does not accept its own default.
func (v *Validator) checkDefaults() error {
	m := v.meter() // one for all defaults
	for _, d := range v.defaults {
		w := newWalker(d.node.fallback, m)
		err := w.instance(d.node)
		if invalid, ok := errors.AsType[*ValidationError](err); ok {
			return &CompileError{Pointer: d.pointer, Reason: "default: " + invalid.Violations[0].message()}
		}
		if err != nil {
			return &CompileError{Pointer: d.pointer, Reason: "default: " + err.Error()}
		}
		m = w.meter
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

// dialectNamed returns the dialect of a value of $schema.
func dialectNamed(uri string) dialect {
	_, path, _ := strings.Cut(strings.TrimSuffix(uri, "#"), "://")
	switch path {
	case "json-schema.org/draft/2020-12/schema":
		return draft2020
	case "json-schema.org/draft-07/schema":
		return draft07
	}
	return unknownDialect
}

// A compiler compiles a schema to nodes. If nodes cannot express a keyword it sets needsGeneral and
// continues, since the defaults and types of the other keywords are used for decoding.
type compiler struct {
	document     []byte
	draft07      bool
	needsGeneral bool
	unique       bool             // a schema has uniqueItems
	nodes        map[string]*node // by pointer
	patterns     patternCache
	count        int         // schemas
	searched     int         // bytes read to resolve references
	refs         []reference // all
	defaults     []defaulted
}

// A reference is a $ref to a schema of the same document.
type reference struct {
	from    *node
	pointer string // of from
	target  string
	depth   int
}

func (c *compiler) compile() (*node, error) {
	if jsonscan.KindOf(c.document) == jsonscan.Object {
		members, err := jsonscan.ReadObject(c.document)
		if err != nil {
			return nil, &CompileError{Reason: err.Error()}
		}
		if uri := members.Get("$schema"); uri != nil {
			var dialect dialect
			if jsonscan.KindOf(uri) == jsonscan.String {
				dialect = dialectNamed(string(plain(uri)))
			}
			c.draft07, c.needsGeneral = dialect == draft07, dialect == unknownDialect
		}
	}
	root, err := c.compileSchema(c.document, "", 0)
	if err != nil {
		return nil, err
	}
	// Resolving a reference can compile schemas with further references.
	for i := 0; i < len(c.refs); i++ { //nolint:intrange // c.refs grows
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
		n.findExpected()
	}
	return root, nil
}

// compileSchema compiles the schema at a pointer.
func (c *compiler) compileSchema(raw []byte, pointer string, depth int) (*node, error) {
	if n, ok := c.nodes[pointer]; ok {
		return n, nil
	}
	if c.count++; c.count > maxSubschemas {
		return nil, tooMany(pointer)
	}
	if depth > maxSchemaDepth {
		return nil, tooDeep(pointer)
	}
	n := new(node)
	*n = anything
	n.refOnly = true
	c.nodes[pointer] = n
	switch jsonscan.KindOf(raw) {
	case jsonscan.Bool:
		n.isFalse = strings.TrimSpace(string(raw)) == "false"
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
		return n, b.ref(ref) // draft-07 ignores the keywords beside $ref
	}
	// First, so that messages name the members in this order.
	if properties := members.Get("properties"); properties != nil {
		if err := b.keyword("properties", properties); err != nil {
			return nil, err
		}
	}
	for member := range members.All() {
		if name := string(plain(member.Key)); name != "properties" {
			if err := b.keyword(name, member.Value); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

func tooMany(pointer string) error {
	return &CompileError{Pointer: pointer, Reason: fmt.Sprintf("a schema may consist of %d schemas", maxSubschemas), limit: true}
}

func tooDeep(pointer string) error {
	return &CompileError{Pointer: pointer, Reason: fmt.Sprintf("a schema may be nested %d deep", maxSchemaDepth), limit: true}
}

// resolve sets the target of a $ref, which it compiles if it is not compiled yet.
func (c *compiler) resolve(ref reference) (err error) {
	tokens, err := jsonscan.ParsePointer(ref.target)
	if err != nil {
		return &CompileError{Pointer: ref.pointer + "/$ref", Reason: err.Error()}
	}
	value := c.document
	if c.nodes[ref.target] == nil {
		for _, token := range tokens {
			if c.searched += len(value); c.searched > maxSearched {
				return &CompileError{Pointer: ref.pointer, Reason: "too many references to places that are no schemas", limit: true}
			}
			if value, _ = jsonscan.Child(value, token); value == nil {
				return &CompileError{Pointer: ref.pointer + "/$ref", Reason: "there is nothing at " + strconv.Quote(cut("#"+ref.target))}
			}
		}
	}
	ref.from.ref, err = c.compileSchema(value, ref.target, ref.depth+1)
	return err
}

// checkCycle refuses a schema that refers to itself, directly or through other references.
func checkCycle(n *node, pointer string) error {
	for slow, step := n, 0; n.ref != nil; step++ {
		n = n.ref
		if step%2 == 1 {
			slow = slow.ref
		}
		if n == slow {
			return &CompileError{Pointer: pointer, Reason: "$ref leads back to itself: the schema would be applied to one value without end", limit: true}
		}
	}
	return nil
}
