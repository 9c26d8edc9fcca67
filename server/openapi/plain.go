package openapi

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A walk goes through the schemas that a schema is put together from. There may be very
// many of them in a small document, if they refer to each other.
type walk struct {
	source *source
	left   int // how many more it goes to
}

var errTooManyParts = errors.New("it is put together from too many schemas")

func (w *walk) enter() error {
	if w.left--; w.left < 0 {
		return errTooManyParts
	}
	return nil
}

// asPlainObject makes one schema of an object whose schemas say no more than which
// properties it has, each of them once.
func (c *converter) asPlainObject(schema json.RawMessage) (object json.RawMessage, ok bool, err error) {
	p := plainObject{walk: walk{c.source, maxParts}, refersAlone: c.refersAlone, properties: []byte{'{'}}
	if ok, err = p.add(schema, true); !ok || err != nil || len(p.names) == 0 {
		return nil, false, err
	}
	object = append([]byte(`{"type":"object","properties":`), p.properties...)
	object = append(append(object, `},"required":`...), stringList(p.required)...)
	return append(object, '}'), true, nil
}

// A plainObject is the properties of an object, as they are collected.
type plainObject struct {
	walk
	refersAlone bool
	properties  []byte
	names       []string
	required    []string
}

// add collects the properties that a schema says; ok is false if it says more.
func (p *plainObject) add(schema json.RawMessage, whole bool) (ok bool, err error) {
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
		if ok, err := p.add(target, whole && (p.refersAlone || members.Len() == 1)); !ok || err != nil || p.refersAlone {
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

// keyword collects what one keyword says. A schema that is not the whole of the object
// must not close it: it would refuse the properties of the others.
func (p *plainObject) keyword(name string, value json.RawMessage, whole bool) (ok bool, err error) {
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

func (p *plainObject) addProperties(value json.RawMessage) (ok bool, err error) {
	if jsonscan.KindOf(value) != jsonscan.Object {
		return false, nil
	}
	properties, err := jsonscan.ReadObject(value)
	if err != nil {
		return false, err
	}
	for m := range properties.All() {
		name := m.Name()
		if slices.Contains(p.names, name) {
			return false, nil
		}
		p.names = append(p.names, name)
		p.properties = appendMember(p.properties, m.Key, m.Value)
	}
	return true, nil
}

// properties collects the schemas of an object's properties, its own and those of the
// schemas that it is put together from in any way.
func (w *walk) properties(schema json.RawMessage, found map[string]json.RawMessage) error {
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
