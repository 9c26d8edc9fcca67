package server

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/schema"
)

// A form is what a person is asked to fill in: T's fields, as the client may
// show them. MCP 2025-11-25, client/elicitation: a flat object of primitive
// values.
type form[T any] struct {
	*schema.Decoder[T]
	requested json.RawMessage
}

// formOf returns T's form, which the server keeps once it is made.
func formOf[T any](s *Server) (*form[T], error) {
	key := reflect.TypeFor[T]()
	if known, ok := s.forms.Load(key); ok {
		return known.(*form[T]), nil
	}
	made, err := newForm[T]()
	if err != nil {
		return nil, fmt.Errorf("a form of %v: %w", key, err)
	}
	s.forms.Store(key, made)
	return made, nil
}

func newForm[T any]() (*form[T], error) {
	decoder, err := schema.NewDecoder[T](nil)
	if err != nil {
		return nil, err
	}
	object, err := jsonscan.ReadObject(decoder.Schema())
	if err != nil {
		return nil, err
	}
	if properties := object.Get("properties"); properties != nil {
		fields, err := jsonscan.ReadObject(properties)
		if err != nil {
			return nil, err
		}
		for field := range fields.All() {
			if err := checkPrimitive(field); err != nil {
				return nil, err
			}
		}
	}
	requested, err := jsonscan.Splice(nil, decoder.Schema(), jsonscan.Edit{Name: "additionalProperties"})
	return &form[T]{decoder, requested}, err
}

// checkPrimitive refuses a field that a client cannot ask for.
func checkPrimitive(field jsonscan.Member) error {
	described, err := jsonscan.ReadObject(field.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", field.Name(), err)
	}
	switch kind := string(described.Get("type")); kind {
	case `"string"`, `"number"`, `"integer"`, `"boolean"`, `"array"`:
		return nil
	default:
		return fmt.Errorf("field %q: a form holds strings, numbers, booleans and lists of strings only, not %s", field.Name(), kind)
	}
}
