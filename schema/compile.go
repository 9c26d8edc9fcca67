package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// CompileOptions are the options of [Compile]. The zero value, and nil, mean
// that a schema may refer to itself only.
type CompileOptions struct {
	// Resources are the other documents that the schema may refer to, by
	// absolute URL without fragment. Nothing else is ever loaded; the
	// metaschemas of the supported dialects are built in.
	Resources map[string]json.RawMessage
	// MaxWork is the work that validating one instance may take; see
	// [DefaultMaxWork], which 0 means.
	MaxWork int64
}

// CompileError says why a schema cannot be used.
type CompileError struct {
	Pointer string // a JSON Pointer into the schema
	Reason  string
}

// Error says where, and what.
func (e *CompileError) Error() string {
	return "schema: invalid schema at " + strconv.Quote(cutAt(e.Pointer, maxPointer)) + ": " + e.Reason
}

// A Validator is a compiled schema. It is immutable and may be used by any
// number of goroutines at once.
type Validator struct {
	root     *node    // nil if unknown
	general  *general // nil if root says all
	maxWork  int64
	defaults []defaulted
}

// Compile compiles a schema of the dialect that its $schema names: JSON Schema
// 2020-12, which is also the default, or draft-07, or one that
// [CompileOptions.Resources] hold and that is built on these. The error is a
// [*CompileError].
//
// Format is an annotation, as it is by default in these dialects, and so are
// contentEncoding and its kin. Patterns are RE2 (package regexp); one that RE2
// cannot hold, such as a look-ahead, is an error. A schema that is applied to
// one value without end is an error.
func Compile(schema json.RawMessage, opts *CompileOptions) (*Validator, error) {
	if opts == nil {
		opts = &CompileOptions{}
	}
	if err := checkText(schema); err != nil {
		return nil, err
	}
	maxWork := opts.MaxWork
	if maxWork == 0 {
		maxWork = DefaultMaxWork
	}
	c := compiler{root: schema, nodes: map[string]*node{}}
	root, err := c.compile()
	if err == nil && !c.beyond {
		return &Validator{root: root, maxWork: maxWork, defaults: c.defaults}, nil
	}
	if limit, ok := errors.AsType[*limitError](err); ok {
		return nil, limit.CompileError
	}
	general, generalErr := compileGeneral(schema, opts)
	if generalErr != nil {
		if err != nil {
			return nil, err
		}
		return nil, generalErr
	}
	if err != nil {
		root = nil
	}
	return &Validator{root: root, general: general, maxWork: maxWork, defaults: c.defaults}, nil
}

// Validate judges an instance, given as JSON text. The error is a
// [*ValidationError] or a [*BudgetError].
func (v *Validator) Validate(instance []byte) error {
	if v.general != nil {
		return v.general.validate(instance, v.meter())
	}
	w := newWalk(instance, v.meter())
	return w.instance(v.root)
}

// meter returns what measures the work of one validation.
func (v *Validator) meter() meter { return meter{limit: v.maxWork} }

// checkText refuses a schema that is no sound JSON, whatever it says.
func checkText(schema []byte) error {
	if len(schema) > MaxSchemaBytes {
		return &CompileError{Reason: fmt.Sprintf("a schema may have %d bytes, not %d", MaxSchemaBytes, len(schema))}
	}
	w := newWalk(schema, meter{limit: DefaultMaxWork})
	if err := w.instance(nil); err != nil {
		if invalid, ok := errors.AsType[*ValidationError](err); ok {
			v := invalid.Violations[0]
			return &CompileError{Pointer: v.Pointer, Reason: v.words()}
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

// A limitError is a CompileError that no other validator may overrule.
type limitError struct{ *CompileError }

func (e *limitError) Unwrap() error { return e.CompileError }

// A defaulted is a schema that has a default.
type defaulted struct {
	pointer string
	node    *node
}

// checkDefaults refuses defaults that their own schema refuses.
func (v *Validator) checkDefaults() error {
	m := v.meter() // for all of them
	for _, d := range v.defaults {
		w := newWalk(d.node.fallback, m)
		err := w.instance(d.node)
		if invalid, ok := errors.AsType[*ValidationError](err); ok {
			return &CompileError{Pointer: d.pointer, Reason: "default: " + invalid.Violations[0].words()}
		}
		if err != nil {
			return &CompileError{Pointer: d.pointer, Reason: "default: " + err.Error()}
		}
		m = w.meter
	}
	return nil
}
