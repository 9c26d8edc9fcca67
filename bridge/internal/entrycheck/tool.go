package entrycheck

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// inputSchema checks the schema of a tool's arguments, which are an object whatever the schema says.
func inputSchema(c *checker, path string, raw []byte) ([]byte, error) {
	if string(raw) == "true" {
		c.repaired(path, `was true, and is {"type":"object"}`)
		return anyArguments(nil), nil
	}
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return nil, expected("an object", raw)
	}
	schema, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, err
	}
	edits, err := c.rootOf(path, &schema)
	if err != nil {
		return nil, err
	}
	if kind := schema.Get("type"); !isObject(kind) {
		if !mayBeObject(kind) {
			return nil, fmt.Errorf("its type must be object, not %s", jsonscan.Quote(string(kind)))
		}
		c.repaired(join(path, "type"), `is "object" now`)
		edits = append(edits, jsonscan.Edit{Name: "type", Value: []byte(`"object"`)})
	}
	if len(edits) == 0 {
		return raw, nil
	}
	return jsonscan.Splice(nil, raw, edits...)
}

// mayBeObject reports whether the keyword type allows an object. kind is nil or null if there is none.
func mayBeObject(kind []byte) bool {
	switch jsonscan.KindOf(kind) {
	case jsonscan.EOF, jsonscan.Null:
		return true
	case jsonscan.String:
		return isObject(kind)
	case jsonscan.Array:
		return anyElement(kind, isObject)
	}
	return false
}

// isObject reports whether a value is the name of the type object.
func isObject(raw []byte) bool {
	return jsonscan.KindOf(raw) == jsonscan.String && jsonscan.KeyIs(raw, "object")
}

// anyElement reports whether match returns true for an element of a valid array.
func anyElement(array []byte, match func(element []byte) bool) bool {
	s := jsonscan.New(array)
	if s.EnterArray() != nil {
		return false
	}
	for first := true; ; first = false {
		if more, err := s.Element(first); err != nil || !more {
			return false
		}
		element, err := s.Value()
		if err != nil {
			return false
		}
		if match(element) {
			return true
		}
	}
}

// rootOf checks the members of a schema that the schema of MCP mentions, except type. It returns how the schema must be
// changed.
func (c *checker) rootOf(path string, schema *jsonscan.Members) ([]jsonscan.Edit, error) {
	var edits []jsonscan.Edit
	remove := func(name string, reason error) {
		c.removed(join(path, name), reason)
		edits = append(edits, jsonscan.Edit{Name: name})
	}
	if dialect := schema.Get("$schema"); dialect != nil && jsonscan.KindOf(dialect) != jsonscan.String {
		remove("$schema", expected("a string", dialect))
	}
	switch required := schema.Get("required"); jsonscan.KindOf(required) {
	case jsonscan.EOF:
	case jsonscan.Null:
		remove("required", errNull)
	case jsonscan.Array:
		if anyElement(required, func(element []byte) bool { return jsonscan.KindOf(element) != jsonscan.String }) {
			return nil, errors.New("required: expected strings")
		}
	default:
		return nil, fmt.Errorf("required: %w", expected("an array", required))
	}
	properties := schema.Get("properties")
	switch jsonscan.KindOf(properties) {
	case jsonscan.EOF:
	case jsonscan.Null:
		remove("properties", errNull)
	default:
		valid, err := c.properties(join(path, "properties"), properties)
		if err != nil {
			return nil, fmt.Errorf("properties: %w", err)
		}
		if !bytes.Equal(valid, properties) {
			edits = append(edits, jsonscan.Edit{Name: "properties", Value: valid})
		}
	}
	return edits, nil
}

// properties replaces the schemas true and false, which versions before 2026-07-28 do not allow for a property, by
// objects of the same meaning. A property without a schema, which is null, can have any value.
func (c *checker) properties(path string, raw []byte) ([]byte, error) {
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return nil, expected("an object", raw)
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, err
	}
	out, changed := []byte{'{'}, false
	for m := range members.All() {
		value := m.Value
		switch {
		case jsonscan.KindOf(value) == jsonscan.Object:
		case string(value) == "true", string(value) == "null":
			value = []byte("{}")
		case string(value) == "false":
			value = []byte(`{"not":{}}`)
		default:
			return nil, fmt.Errorf("%s: %w", jsonscan.Quote(m.Name()), expected("an object", value))
		}
		if !bytes.Equal(value, m.Value) {
			changed = true
			c.repaired(path+"["+jsonscan.Quote(m.Name())+"]", fmt.Sprintf("was %s, and is %s", m.Value, value))
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Key...), ':'), value...)
	}
	if !changed {
		return raw, nil
	}
	return append(out, '}'), nil
}
