package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An input builds the schema of a tool's arguments.
type input struct {
	converter  *converter
	properties []byte
	names      nameSet
	required   []string
	targets    nameSet
	// dependent lists properties of an optional body, dependentOn its required properties. If
	// one of the former is given, all of the latter must be given.
	dependent, dependentOn []string
}

func newInput(c *converter) *input { return &input{converter: c, properties: []byte{'{'}} }

// addParameter adds a parameter. If its name is used already, the location is added as a prefix.
func (in *input) addParameter(p *parameter, schema json.RawMessage, description string) error {
	if in.names.has[p.argument] {
		p.argument = p.in + "_" + p.name
	}
	if in.names.has[p.argument] {
		return fmt.Errorf("there are two arguments %.200q", p.argument)
	}
	converted, err := in.converter.convert(schema)
	if err != nil {
		return fmt.Errorf("the parameter %.200q: %w", p.name, err)
	}
	text := converted.text
	if description != "" && jsonscan.KindOf(text) == jsonscan.Object {
		note := jsonscan.AppendString(nil, cut(description, maxNote))
		if text, err = jsonscan.Splice(nil, text, jsonscan.Edit{Name: "description", Value: note}); err != nil {
			return err
		}
	}
	in.add(p.argument, text, converted.targets, p.required)
	return nil
}

func (in *input) add(name string, schema json.RawMessage, targets []string, required bool) {
	in.names.add(name)
	in.properties = appendMember(in.properties, jsonscan.AppendString(nil, name), schema)
	in.targets.add(targets...)
	if required {
		in.required = append(in.required, name)
	}
}

// addBody adds the properties of a body as arguments, or the body as one argument if it is not a
// plain object or a name is used already.
func (in *input) addBody(b *body, schema json.RawMessage, description string) error {
	if b.form <= urlencodedForm {
		plain, ok, err := in.converter.flatten(schema)
		if ok && err == nil {
			ok, err = in.addProperties(b, plain)
		}
		if ok || err != nil {
			return err
		}
	}
	b.argument = "body"
	if in.names.has[b.argument] {
		b.argument = "requestBody"
	}
	p := &parameter{argument: b.argument, name: b.argument, in: "request", required: b.required}
	if err := in.addParameter(p, schema, description); err != nil {
		return err
	}
	b.argument = p.argument
	return nil
}

// addProperties adds the properties of a body. ok is false if a name is used already.
func (in *input) addProperties(b *body, object json.RawMessage) (ok bool, err error) {
	converted, err := in.converter.convert(object)
	if err != nil {
		return false, err
	}
	members, err := jsonscan.ReadObject(converted.text)
	if err != nil {
		return false, err
	}
	properties, err := jsonscan.ReadObject(members.Get("properties"))
	if err != nil {
		return false, err
	}
	for m := range properties.All() {
		if in.names.has[m.Name()] {
			return false, nil
		}
	}
	var list []string
	if raw := members.Get("required"); raw != nil {
		if err := json.Unmarshal(raw, &list); err != nil {
			return false, err
		}
	}
	var required nameSet
	required.add(list...)
	used := make(map[string]property)
	for m := range properties.All() {
		name := m.Name()
		used[name] = b.properties[name]
		in.add(name, m.Value, nil, b.required && required.has[name])
		if !b.required && len(required.list) > 0 {
			in.dependent = append(in.dependent, name)
		}
	}
	b.properties = used
	in.targets.add(converted.targets...)
	in.dependentOn = slices.DeleteFunc(required.list, func(name string) bool { return !in.names.has[name] })
	return true, nil
}

// schema returns the complete schema, of an object without other members.
func (in *input) schema() (json.RawMessage, error) {
	text := append([]byte(`{"type":"object","properties":`), in.properties...)
	text = append(text, '}')
	if len(in.required) > 0 {
		text = append(append(text, `,"required":`...), stringList(in.required)...)
	}
	if len(in.dependent) > 0 && len(in.dependentOn) > 0 {
		list := stringList(in.dependentOn)
		dependent := []byte{'{'}
		for _, name := range in.dependent {
			dependent = appendMember(dependent, jsonscan.AppendString(nil, name), list)
		}
		text = append(append(append(text, `,"dependentRequired":`...), dependent...), '}')
	}
	text = append(text, `,"additionalProperties":false}`...)
	return in.converter.complete(&converted{text, in.targets.list})
}

func stringList(names []string) []byte {
	list := []byte{'['}
	for i, name := range names {
		if i > 0 {
			list = append(list, ',')
		}
		list = jsonscan.AppendString(list, name)
	}
	return append(list, ']')
}

// A schemaWalk visits the schemas that a schema is composed of. Their number is bounded, because
// references can multiply them.
type schemaWalk struct {
	source *source
	left   int // schemas that may still be visited
}

var errTooManySchemas = errors.New("it is composed of too many schemas")

func (w *schemaWalk) enter() error {
	if w.left--; w.left < 0 {
		return errTooManySchemas
	}
	return nil
}

// flatten merges the schemas that an object is composed of into one. ok is false if they define
// more than properties, or define a property twice.
func (c *converter) flatten(schema json.RawMessage) (object json.RawMessage, ok bool, err error) {
	p := flatObject{schemaWalk: schemaWalk{c.source, maxSchemas}, ignoresRefSiblings: c.ignoresRefSiblings, properties: []byte{'{'}}
	if ok, err = p.add(schema, true); !ok || err != nil || len(p.names.list) == 0 {
		return nil, false, err
	}
	object = append([]byte(`{"type":"object","properties":`), p.properties...)
	object = append(append(object, `},"required":`...), stringList(p.required)...)
	return append(object, '}'), true, nil
}

// A flatObject collects the properties of an object.
type flatObject struct {
	schemaWalk
	ignoresRefSiblings bool
	properties         []byte
	names              nameSet
	required           []string
}

// add adds the properties of a schema. ok is false if the schema defines more. whole says that the
// schema describes the complete object.
func (p *flatObject) add(schema json.RawMessage, whole bool) (ok bool, err error) {
	if err := p.enter(); err != nil || jsonscan.KindOf(schema) != jsonscan.Object {
		return false, err
	}
	members, err := jsonscan.ReadObject(schema)
	if err != nil {
		return false, err
	}
	whole = whole && members.Get("allOf") == nil
	ref, refers := asString(members.Get("$ref"))
	if refers {
		pointer, err := pointerOf(ref)
		if err != nil {
			return false, err
		}
		_, target, err := p.source.find(pointer)
		if err != nil {
			return false, err
		}
		if ok, err := p.add(target, whole && (p.ignoresRefSiblings || members.Len() == 1)); !ok || err != nil || p.ignoresRefSiblings {
			return ok, err
		}
	}
	for m := range members.All() {
		if ok, err := p.keyword(m.Name(), m.Value, whole); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// keyword adds one keyword of a schema. Only a schema of the complete object may disallow
// additional properties.
func (p *flatObject) keyword(name string, value json.RawMessage, whole bool) (ok bool, err error) {
	switch name {
	case "type":
		return string(value) == `"object"`, nil
	case "nullable":
		return string(value) == "false", nil
	case "additionalProperties":
		return whole && string(value) == "false", nil
	case "$ref", "$schema", "$defs", "definitions", "$comment", "title", "description", "example", "examples", "deprecated", "externalDocs", "xml":
		return true, nil
	case "properties":
		return p.addProperties(value)
	case "required":
		var names []string
		if json.Unmarshal(value, &names) == nil {
			p.required = append(p.required, names...)
		}
		return true, nil
	case "allOf":
		var parts []json.RawMessage
		if json.Unmarshal(value, &parts) != nil {
			return false, nil
		}
		for _, part := range parts {
			if ok, err := p.add(part, false); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return strings.HasPrefix(name, "x-"), nil
}

func (p *flatObject) addProperties(value json.RawMessage) (ok bool, err error) {
	if jsonscan.KindOf(value) != jsonscan.Object {
		return false, nil
	}
	properties, err := jsonscan.ReadObject(value)
	if err != nil {
		return false, err
	}
	for m := range properties.All() {
		name := m.Name()
		if p.names.has[name] {
			return false, nil
		}
		p.names.add(name)
		p.properties = appendMember(p.properties, m.Key, m.Value)
	}
	return true, nil
}

// properties collects the schemas of all properties of an object, including the properties of its
// compositions.
func (w *schemaWalk) properties(schema json.RawMessage, found map[string]json.RawMessage) error {
	if err := w.enter(); err != nil {
		return err
	}
	members, err := w.source.object(schema)
	if err != nil {
		return err
	}
	if properties := members.Get("properties"); jsonscan.KindOf(properties) == jsonscan.Object {
		own, err := jsonscan.ReadObject(properties)
		if err != nil {
			return err
		}
		for m := range own.All() {
			found[m.Name()] = m.Value
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		var parts []json.RawMessage
		if list := members.Get(name); list == nil || json.Unmarshal(list, &parts) != nil {
			continue
		}
		for _, part := range parts {
			if err := w.properties(part, found); err != nil {
				return err
			}
		}
	}
	return nil
}
