package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A general validator uses github.com/santhosh-tekuri/jsonschema for schemas that nodes cannot
// express. That library validates decoded values without limits, so instances are checked against
// the limits of this package first.
type general struct {
	text    []byte
	schema  *jsonschema.Schema
	verdict *jsonschema.Schema // {"not":schema}
	graph   *graph
}

// These are the URLs of the schema itself and of the schema for verdicts. Nothing is loaded from them.
const (
	location        = "mem:///schema"
	verdictLocation = "mem:///verdict"
)

func compileGeneral(schema []byte, opts *CompileOptions) (g *general, err error) {
	// A schema of a peer must not end the process if the library panics.
	defer func() {
		if p := recover(); p != nil {
			g, err = nil, &CompileError{Reason: fmt.Sprintf("compiling panicked: %v", p)}
		}
	}()
	loader := &loader{resources: opts.Resources}
	root, err := loader.read(location, schema)
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if object, ok := root.(map[string]any); ok {
		if uri, _ := object["$schema"].(string); dialectNamed(uri) == draft07 {
			compiler.DefaultDraft(jsonschema.Draft7) // of resources without $schema
		}
	}
	compiler.UseLoader(loader)
	compiler.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return loader.patterns.compile(text) })
	if err := compiler.AddResource(location, root); err != nil {
		return nil, &CompileError{Reason: err.Error()}
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return nil, compileError(schema, err)
	}
	var anchors []*jsonschema.Schema
	for _, at := range loader.anchors {
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
	if err := compiler.AddResource(verdictLocation, map[string]any{"not": map[string]any{"$ref": location}}); err != nil {
		return nil, &CompileError{Reason: err.Error()}
	}
	verdict, err := compiler.Compile(verdictLocation)
	if err != nil {
		return nil, compileError(schema, err)
	}
	return &general{text: schema, schema: compiled, verdict: verdict, graph: graph}, nil
}

func (g *general) validate(ctx context.Context, instance []byte, m meter, memory *Memory) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &BudgetError{Reason: fmt.Sprintf("validating the value panicked: %v", p)}
		}
	}()
	size, err := measure(instance)
	if err != nil {
		return textError(err)
	}
	if size.depth > maxGeneralDepth {
		return &BudgetError{Reason: fmt.Sprintf("a value for this schema may be nested %d deep, not %d", maxGeneralDepth, size.depth)}
	}
	e := estimate{graph: g.graph, meter: m, s: jsonscan.New(instance)}
	if err := e.instance(len(instance)); err != nil {
		return err
	}
	// Finding all violations takes more memory than finding out whether there is one.
	needed := size.decoded + size.names + e.tracked
	total := needed + int64(min(errorSize*e.errors, math.MaxInt32))
	describes := memory.has(total)
	if !describes {
		total = needed + int64(min(verdictSize*e.worst, math.MaxInt32))
	}
	if err := memory.acquire(ctx, total); err != nil {
		return err
	}
	defer memory.release(total)

	w := newWalker(instance, e.meter)
	err = w.instance(nil)
	invalid, _ := errors.AsType[*ValidationError](err)
	if err != nil && (invalid == nil || invalid.Violations[0].Keyword != "duplicate") {
		return err
	}
	r := report{schema: g.text, instance: instance, limit: maxViolations, shared: &reportState{}}
	if invalid != nil {
		r.violations = invalid.Violations
	}
	switch value := decodeAny(instance); {
	case describes:
		if verr, ok := errors.AsType[*jsonschema.ValidationError](g.schema.Validate(value)); ok {
			r.add(verr)
		}
	case g.verdict.Validate(value) == nil: // the value does not match the schema
		r.violations = append(r.violations, Violation{
			Keyword: "undescribed", Expected: "a value that matches the schema", Got: "one that is too large for a description of its violations",
		})
	}
	switch {
	case r.shared.cyclic:
		return &BudgetError{Reason: "the schema is applied to one value without end"}
	case len(r.violations) == 0:
		return nil
	}
	return &ValidationError{Violations: r.violations}
}

// compileError converts an error of the library.
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
		r := report{schema: schema, instance: schema, limit: 1, shared: &reportState{}}
		resource := !strings.HasPrefix(meta.URL, location)
		if resource {
			r.instance = nil
		}
		r.add(invalid)
		v := r.violations[0]
		if resource {
			return &CompileError{Reason: "in the resource " + strconv.Quote(meta.URL) + " " + v.String()}
		}
		return &CompileError{Pointer: v.Pointer, Reason: v.message()}
	}
	return &CompileError{Reason: strings.ReplaceAll(err.Error(), location, "")}
}

// A loader provides the documents that a schema may refer to. It implements jsonschema.URLLoader and
// loads nothing else.
type loader struct {
	resources map[string]json.RawMessage
	patterns  patternCache
	url       string   // of the document that is prepared
	count     int      // schemas so far
	anchors   []string // the URLs of the schemas with a $dynamicAnchor
}

// Load is called for a reference to a document that is not loaded yet.
func (l *loader) Load(url string) (any, error) {
	text, ok := l.resources[url]
	if !ok {
		return nil, &CompileError{Reason: "the schema refers to " + strconv.Quote(cut(url)) + ", which is not given and is never fetched"}
	}
	return l.read(url, text)
}

// read decodes a document and prepares it.
func (l *loader) read(url string, text []byte) (any, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	document := decodeAny(text)
	l.url = url
	return document, l.prepare(document, "", 0)
}

// prepare checks the schemas of a document against the limits and refuses unsupported dialects. It
// removes format, which is an annotation here and which the general validator asserts in draft-07.
func (l *loader) prepare(value any, pointer string, depth int) error {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if err := l.prepare(item, pointer+"/"+strconv.Itoa(i), depth); err != nil {
				return err
			}
		}
	case map[string]any:
		return l.prepareObject(value, pointer, depth)
	}
	return nil
}

func (l *loader) prepareObject(schema map[string]any, pointer string, depth int) error {
	if l.count++; l.count > maxSubschemas {
		return tooMany(pointer)
	}
	if depth > maxSchemaDepth {
		return tooDeep(pointer)
	}
	if err := l.checkDialect(schema, pointer); err != nil {
		return err
	}
	if _, ok := schema["$dynamicAnchor"].(string); ok {
		l.anchors = append(l.anchors, l.url+"#"+(&url.URL{Path: pointer}).EscapedPath())
	}
	if err := l.checkPatterns(schema, pointer); err != nil {
		return err
	}
	if _, ok := schema["format"].(string); ok {
		delete(schema, "format")
	}
	for keyword, value := range schema {
		at := pointer + "/" + jsonscan.EscapeToken(keyword)
		switch keyword {
		case "const", "enum", "default", "examples":
			continue // their values are no schemas
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			named, _ := value.(map[string]any)
			for name, part := range named {
				if err := l.prepare(part, at+"/"+jsonscan.EscapeToken(name), depth+1); err != nil {
					return err
				}
			}
		default:
			if err := l.prepare(value, at, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDialect refuses a $schema that is not supported and not among the resources. The keyword
// applies at the root of a document or in a schema with an $id.
func (l *loader) checkDialect(schema map[string]any, pointer string) error {
	dialect, ok := schema["$schema"].(string)
	if !ok || pointer != "" && schema["$id"] == nil {
		return nil
	}
	if dialectNamed(dialect) != unknownDialect {
		return nil
	}
	if _, given := l.resources[strings.TrimSuffix(dialect, "#")]; given {
		return nil
	}
	return &CompileError{Pointer: pointer + "/$schema", Reason: "the dialect " + strconv.Quote(cut(dialect)) + " is not supported, only JSON Schema 2020-12 and draft-07 are"}
}

// checkPatterns refuses patterns that RE2 does not support or that are too large. Its errors have
// the pointer of the pattern, which the errors of the library lack.
func (l *loader) checkPatterns(schema map[string]any, pointer string) error {
	if pattern, ok := schema["pattern"].(string); ok {
		if _, err := l.patterns.compile(pattern); err != nil {
			return &CompileError{Pointer: pointer + "/pattern", Reason: err.Error()}
		}
	}
	named, _ := schema["patternProperties"].(map[string]any)
	for pattern := range named {
		if _, err := l.patterns.compile(pattern); err != nil {
			return &CompileError{Pointer: pointer + "/patternProperties", Reason: err.Error()}
		}
	}
	return nil
}
