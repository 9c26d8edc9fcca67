package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An instanceMaker makes instances of the schemas in one document, with no more in them
// than must be. It knows the common keywords, and may be wrong.
type instanceMaker struct{ defs map[string]*described }

// described is what a maker reads of a schema.
type described struct {
	Ref        string                `json:"$ref"`
	Type       any                   `json:"type"`
	Const      json.RawMessage       `json:"const"`
	Enum       []json.RawMessage     `json:"enum"`
	Default    json.RawMessage       `json:"default"`
	Examples   []json.RawMessage     `json:"examples"`
	Properties map[string]*described `json:"properties"`
	Required   []string              `json:"required"`
	Items      *described            `json:"items"`
	MinItems   int                   `json:"minItems"`
	MinLength  int                   `json:"minLength"`
	Pattern    string                `json:"pattern"`
	Minimum    json.RawMessage       `json:"minimum"`
	AnyOf      []*described          `json:"anyOf"`
	OneOf      []*described          `json:"oneOf"`
	AllOf      []*described          `json:"allOf"`
	Defs       map[string]*described `json:"$defs"`
}

// UnmarshalJSON reads true as the schema of anything.
func (d *described) UnmarshalJSON(text []byte) error {
	type fields described
	if string(text) == "true" || string(text) == "false" {
		return nil
	}
	return json.Unmarshal(text, (*fields)(d))
}

func instanceOf(t *testing.T, schema json.RawMessage) json.RawMessage {
	t.Helper()
	var root described
	if err := json.Unmarshal(schema, &root); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal((&instanceMaker{root.Defs}).instance(&root, 0))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (m *instanceMaker) instance(d *described, depth int) any {
	d = m.whole(d, depth)
	for _, list := range [][]json.RawMessage{{d.Const}, d.Enum, {d.Default}, d.Examples} {
		for _, one := range list {
			if one != nil && string(one) != "null" && depth > 0 {
				return one
			}
		}
	}
	switch m.kind(d) {
	case "object":
		return m.object(d, depth)
	case "array":
		list := []any{}
		for range max(d.MinItems, 1) {
			list = append(list, m.instance(d.Items, depth+1))
		}
		return list
	case "integer", "number":
		if d.Minimum != nil {
			return d.Minimum
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	return m.text(d)
}

// whole follows references, and puts a schema together that consists of others.
func (m *instanceMaker) whole(d *described, depth int) *described {
	if d == nil || depth > 30 {
		return &described{}
	}
	if d.Ref != "" {
		return m.whole(m.defs[strings.TrimPrefix(d.Ref, "#/$defs/")], depth+1)
	}
	made := *d
	made.Properties = maps.Clone(d.Properties)
	parts := d.AllOf
	for _, alternatives := range [][]*described{d.AnyOf, d.OneOf} {
		if len(alternatives) > 0 {
			parts = append(slices.Clip(parts), alternatives[0])
		}
	}
	for _, part := range parts {
		part = m.whole(part, depth+1)
		if made.Properties == nil {
			made.Properties = map[string]*described{}
		}
		maps.Copy(made.Properties, part.Properties)
		made.Required = append(slices.Clip(made.Required), part.Required...)
		if made.Type == nil {
			made.Type, made.Items = part.Type, part.Items
		}
		if made.Enum == nil {
			made.Enum = part.Enum
		}
		made.Pattern += part.Pattern
	}
	return &made
}

func (m *instanceMaker) kind(d *described) string {
	kind := fmt.Sprint(d.Type)
	if list, several := d.Type.([]any); several {
		kind = fmt.Sprint(list[0])
	}
	if d.Type == nil && len(d.Properties)+len(d.Required) > 0 {
		kind = "object"
	}
	return kind
}

func (m *instanceMaker) object(d *described, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range d.Required {
		object[name] = m.instance(d.Properties[name], depth+1)
	}
	if len(object) > 0 || depth != 1 {
		return object
	}
	for name, property := range d.Properties { // an empty object cannot stand in a path
		object[name] = m.instance(property, depth+1)
	}
	if len(object) == 0 {
		object["x"] = "x"
	}
	return object
}

// text tries some texts on a pattern.
func (m *instanceMaker) text(d *described) string {
	pattern, err := regexp.Compile(d.Pattern)
	candidates := []string{
		strings.Repeat("x", max(d.MinLength, 4)), "stable", "/branches/stable/categories/guides/x", "0123456789abcdef01234567",
		"0123456789abcdef0123456789abcdef01234567", "1", "2030-01-01", "2030-01-01T00:00:00Z", "a@b.example", "https://a.example/b", "x.json",
	}
	for _, candidate := range candidates {
		if err == nil && pattern.MatchString(candidate) {
			return candidate
		}
	}
	return candidates[0]
}
