package openapi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An input is the schema of a tool's arguments while it is put together.
type input struct {
	converter  *converter
	properties []byte
	names      []string
	required   []string
	targets    []string
	// dependent: if one of these is given, all that are required of them are.
	dependent, dependentOn []string
}

func newInput(c *converter) *input { return &input{converter: c, properties: []byte{'{'}} }

// addParameter adds a parameter under its name, or, where that is taken, under one
// that says where it stands.
func (in *input) addParameter(p *parameter, schema json.RawMessage, description string) error {
	if slices.Contains(in.names, p.argument) {
		p.argument = p.in + "_" + p.name
	}
	if slices.Contains(in.names, p.argument) {
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
	in.names = append(in.names, name)
	in.properties = appendMember(in.properties, jsonscan.AppendString(nil, name), schema)
	in.refer(targets)
	if required {
		in.required = append(in.required, name)
	}
}

func (in *input) refer(targets []string) {
	for _, target := range targets {
		if !slices.Contains(in.targets, target) {
			in.targets = append(in.targets, target)
		}
	}
}

// addBody adds the properties of a body beside the parameters, if it is a plain object
// and no name clashes, else the body as one argument.
func (in *input) addBody(b *body, schema json.RawMessage, description string) error {
	if b.form <= urlencodedForm {
		plain, ok, err := in.converter.asPlainObject(schema)
		if ok && err == nil {
			ok, err = in.addProperties(b, plain)
		}
		if ok || err != nil {
			return err
		}
	}
	b.argument = "body"
	if slices.Contains(in.names, b.argument) {
		b.argument = "requestBody"
	}
	p := &parameter{argument: b.argument, name: b.argument, in: "request", required: b.required}
	if err := in.addParameter(p, schema, description); err != nil {
		return err
	}
	b.argument = p.argument
	return nil
}

// addProperties adds a body's properties as arguments; ok is false if a name clashes.
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
		if slices.Contains(in.names, m.Name()) {
			return false, nil
		}
	}
	var required []string
	if list := members.Get("required"); list != nil {
		if err := json.Unmarshal(list, &required); err != nil {
			return false, err
		}
	}
	offered := make(map[string]property)
	for m := range properties.All() {
		name := m.Name()
		offered[name] = b.properties[name]
		in.add(name, m.Value, nil, b.required && slices.Contains(required, name))
		if !b.required && len(required) > 0 {
			in.dependent = append(in.dependent, name)
		}
	}
	b.properties = offered
	in.refer(converted.targets)
	in.dependentOn = slices.DeleteFunc(required, func(name string) bool { return !slices.Contains(in.names, name) })
	return true, nil
}

// schema is the finished schema: of an object that has no other members.
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
	return in.converter.complete(&converted{text, in.targets})
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
