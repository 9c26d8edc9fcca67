package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A general validator judges what nodes cannot. It works on decoded values, so
// all that reaches it is bounded first.
type general struct {
	text   []byte
	schema *jsonschema.Schema
	graph  *graph
}

// location is the URL of the schema itself. Nothing is ever loaded from it.
const location = "mem:///schema"

func compileGeneral(schema []byte, opts *CompileOptions) (g *general, err error) {
	// The library is fed what peers wrote: should it panic, it is the schema
	// that cannot be used, not the process.
	defer func() {
		if p := recover(); p != nil {
			g, err = nil, &CompileError{Reason: fmt.Sprintf("compiling panicked: %v", p)}
		}
	}()
	library := &library{resources: opts.Resources}
	root, err := library.read(location, schema)
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if object, ok := root.(map[string]any); ok && dialectNamed(object["$schema"]) == draft07 {
		compiler.DefaultDraft(jsonschema.Draft7) // for resources that do not say
	}
	compiler.UseLoader(library)
	compiler.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return library.patterns.compile(text) })
	if err := compiler.AddResource(location, root); err != nil {
		return nil, &CompileError{Reason: err.Error()}
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return nil, compileError(schema, err)
	}
	var anchors []*jsonschema.Schema
	for _, at := range library.anchors {
		anchor, err := compiler.Compile(at)
		if err != nil {
			return nil, compileError(schema, err)
		}
		anchors = append(anchors, anchor)
	}
	graph, err := newGraph(compiled, anchors)
	if err != nil {
		return nil, err
	}
	return &general{text: schema, schema: compiled, graph: graph}, nil
}

func (g *general) validate(instance []byte, m meter) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &BudgetError{Reason: fmt.Sprintf("judging the value panicked: %v", p)}
		}
	}()
	w := newWalk(instance, m)
	sound := w.instance(nil)
	var invalid *ValidationError
	switch {
	case sound == nil:
	case errors.As(sound, &invalid) && invalid.Violations[0].Keyword == "duplicate":
		// The rest can still be judged.
	default:
		return sound
	}
	if w.deepest > MaxGeneralDepth {
		return &BudgetError{Reason: fmt.Sprintf("a value for this schema may be nested %d deep, not %d", MaxGeneralDepth, w.deepest)}
	}
	if err := g.graph.check(instance, w.meter); err != nil {
		return err
	}
	value, err := decodeAny(instance)
	if err != nil {
		return &ValidationError{Violations: []Violation{{Keyword: "syntax", Expected: "JSON", Got: err.Error()}}}
	}
	r := report{schema: g.text, instance: instance, limit: MaxViolations, described: new(int)}
	if invalid != nil {
		r.violations = invalid.Violations
	}
	if verr, ok := errors.AsType[*jsonschema.ValidationError](g.schema.Validate(value)); ok {
		r.add(verr)
	}
	switch {
	case r.endless:
		return &BudgetError{Reason: "the schema is applied to one value without end"}
	case len(r.violations) == 0:
		return nil
	}
	return &ValidationError{Violations: r.violations}
}

// compileError tells, of what the library says, the place and the reason.
func compileError(schema []byte, err error) error {
	var own *CompileError
	if errors.As(err, &own) {
		return own
	}
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) && errors.As(load.Err, &own) {
		return own
	}
	var meta *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &meta) && errors.As(meta.Err, &invalid) {
		r := report{schema: schema, instance: schema, limit: 1, described: new(int)}
		resource := !strings.HasPrefix(meta.URL, location)
		if resource {
			r.instance = nil
		}
		r.add(invalid)
		v := r.violations[0]
		if resource {
			return &CompileError{Reason: "in the resource " + strconv.Quote(meta.URL) + " " + v.String()}
		}
		return &CompileError{Pointer: v.Pointer, Reason: v.words()}
	}
	return &CompileError{Reason: strings.ReplaceAll(err.Error(), location, "")}
}

func pointerTo(steps []string) string {
	var text strings.Builder
	for _, step := range steps {
		text.WriteByte('/')
		text.WriteString(escapeStep(step))
	}
	return text.String()
}
