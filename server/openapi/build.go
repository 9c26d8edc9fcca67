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

// A builder makes a provider out of a document.
type builder struct {
	*Provider
	document  *document
	requests  *converter
	responses *converter
	problems  problems
	entries   []*server.Entry       // in the order of the document
	tools     map[string]*operation // by name
	resources map[string]*operation // by URI or URI template
}

// described is an operation as the document has it.
type described struct {
	method, path string
	item         *openapi3.PathItem
	*openapi3.Operation
	rule *Rule
}

// build makes all operations, in the order of the document.
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
			b.add(&described{method: method, path: path.Name(), item: item, Operation: operation})
		}
	}
	if err := b.problems.err(); err != nil {
		return err
	}
	if len(b.entries) == 0 {
		b.options.Logger.Warn("an OpenAPI document offers no operation", "title", b.title())
	}
	return nil
}

func (b *builder) title() string {
	if b.document.Info == nil {
		return ""
	}
	return b.document.Info.Title
}

// add offers one operation, as its rule says.
func (b *builder) add(d *described) {
	d.rule = firstMatch(b.options.Rules, d.method, d.path, d.OperationID, d.Tags)
	if d.rule.Expose == Excluded {
		return
	}
	err := func() error {
		o, input, err := b.operation(d)
		if err != nil {
			return err
		}
		if d.rule.Expose == AsResource {
			return b.addResource(o, d)
		}
		return b.addTool(o, d, input)
	}()
	if err != nil {
		b.problems.add(d.method+" "+d.path, err)
	}
}

// operation compiles an operation, and makes the schema of its arguments.
func (b *builder) operation(d *described) (o *operation, inputSchema json.RawMessage, err error) {
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
	if o.input, err = schema.Compile(inputSchema, nil); err != nil {
		return nil, nil, fmt.Errorf("its arguments have no usable schema: %w", err)
	}
	o.accept = acceptable(d.Responses)
	return o, inputSchema, nil
}

func (b *builder) addParameters(o *operation, d *described, in *input) error {
	template, undeclared, err := parsePath(d.path)
	if err != nil {
		return err
	}
	o.template = template
	parameters, err := parametersOf(d.path, d.method, d.item, d.Operation)
	if err != nil {
		return err
	}
	for _, located := range parameters {
		if !located.isOffered(b.options.HeaderParameters) {
			continue
		}
		p, schema, err := b.parameter(located)
		if err != nil {
			return err
		}
		if p.in == "path" {
			if !template.set(p) {
				b.options.Logger.Debug("an OpenAPI document has a path parameter that the path has not", "operation", o.String(), "parameter", p.name)
				continue
			}
			undeclared = slices.DeleteFunc(undeclared, func(name string) bool { return name == p.name })
		} else {
			o.parameters = append(o.parameters, p)
		}
		if err := in.addParameter(p, schema, located.Description); err != nil {
			return err
		}
	}
	for _, name := range undeclared { // what only the path names is text
		p := &parameter{argument: name, name: name, in: "path", required: true, style: style{name: "simple"}, reading: reading{kind: "string"}}
		template.set(p)
		if err := in.addParameter(p, json.RawMessage(`{"type":"string"}`), ""); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addTool(o *operation, d *described, input json.RawMessage) error {
	if other, taken := b.tools[o.name]; taken {
		return fmt.Errorf("its name %q is that of %v too: Rule.Name gives one of them another", o.name, other)
	}
	tool := mcp.Tool{
		Name: o.name, Title: cut(d.Summary, maxTitle), Description: d.text(o.name),
		InputSchema: input, Annotations: annotations(d.method),
	}
	var err error
	if tool.OutputSchema, o.output, err = b.output(d); err != nil {
		return err
	}
	encoded, err := tool.AppendJSON(nil)
	if err != nil {
		return err
	}
	b.tools[o.name] = o
	b.offer(mcp.KindTool, o.name, encoded, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) { return b.callTool(ctx, call, o) })
	return nil
}

// offer adds an entry.
func (b *builder) offer(kind mcp.Kind, name string, definition []byte, handle mcp.Handler) *server.Entry {
	e := &server.Entry{Target: mcp.Target{Kind: kind, Name: name, Definition: mcp.NewDefinition(definition)}, Handle: handle}
	b.entries = append(b.entries, e)
	return e
}

// text is the operation's description.
func (d *described) text(name string) string {
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

// annotations are what the semantics of methods promise: RFC 9110, section 9.2.
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

// output is the schema of the operation's answer: that of its only success, if that is
// JSON. There is none when the service may succeed in several ways.
func (b *builder) output(d *described) (json.RawMessage, *schema.Validator, error) {
	status, media, ok := onlySuccess(d.Responses)
	if !ok || b.options.OmitOutputSchemas || d.method == "HEAD" {
		return nil, nil, nil
	}
	described, err := b.document.source.at("paths", d.path, strings.ToLower(d.method), "responses", status, "content", media, "schema")
	if err != nil {
		return nil, nil, err
	}
	converted, err := b.responses.root(described)
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
		validator, err = schema.Compile(text, nil)
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

// onlySuccess finds the one response that an operation may succeed with, and its JSON.
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

// acceptable is the Accept header: what the operation may answer with, JSON first.
func acceptable(responses *openapi3.Responses) string {
	types := make(map[string]bool)
	for _, response := range responses.Map() {
		if response == nil || response.Value == nil {
			continue
		}
		for media := range response.Value.Content {
			if concrete(media, "") != "" || strings.Contains(media, "/*") {
				types[mediaType(media)] = true
			}
		}
	}
	sorted := slices.SortedFunc(maps.Keys(types), func(a, b string) int {
		if isJSON(a) != isJSON(b) {
			if isJSON(a) {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	if len(sorted) == 0 {
		return "*/*"
	}
	return strings.Join(sorted[:min(len(sorted), maxAccepted)], ", ")
}
