package server

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// A form is what a person is asked to fill in to make a T, as the client may show it.
// MCP 2025-11-25, client/elicitation: a flat object of primitive values, and of
// choices among several.
type form[T any] struct {
	decode    func(content json.RawMessage) (T, error)
	requested json.RawMessage
}

// answerOf is the form of what is no struct: it has one field.
type answerOf[T any] struct {
	Value T `json:"value"`
}

// formOf returns T's form, which the server, if there is one, keeps.
func formOf[T any](s *Server) (*form[T], error) {
	key := reflect.TypeFor[T]()
	if s == nil {
		return newForm[T]()
	}
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
	fields, err := schema.NewDecoder[T](nil)
	if err != nil {
		return nil, err
	}
	if isObject(fields.Schema()) {
		requested, err := requestedSchema(fields.Schema())
		return &form[T]{fields.Decode, requested}, err
	}
	field, err := schema.NewDecoder[answerOf[T]](nil)
	if err != nil {
		return nil, err
	}
	requested, err := requestedSchema(field.Schema())
	return &form[T]{func(content json.RawMessage) (T, error) {
		answer, err := field.Decode(content)
		return answer.Value, err
	}, requested}, err
}

// isObject says whether all that a schema allows are objects.
func isObject(of json.RawMessage) bool {
	root, err := jsonscan.ReadObject(of)
	return err == nil && string(root.Get("type")) == `"object"`
}

// requestedSchema is a schema as a client is asked with it. It refuses what a client
// cannot ask for.
func requestedSchema(of json.RawMessage) (json.RawMessage, error) {
	requested, err := jsonscan.Splice(nil, of, jsonscan.Edit{Name: "additionalProperties"})
	if err != nil {
		return nil, err
	}
	parsed, err := mcp.ParseElicitSchema(requested)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, formsHold)
	}
	for _, field := range parsed.Fields {
		switch s := field.Schema.(type) {
		case *mcp.UnknownSchema:
			return nil, fmt.Errorf("field %q: %s", field.Name, formsHold)
		case *mcp.EnumSchema:
			if len(s.Options) == 0 {
				return nil, fmt.Errorf("field %q: a list needs an enum; %s", field.Name, formsHold)
			}
		}
	}
	return requested, nil
}

const formsHold = "a form holds strings, numbers, booleans and lists of strings to choose from"
