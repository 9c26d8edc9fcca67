package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server"
)

// A builder creates the entries of a provider.
type builder struct {
	*Provider
	document  *document
	requests  *converter
	responses *converter
	problems  []error               // a *DocumentError for each invalid operation
	entries   []*server.Entry       // in the order of the document
	tools     map[string]*operation // by name
	resources map[string]*operation // by URI or URI template
}

// An apiOperation is an operation of the document.
type apiOperation struct {
	method, path string
	item         *openapi3.PathItem
	*openapi3.Operation
	rule *Rule
}

// build adds all operations, in the order of the document.
func (b *builder) build() error {
	items, err := b.document.paths()
	if err != nil {
		return err
	}
	count := 0
	for path := range items.All() {
		item := b.document.Paths.Value(path.Name())
		if item == nil {
			continue // an extension
		}
		for _, method := range b.options.Include {
			operation := item.GetOperation(method)
			if operation == nil {
				continue
			}
			if count++; count > maxOperations {
				return documentError("it has more than %d operations", maxOperations)
			}
			b.add(&apiOperation{method: method, path: path.Name(), item: item, Operation: operation})
		}
	}
	if more := len(b.problems) - maxProblems; more > 0 {
		b.problems = append(b.problems[:maxProblems], fmt.Errorf("openapi: %d more operations have problems", more))
	}
	if err := errors.Join(b.problems...); err != nil {
		return err
	}
	if len(b.entries) == 0 {
		b.options.Logger.Warn("no operation of an OpenAPI document is exposed", "title", b.title())
	}
	return nil
}

func (b *builder) title() string {
	if b.document.Info == nil {
		return ""
	}
	return b.document.Info.Title
}

// add exposes one operation as its rule says.
func (b *builder) add(d *apiOperation) {
	d.rule = matchRule(b.options.Rules, d.method, d.path, d.OperationID, d.Tags)
	if d.rule.Expose == Excluded {
		return
	}
	o, input, err := b.operation(d)
	switch {
	case err != nil:
	case d.rule.Expose == AsResource:
		err = b.addResource(o, d)
	default:
		err = b.addTool(o, d, input)
	}
	if err != nil {
		b.problems = append(b.problems, &DocumentError{Operation: d.method + " " + d.path, Reason: err.Error()})
	}
}

// operation compiles an operation and returns the schema of its arguments.
func (b *builder) operation(d *apiOperation) (o *operation, inputSchema json.RawMessage, err error) {
	o = &operation{method: d.method, path: d.path, id: d.OperationID, separators: b.options.AllowPathSeparators}
	if o.name, err = toolName(d.rule, d.OperationID, d.method, d.path); err != nil {
		return nil, nil, err
	}
	if o.base, err = baseURL(b.options.BaseURL, d.item, d.Operation, b.document.Servers); err != nil {
		return nil, nil, err
	}
	o.security = b.document.requirements(d.Operation)
	in := newInput(b.requests)
	if err := b.addParameters(o, d, in); err != nil {
		return nil, nil, err
	}
	var bodySchema json.RawMessage
	if o.body, bodySchema, err = b.body(d.path, d.method, d.Operation); err != nil {
		return nil, nil, err
	}
	if o.body != nil {
		if err := in.addBody(o.body, bodySchema, d.RequestBody.Value.Description); err != nil {
			return nil, nil, fmt.Errorf("its request body: %w", err)
		}
	}
	if inputSchema, err = in.schema(); err != nil {
		return nil, nil, err
	}
	if o.input, err = schema.Compile(inputSchema, &schema.CompileOptions{Memory: b.memory}); err != nil {
		return nil, nil, fmt.Errorf("the schema of its arguments cannot be compiled: %w", err)
	}
	o.accept = acceptHeader(d.Responses)
	return o, inputSchema, nil
}

func (b *builder) addParameters(o *operation, d *apiOperation, in *input) error {
	template, undeclared, err := parsePath(d.path)
	if err != nil {
		return err
	}
	o.template = template
	parameters, err := mergedParameters(d.path, d.method, d.item, d.Operation)
	if err != nil {
		return err
	}
	for _, declared := range parameters {
		if !declared.isUsable(b.options.HeaderParameters) {
			continue
		}
		p, schema, err := b.parameter(declared)
		if err != nil {
			return err
		}
		if p.in == "path" {
			if !template.set(p) {
				b.options.Logger.Debug("an OpenAPI path parameter does not occur in the path", "operation", o.String(), "parameter", p.name)
				continue
			}
			undeclared = slices.DeleteFunc(undeclared, func(name string) bool { return name == p.name })
		} else {
			o.parameters = append(o.parameters, p)
		}
		if err := in.addParameter(p, schema, declared.Description); err != nil {
			return err
		}
	}
	for _, name := range undeclared { // a string
		p := &parameter{argument: name, name: name, in: "path", required: true, style: style{name: "simple"}, valueType: valueType{kind: "string"}}
		template.set(p)
		if err := in.addParameter(p, json.RawMessage(`{"type":"string"}`), ""); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addTool(o *operation, d *apiOperation, input json.RawMessage) error {
	if other, taken := b.tools[o.name]; taken {
		return fmt.Errorf("its name %q is also the name of %v: rename one of them with Rule.Name", o.name, other)
	}
	tool := mcp.Tool{
		Name: o.name, Title: cut(d.Summary, maxTitle), Description: d.text(o.name),
		InputSchema: input, Annotations: annotations(d.method),
	}
	var err error
	if tool.OutputSchema, o.output, err = b.output(d); err != nil {
		return err
	}
	encoded, err := tool.MarshalJSON()
	if err != nil {
		return err
	}
	b.tools[o.name] = o
	b.addEntry(mcp.KindTool, o.name, encoded, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) { return b.callTool(ctx, call, o) })
	return nil
}

func (b *builder) addEntry(kind mcp.Kind, name string, definition []byte, handle mcp.Handler) *server.Entry {
	e := &server.Entry{Target: mcp.Target{Kind: kind, Name: name, Definition: mcp.NewDefinition(definition)}, Handle: handle}
	b.entries = append(b.entries, e)
	return e
}

// text returns the description of an operation.
func (d *apiOperation) text(name string) string {
	text := name
	for _, given := range []string{d.rule.Description, d.Description, d.Summary} {
		if given = strings.TrimSpace(given); given != "" {
			text = given
			break
		}
	}
	if d.Deprecated {
		text = "Deprecated. " + text
	}
	return cut(text, maxDescription)
}

// annotations returns the annotations that follow from a method: RFC 9110, section 9.2.
func annotations(method string) *mcp.ToolAnnotations {
	yes := true
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return &mcp.ToolAnnotations{ReadOnlyHint: &yes}
	case "PUT":
		return &mcp.ToolAnnotations{IdempotentHint: &yes}
	case "DELETE":
		return &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: &yes}
	}
	return nil
}

// output returns the schema of the only success response, if it is JSON. Operations with several
// success responses have no output schema.
func (b *builder) output(d *apiOperation) (json.RawMessage, *schema.Validator, error) {
	status, media, ok := onlySuccess(d.Responses)
	if !ok || b.options.OmitOutputSchemas || d.method == "HEAD" {
		return nil, nil, nil
	}
	source, err := b.document.source.at("paths", d.path, strings.ToLower(d.method), "responses", status, "content", media, "schema")
	if err != nil {
		return nil, nil, err
	}
	converted, err := b.responses.root(source)
	if err != nil {
		return nil, nil, fmt.Errorf("its response: %w", err)
	}
	if jsonscan.KindOf(converted.text) != jsonscan.Object || string(converted.text) == "{}" {
		return nil, nil, nil
	}
	text, err := b.responses.complete(converted)
	if err == nil && len(text) > maxOutputSchema {
		err = errTooLarge
	}
	var validator *schema.Validator
	if err == nil {
		validator, err = schema.Compile(text, &schema.CompileOptions{Memory: b.memory})
	}
	if _, unusable := errors.AsType[*schema.CompileError](err); unusable || err == errTooLarge {
		b.options.Logger.Debug("an OpenAPI operation gets no output schema", "operation", d.method+" "+d.path, "error", err)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("its response: %w", err)
	}
	return text, validator, nil
}

// onlySuccess returns the status and JSON media type of the only success response.
func onlySuccess(responses *openapi3.Responses) (status, media string, ok bool) {
	for name, response := range responses.Map() {
		if !strings.HasPrefix(name, "2") || response == nil || response.Value == nil {
			continue
		}
		if status != "" {
			return "", "", false
		}
		status = name
		for name, content := range response.Value.Content {
			if !isJSON(mediaType(name)) || media != "" {
				return "", "", false
			}
			if content != nil && content.Schema != nil {
				media = name
			}
		}
	}
	return status, media, media != ""
}

// acceptHeader returns the Accept header for the media types of all responses, JSON first.
func acceptHeader(responses *openapi3.Responses) string {
	types := make(map[string]bool)
	for _, response := range responses.Map() {
		if response == nil || response.Value == nil {
			continue
		}
		for media := range response.Value.Content {
			if concreteType(media, "") != "" || strings.Contains(media, "/*") {
				types[mediaType(media)] = true
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(types))
	sorted = slices.Concat(
		slices.DeleteFunc(slices.Clone(sorted), func(media string) bool { return !isJSON(media) }),
		slices.DeleteFunc(slices.Clone(sorted), isJSON),
	)
	if len(sorted) == 0 {
		return "*/*"
	}
	return strings.Join(sorted[:min(len(sorted), maxAccepted)], ", ")
}

// toolName returns the name of a tool: the name in the rule, or else the sanitized operationId, or
// else the sanitized method and path.
func toolName(rule *Rule, operationID, method, path string) (string, error) {
	if rule.Name != "" {
		if sanitize(rule.Name) != rule.Name {
			return "", fmt.Errorf("Rule.Name %.200q is not a tool name: expected 1 to %d characters of A–Z a–z 0–9 _ - and dot", rule.Name, maxName)
		}
		return rule.Name, nil
	}
	name := sanitize(operationID)
	if name == "" {
		name = sanitize(strings.ToLower(method) + path)
	}
	return name, nil
}

// sanitize replaces runs of characters that are not permitted in a tool name by one underscore,
// and cuts the name at maxName.
func sanitize(text string) string {
	var name strings.Builder
	gap := false
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
			if gap && name.Len() > 0 {
				name.WriteByte('_')
			}
			gap = false
			name.WriteByte(c)
		default:
			gap = true
		}
		if name.Len() >= maxName {
			break
		}
	}
	return name.String()[:min(name.Len(), maxName)]
}
