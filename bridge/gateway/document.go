package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// object is a JSON object. The members of a document are defined by OpenAPI 3.1
// (https://spec.openapis.org/oas/v3.1.1.html).
type object = map[string]any

const (
	// problemSchema is the schema of a [problem].
	problemSchema = `{"type":"object","properties":{"type":{"type":"string","format":"uri"},"title":{"type":"string"},` +
		`"status":{"type":"integer"},"detail":{"type":"string"},"error":{"type":"object"},"result":{"type":"object"}}}`
	// resultSchema is the schema of the response for a tool without an output schema.
	resultSchema = `{"type":"object","required":["content"],"properties":{` +
		`"content":{"type":"array","items":{"type":"object"}},"structuredContent":{},"isError":{"type":"boolean"}}}`
	resultComponent = "CallToolResult"
)

// document writes the OpenAPI document of the tools that the caller may see.
func (f *restFrontend) document(w http.ResponseWriter, r *http.Request) {
	tools, failed := f.gateway.list(r.Context())
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	frontend.WriteJSON(w, http.StatusOK, frontend.Encode(f.opts.document(tools, f.gateway.authenticator.opts.Open)))
}

// document describes tools. It omits a tool whose name is not usable as a path segment.
func (o *RESTOptions) document(tools []tool, open bool) object {
	security := []object{{"token": []string{}}}
	if open {
		security = append(security, object{})
	}
	info := object{"title": cmp.Or(o.Title, "Tools"), "version": cmp.Or(o.Version, "1")}
	if o.Description != "" {
		info["description"] = o.Description
	}
	d := &document{paths: object{}, schemas: map[string]json.RawMessage{resultComponent: json.RawMessage(resultSchema)}}
	for i := range tools {
		if name := tools[i].name; name != callSegment && name != "." && name != ".." {
			d.add(&tools[i])
		}
	}
	return object{
		"openapi":  "3.1.1",
		"info":     info,
		"servers":  []object{{"url": cmp.Or(o.URL, ".")}},
		"security": security,
		"paths":    d.paths,
		"components": object{
			"schemas": d.schemas,
			"responses": object{"Problem": object{
				"description": "Why the call has no result, or how the tool failed.",
				"content":     object{"application/problem+json": object{"schema": json.RawMessage(problemSchema)}},
			}},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}
}

// A document collects the paths and the schemas of tools.
type document struct {
	paths   object
	schemas map[string]json.RawMessage
}

func (d *document) add(t *tool) {
	key := d.key(t.name)
	input, output := d.component(key+".input", t.listed.Get("inputSchema")), reference(resultComponent)
	if schema := t.output(); schema != nil {
		output = d.component(key+".output", schema)
	}
	operation := object{
		"operationId": t.name,
		"requestBody": object{"required": t.needsArguments(), "content": jsonOf(input)},
		"responses": object{
			"200":     object{"description": "The result of the tool.", "content": jsonOf(output)},
			"default": object{"$ref": "#/components/responses/Problem"},
		},
	}
	for member, name := range map[string]string{"summary": "title", "description": "description"} {
		if text := t.text(name); text != "" {
			operation[member] = text
		}
	}
	d.paths["/tools/"+url.PathEscape(t.name)] = object{"post": operation}
}

func jsonOf(schema json.RawMessage) object {
	return object{"application/json": object{"schema": schema}}
}

// key returns a unique name for the schemas of a tool, with the characters that OpenAPI allows.
func (d *document) key(name string) string {
	base := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, name)
	key := base
	for i := 2; d.schemas[key+".input"] != nil; i++ {
		key = fmt.Sprintf("%s_%d", base, i)
	}
	return key
}

func reference(key string) json.RawMessage {
	return frontend.Encode(map[string]string{"$ref": "#/components/schemas/" + key})
}

// component adds a schema and returns a reference to it. A schema that cannot be moved is replaced by a schema that
// accepts any object.
func (d *document) component(key string, schema json.RawMessage) json.RawMessage {
	moved, err := rewriteRefs(schema, "#/components/schemas/"+key)
	if err != nil {
		moved = []byte(`{"type":"object"}`)
	}
	d.schemas[key] = moved
	return reference(key)
}

// errNotMovable reports a schema that would change its meaning in a document.
var errNotMovable = errors.New("not a schema, or with a reference that cannot be moved")

// rewriteRefs returns a schema for use within a document. It prepends to, a JSON Pointer, to
// the references within the schema; all other bytes stay the same. JSON Schema 2020-12, core,
// section 8.2.
func rewriteRefs(schema json.RawMessage, to string) ([]byte, error) {
	m := &refRewriter{scan: jsonscan.NewUnique(schema), text: schema, to: to, dst: make([]byte, 0, len(schema)+64)}
	if m.scan.Kind() != jsonscan.Object {
		return nil, errNotMovable
	}
	if err := m.value(atSchema); err != nil {
		return nil, err
	}
	if err := m.scan.End(); err != nil {
		return nil, err
	}
	return append(m.dst, m.text[m.copied:]...), nil
}

// A refRewriter copies a schema and rewrites its references.
type refRewriter struct {
	scan   jsonscan.Scanner
	text   []byte
	copied int
	to     string
	dst    []byte
}

// A position is the role of a value in a schema.
type position int

const (
	atSchema    position = iota // a schema, or a list of schemas
	atSchemaMap                 // an object whose values are schemas
	atData                      // any JSON
)

// positionOf returns the position of the value of a keyword. The value of an unknown keyword is
// treated as a schema.
func positionOf(keyword string) position {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return atSchemaMap
	case "const", "enum", "default", "examples", "example":
		return atData
	default:
		return atSchema
	}
}

func (m *refRewriter) value(at position) error {
	switch kind := m.scan.Kind(); {
	case at != atData && kind == jsonscan.Object:
		return m.object(at)
	case at != atData && kind == jsonscan.Array:
		return m.array()
	default:
		_, err := m.scan.Value()
		return err
	}
}

func (m *refRewriter) object(at position) error {
	if err := m.scan.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, ok, err := m.scan.Member(first)
		if err != nil || !ok {
			return err
		}
		if at == atSchemaMap {
			err = m.value(atSchema)
		} else {
			err = m.keyword(jsonscan.Unquote(key))
		}
		if err != nil {
			return err
		}
	}
}

func (m *refRewriter) array() error {
	if err := m.scan.EnterArray(); err != nil {
		return err
	}
	for first := true; ; first = false {
		ok, err := m.scan.Element(first)
		if err != nil || !ok {
			return err
		}
		if err := m.value(atSchema); err != nil {
			return err
		}
	}
}

func (m *refRewriter) keyword(name string) error {
	if m.scan.Kind() == jsonscan.String {
		switch name {
		case "$ref":
			return m.reference()
		case "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef":
			return errNotMovable
		}
	}
	return m.value(positionOf(name))
}

// reference rewrites one reference.
func (m *refRewriter) reference() error {
	raw, err := m.scan.String()
	if err != nil {
		return err
	}
	target, ok := strings.CutPrefix(jsonscan.Unquote(raw), "#")
	if !ok || target != "" && target[0] != '/' {
		return errNotMovable
	}
	end := m.scan.Offset()
	m.dst = jsonscan.AppendString(append(m.dst, m.text[m.copied:end-len(raw)]...), m.to+target)
	m.copied = end
	return nil
}
