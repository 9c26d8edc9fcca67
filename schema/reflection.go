package schema

import (
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"
)

// A reflection is the making of one schema. The reflecting library describes
// each named type once, under a number; completing puts right what it does not
// know about encoding and tags; a document decides what is written in place.
type reflection struct {
	structs   map[reflect.Type]*structShape
	reflector jsonschema.Reflector
	numbers   map[reflect.Type]int
	types     []reflect.Type // by number
	defs      map[string]*jsonschema.Schema
	completed map[string]bool
}

func newReflection(structs map[reflect.Type]*structShape) *reflection {
	r := &reflection{
		structs:   structs,
		numbers:   map[reflect.Type]int{},
		defs:      map[string]*jsonschema.Schema{},
		completed: map[string]bool{},
	}
	r.reflector = jsonschema.Reflector{Anonymous: true, Namer: r.number, Mapper: leafSchema}
	return r
}

// number names a type for the reflecting library. Types are told apart by
// identity, since their own names collide between packages and functions.
func (r *reflection) number(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	n, ok := r.numbers[t]
	if !ok {
		n = len(r.types)
		r.numbers[t] = n
		r.types = append(r.types, t)
	}
	return strconv.Itoa(n)
}

// referred returns the number of the type that s refers to.
func referred(s *jsonschema.Schema) (string, bool) {
	return strings.CutPrefix(s.Ref, "#/$defs/")
}

// schema describes t; what the description refers to is in r.defs.
func (r *reflection) schema(t reflect.Type) (*jsonschema.Schema, error) {
	s := r.reflector.ReflectFromType(t)
	for number, def := range s.Definitions {
		if _, ok := r.defs[number]; !ok {
			r.defs[number] = def
		}
	}
	s.Definitions, s.Version = nil, ""
	return r.complete(s, t)
}

// complete puts s, which describes t, right, and returns it or what stands in
// its place.
func (r *reflection) complete(s *jsonschema.Schema, t reflect.Type) (*jsonschema.Schema, error) {
	t = deref(t)
	if describesItself(t) {
		return s, nil
	}
	number, ok := referred(s)
	if !ok {
		return s, r.completeBody(s, t)
	}
	def := r.defs[number]
	if !r.completed[number] {
		r.completed[number] = true
		if err := r.completeBody(def, t); err != nil {
			return nil, err
		}
	}
	if t.Kind() == reflect.Struct {
		return s, nil
	}
	// Only structs are worth a definition, and a copy can take a field's tags.
	return clone(def), nil
}

func (r *reflection) completeBody(s *jsonschema.Schema, t reflect.Type) (err error) {
	switch t.Kind() {
	case reflect.Struct:
		return r.completeStruct(s, r.structs[t])
	case reflect.Slice, reflect.Array:
		s.Items, err = r.complete(s.Items, t.Elem())
		return err
	case reflect.Map:
		s.AdditionalProperties, s.PatternProperties = nil, nil
		elem, err := r.schema(t.Elem())
		if err != nil {
			return err
		}
		if pattern := keyPattern(t.Key()); pattern != "" {
			s.PatternProperties = map[string]*jsonschema.Schema{pattern: elem}
			s.AdditionalProperties = jsonschema.FalseSchema
		} else {
			s.AdditionalProperties = elem
		}
	}
	return nil
}

func (r *reflection) completeStruct(s *jsonschema.Schema, shape *structShape) error {
	reflected := s.Properties
	if !isInOrder(s, shape) {
		s.Properties = jsonschema.NewProperties()
	}
	s.Required = s.Required[:0]
	for i := range shape.fields {
		f := &shape.fields[i]
		var property *jsonschema.Schema
		var err error
		if known, ok := reflected.Get(f.name); ok && !f.shadows {
			property, err = r.complete(untagged(known), f.typ)
		} else {
			property, err = r.schema(f.typ)
		}
		if err == nil {
			err = applyTag(property, f)
		}
		if err == nil && f.orNull {
			setExtra(property, nullable, true)
		}
		if err != nil {
			return err
		}
		s.Properties.Set(f.name, property)
		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}
	if shape.others == nil {
		return nil
	}
	others, err := r.schema(shape.others)
	s.AdditionalProperties = others
	return err
}

// isInOrder says whether the properties that were reflected are the fields, in their order.
func isInOrder(s *jsonschema.Schema, shape *structShape) bool {
	if s.Properties.Len() != len(shape.fields) {
		return false
	}
	pair := s.Properties.Oldest()
	for i := range shape.fields {
		if pair.Key != shape.fields[i].name {
			return false
		}
		pair = pair.Next()
	}
	return true
}

// untagged takes back the wrapping that the library's own reading of
// nullable adds.
func untagged(s *jsonschema.Schema) *jsonschema.Schema {
	if len(s.OneOf) == 2 && s.OneOf[1].Type == "null" && s.Type == "" {
		return s.OneOf[0]
	}
	return s
}

// clone copies s as deeply as tags change it.
func clone(s *jsonschema.Schema) *jsonschema.Schema {
	c := *s
	c.Extras = maps.Clone(s.Extras)
	if s.Items != nil {
		items := *s.Items
		c.Items = &items
	}
	return &c
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
