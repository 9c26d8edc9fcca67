package llm

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/toolschema"
	"github.com/dovetail-go/dovetail/mcp"
)

// noParameters is the schema of a function without parameters.
const noParameters = `{"type":"object","properties":{}}`

// parameters returns the input schema of a tool in the form that all APIs of apiRules accept. It allows at least what
// the input schema allows: the server validates the arguments anyway. names is the pattern of the names of properties;
// others are left out. nil means all.
func parameters(tool *mcp.Tool, names *regexp.Regexp) json.RawMessage {
	if jsonscan.Valid(tool.InputSchema) != nil || jsonscan.KindOf(tool.InputSchema) != jsonscan.Object {
		return json.RawMessage(noParameters)
	}
	schema, err := toolschema.Rewrite(tool.InputSchema, toolschema.MaxInlined, addItems)
	if err != nil {
		schema, err = toolschema.Rewrite(withoutReferences(tool.InputSchema), toolschema.MaxInlined, addItems)
	}
	root, notObject := jsonscan.ReadObject(schema)
	if err != nil || notObject != nil || !isObjectType(root.Get("type")) {
		return json.RawMessage(noParameters)
	}
	properties := newProperties(root)
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		properties.addBranches(root.Get(keyword), keyword == "allOf", 0)
	}
	if names != nil {
		properties.keepNames(names)
	}
	var edits []jsonscan.Edit
	for _, r := range apiRules() {
		for _, keyword := range r.forbidden {
			if root.Get(keyword) != nil && !slices.ContainsFunc(edits, func(e jsonscan.Edit) bool { return e.Name == keyword }) {
				edits = append(edits, jsonscan.Edit{Name: keyword})
			}
		}
	}
	if !jsonscan.KeyIs(orNull(root.Get("type")), "object") {
		edits = append(edits, jsonscan.Edit{Name: "type", Value: json.RawMessage(`"object"`)})
	}
	if properties.changed || jsonscan.KindOf(orNull(root.Get("properties"))) != jsonscan.Object {
		edits = append(edits, jsonscan.Edit{Name: "properties", Value: properties.encode()})
	}
	if required := root.Get("required"); properties.changed || required != nil && !isTexts(required) {
		edits = append(edits, jsonscan.Edit{Name: "required", Value: properties.encodeRequired()})
	}
	if len(edits) == 0 {
		return schema
	}
	changed, err := jsonscan.Splice(nil, schema, edits...)
	if err != nil {
		return json.RawMessage(noParameters)
	}
	return changed
}

func orNull(value []byte) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}

func isTexts(list []byte) bool {
	var texts []string
	return json.Unmarshal(list, &texts) == nil && texts != nil
}

// isObjectType reports whether a type, which may be absent or a list, allows objects.
func isObjectType(value []byte) bool {
	switch jsonscan.KindOf(orNull(value)) {
	case jsonscan.Null:
		return true
	case jsonscan.Array:
		return slices.Contains(typesOf(value), "object")
	}
	return jsonscan.KeyIs(value, "object")
}

func typesOf(value []byte) (types []string) {
	var one string
	if json.Unmarshal(value, &one) == nil {
		return []string{one}
	}
	_ = json.Unmarshal(value, &types) // another value has no types
	return types
}

// addItems adds items to the schema of an array that has none.
func addItems(schema json.RawMessage) json.RawMessage {
	members, err := jsonscan.ReadObject(schema)
	if err != nil || members.Get("items") != nil || !slices.Contains(typesOf(members.Get("type")), "array") {
		return schema
	}
	with, err := jsonscan.Splice(nil, schema, jsonscan.Edit{Name: "items", Value: json.RawMessage("{}")})
	if err != nil {
		return schema
	}
	return with
}

// withoutReferences replaces each property that has a reference with {}, and removes definitions. It is for schemas
// whose references cannot be resolved here.
func withoutReferences(schema json.RawMessage) json.RawMessage {
	root, err := jsonscan.ReadObject(schema)
	if err != nil {
		return json.RawMessage(noParameters)
	}
	out := []byte{'{'}
	for m := range root.All() {
		value := m.Value
		switch m.Name() {
		case "type", "description", "title", "required":
		case "properties":
			properties, err := jsonscan.ReadObject(value)
			if err != nil {
				continue
			}
			p := newProperties(root)
			for property := range properties.All() {
				if bytes.ContainsAny(property.Value, `$\`) { // also of an escaped $ref
					p.schemas[property.Name()] = json.RawMessage("{}")
				}
			}
			value = p.encode()
		default:
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Key...), ':'), value...)
	}
	return append(out, '}')
}

// properties are the properties of a root.
type properties struct {
	names    []string
	schemas  map[string]json.RawMessage
	required []string
	requires map[string]bool // the names in required
	changed  bool
}

func newProperties(root jsonscan.Members) *properties {
	p := &properties{schemas: make(map[string]json.RawMessage), requires: make(map[string]bool)}
	p.add(root)
	_ = json.Unmarshal(orNull(root.Get("required")), &p.required) // another value requires nothing
	for _, name := range p.required {
		p.requires[name] = true
	}
	p.changed = false
	return p
}

// add adds the properties of an object that p does not have.
func (p *properties) add(object jsonscan.Members) {
	list, err := jsonscan.ReadObject(object.Get("properties"))
	if err != nil {
		return
	}
	for m := range list.All() {
		if name := m.Name(); p.schemas[name] == nil {
			p.names, p.changed = append(p.names, name), true
			p.schemas[name] = m.Value
		}
	}
}

const maxBranchDepth = 8

// addBranches adds the properties of schemas of which all or some must match. Required are those of all, or those that
// each of some requires.
func (p *properties) addBranches(branches []byte, all bool, depth int) {
	var list []json.RawMessage
	if branches == nil || depth > maxBranchDepth || json.Unmarshal(branches, &list) != nil {
		return
	}
	var each [][]string
	for _, branch := range list {
		object, err := jsonscan.ReadObject(branch)
		if err != nil {
			each = append(each, nil)
			continue
		}
		p.add(object)
		for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
			p.addBranches(object.Get(keyword), false, depth+1)
		}
		var required []string
		_ = json.Unmarshal(orNull(object.Get("required")), &required)
		each = append(each, required)
	}
	counts := map[string]int{} // in how many branches a name is required
	for _, required := range each {
		counted := make(map[string]bool, len(required))
		for _, name := range required {
			if !counted[name] {
				counted[name] = true
				counts[name]++
			}
		}
	}
	for i, required := range each {
		for _, name := range required {
			if inAll := all || i == 0 && counts[name] == len(each); inAll && !p.requires[name] {
				p.required, p.changed, p.requires[name] = append(p.required, name), true, true
			}
		}
	}
}

// keepNames leaves out properties whose names do not match.
func (p *properties) keepNames(names *regexp.Regexp) {
	wrong := func(name string) bool { return !names.MatchString(name) }
	if slices.ContainsFunc(p.names, wrong) {
		p.names, p.changed = slices.DeleteFunc(p.names, wrong), true
		p.required = slices.DeleteFunc(p.required, wrong)
	}
}

func (p *properties) encode() json.RawMessage {
	out := []byte{'{'}
	for i, name := range p.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(jsonscan.AppendString(out, name), ':'), p.schemas[name]...)
	}
	return append(out, '}')
}

// encodeRequired returns nil if no property is required.
func (p *properties) encodeRequired() json.RawMessage {
	if len(p.required) == 0 {
		return nil
	}
	out := []byte{'['}
	for i, name := range p.required {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonscan.AppendString(out, name)
	}
	return append(out, ']')
}
