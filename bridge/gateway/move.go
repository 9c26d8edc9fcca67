package gateway

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// errImmovable is of a schema that cannot stand elsewhere than at the root of its text.
var errImmovable = errors.New("it is no schema, or refers to what is not a place in it")

// moveSchema returns a schema for a place in a document, where references begin with that
// place: all bytes but those of references within the schema are as they were. JSON Schema
// 2020-12, core, section 8.2.
func moveSchema(schema json.RawMessage, to string) ([]byte, error) {
	m := &mover{scan: jsonscan.New(schema), text: schema, to: to, dst: make([]byte, 0, len(schema)+64)}
	if m.scan.Kind() != jsonscan.Object {
		return nil, errImmovable
	}
	if err := m.value(schemaPlace); err != nil {
		return nil, err
	}
	if err := m.scan.End(); err != nil {
		return nil, err
	}
	return append(m.dst, m.text[m.copied:]...), nil
}

// A mover walks through a schema, and copies up to the reference that it has met last.
type mover struct {
	scan   jsonscan.Scanner
	text   []byte
	copied int
	to     string
	dst    []byte
}

// A place is the position of a value in a schema.
type place int

const (
	schemaPlace place = iota // where a schema stands, or a list of them
	namesPlace               // where an object of schemas stands
	dataPlace                // where anything stands
)

// placeOf returns the place of the value of a keyword. Unknown keywords have schemas.
func placeOf(keyword string) place {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return namesPlace
	case "const", "enum", "default", "examples", "example":
		return dataPlace
	default:
		return schemaPlace
	}
}

func (m *mover) value(at place) error {
	switch kind := m.scan.Kind(); {
	case at != dataPlace && kind == jsonscan.Object:
		return m.object(at)
	case at != dataPlace && kind == jsonscan.Array:
		return m.array()
	default:
		_, err := m.scan.Value()
		return err
	}
}

func (m *mover) object(at place) error {
	if err := m.scan.EnterObject(); err != nil {
		return err
	}
	var keys jsonscan.Keys
	for first := true; ; first = false {
		key, ok, err := m.scan.Member(first)
		if err != nil || !ok {
			return err
		}
		if err := keys.Add(key, m.scan.KeyOffset()); err != nil {
			return err
		}
		if at == namesPlace {
			err = m.value(schemaPlace)
		} else {
			err = m.keyword(jsonscan.Unquote(key))
		}
		if err != nil {
			return err
		}
	}
}

func (m *mover) array() error {
	if err := m.scan.EnterArray(); err != nil {
		return err
	}
	for first := true; ; first = false {
		ok, err := m.scan.Element(first)
		if err != nil || !ok {
			return err
		}
		if err := m.value(schemaPlace); err != nil {
			return err
		}
	}
}

func (m *mover) keyword(name string) error {
	if m.scan.Kind() == jsonscan.String {
		switch name {
		case "$ref":
			return m.reference()
		case "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef":
			return errImmovable
		}
	}
	return m.value(placeOf(name))
}

// reference has a reference lead to where its target is now.
func (m *mover) reference() error {
	raw, err := m.scan.String()
	if err != nil {
		return err
	}
	target, ok := strings.CutPrefix(jsonscan.Unquote(raw), "#")
	if !ok || target != "" && target[0] != '/' {
		return errImmovable
	}
	end := m.scan.Offset()
	m.dst = jsonscan.AppendString(append(m.dst, m.text[m.copied:end-len(raw)]...), m.to+target)
	m.copied = end
	return nil
}
