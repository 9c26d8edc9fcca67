package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"
)

// SchemaProvider is implemented by types that return their own schema, a JSON object. The method is
// called on a zero value. A reference in the schema is resolved against the document that the schema
// becomes part of.
type SchemaProvider interface {
	JSONSchema() json.RawMessage
}

// For returns the JSON Schema of T; see [ForType].
func For[T any]() (json.RawMessage, error) {
	return ForType(reflect.TypeFor[T]())
}

// ForType returns the JSON Schema 2020-12 of t, or a [*TypeError] that names the field without a
// schema. The same type always gives the same bytes. Nothing is cached: keep the result.
//
// The schema describes the JSON that github.com/go-json-experiment/json decodes. See [ForOutput] for
// the JSON that it encodes.
//
//   - A struct is an object that allows no other members, in the order of the fields. Embedded
//     structs are flattened unless they have a JSON name. Blank and unexported fields are ignored. A
//     field is required unless it is a pointer, has omitempty or omitzero, or has a default.
//   - Integers of a fixed size, and all unsigned integers, have their range.
//   - []byte and [N]byte are base64, time.Time is a date-time, slog.Level and a type with text methods
//     are strings, and a type with JSON methods may be anything. The names of members of a map with
//     integer keys are integers.
//   - time.Duration is an integer, the number of nanoseconds, as in encoding/json. The description of
//     a field replaces the one that says so.
//   - A type with the method EnumValues() []T accepts only these values. A [SchemaProvider] returns
//     its own schema.
//   - Types that occur once are described in place. Structs that occur twice, and types that contain
//     themselves, are in $defs, under the name of the type, with the package in front where two names
//     would be equal.
//
// The tag `jsonschema:"…"` of a field is a description, as in github.com/google/jsonschema-go, or a list
// of keywords. It is a list if it begins with a word and =, or if it is one of the words required,
// nullable and uniqueItems or begins with one and a comma without a space. In a description, commas
// need no escape. The tags jsonschema_description and description hold a description too; of several,
// the first in this order counts: jsonschema, jsonschema_description, description.
//
// The keywords are separated by commas without spaces: title, description, enum, default, example,
// format, pattern, minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum,
// multipleOf, minItems, maxItems, uniqueItems, minProperties, maxProperties, any x-keyword=text, and
// the words required and nullable. enum and example may be repeated, and default too on a list. A comma
// inside a value is written \\,. On a list, keywords that are not about lists apply to its items. A
// keyword that is misspelt, does not fit the type of the field or follows a description is an error.
//
// These types have no schema: chan, func and complex types; url.URL, which has no JSON form of its own;
// interfaces with methods, which cannot be decoded; and structs that the JSON library refuses, such as
// one with a json tag at an unexported field.
func ForType(t reflect.Type) (json.RawMessage, error) { return forType(t, false) }

// ForOutput is [ForType] for values that are encoded, such as results. It differs where encoding
// differs: a field that is a pointer may be null, unless it has omitempty or omitzero; fields of an
// embedded pointer are not required; and an interface with methods may be anything.
func ForOutput(t reflect.Type) (json.RawMessage, error) { return forType(t, true) }

func forType(t reflect.Type, output bool) (raw json.RawMessage, err error) {
	// The reflection library and methods of the types panic on types that they cannot handle.
	defer func() {
		if p := recover(); p != nil {
			raw, err = nil, &TypeError{Path: fmt.Sprint(t), Reason: fmt.Sprintf("reflecting panicked: %v", p)}
		}
	}()
	if t == nil {
		return nil, &TypeError{Path: "nil", Reason: "expected a type"}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	in := inspector{output: output, structs: map[reflect.Type]*structInfo{}, seen: map[reflect.Type]bool{}}
	if err := in.inspect(t, typePath(t)); err != nil {
		return nil, err
	}
	r := newReflection(in.structs)
	root, err := r.schema(t)
	if err != nil {
		return nil, err
	}
	return newDocument(r, root).encode()
}

// TypeError reports a Go type that has no JSON Schema.
type TypeError struct {
	Path   string // the Go path of the type or field, such as Order.Items[].Price
	Reason string
}

// Error returns the path and the reason.
func (e *TypeError) Error() string {
	return "schema: " + e.Path + ": " + e.Reason
}

// A reflection makes the schemas of one type and of the types that it contains. The library
// invopop/jsonschema describes each named type once, under a number. The complete methods correct what
// the library does not know about encoding and tags.
type reflection struct {
	structs   map[reflect.Type]*structInfo
	reflector jsonschema.Reflector
	numbers   map[reflect.Type]int
	types     []reflect.Type // by number
	defs      map[string]*jsonschema.Schema
	completed map[string]bool
}

func newReflection(structs map[reflect.Type]*structInfo) *reflection {
	r := &reflection{
		structs:   structs,
		numbers:   map[reflect.Type]int{},
		defs:      map[string]*jsonschema.Schema{},
		completed: map[string]bool{},
	}
	r.reflector = jsonschema.Reflector{Anonymous: true, Namer: r.number, Mapper: primitiveSchema}
	return r
}

// number returns the name of a type for the library. It is not the name of the type, since types of
// several packages and functions can have the same name.
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

// schema returns the schema of t. It adds the schemas to which that refers to r.defs.
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

// complete corrects s, the schema of t, and returns s or its replacement.
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
	// Only structs get a definition. The tags of a field may change the copy.
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

func (r *reflection) completeStruct(s *jsonschema.Schema, info *structInfo) error {
	reflected := s.Properties
	if !isInOrder(s, info) {
		s.Properties = jsonschema.NewProperties()
	}
	s.Required = s.Required[:0]
	s.OneOf, s.AnyOf = nil, nil // from descriptions in which the library reads keywords
	for i := range info.fields {
		f := &info.fields[i]
		var property *jsonschema.Schema
		var err error
		if known, ok := reflected.Get(f.name); ok && !f.shadows && !f.untagged {
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
	if info.others == nil {
		return nil
	}
	others, err := r.schema(info.others)
	s.AdditionalProperties = others
	return err
}

// isInOrder reports whether the reflected properties are the fields, in their order.
func isInOrder(s *jsonschema.Schema, info *structInfo) bool {
	if s.Properties.Len() != len(info.fields) {
		return false
	}
	pair := s.Properties.Oldest()
	for i := range info.fields {
		if pair.Key != info.fields[i].name {
			return false
		}
		pair = pair.Next()
	}
	return true
}

// untagged removes the oneOf that the library adds for nullable.
func untagged(s *jsonschema.Schema) *jsonschema.Schema {
	if len(s.OneOf) == 2 && s.OneOf[1].Type == "null" && s.Type == "" {
		return s.OneOf[0]
	}
	return s
}

// clone copies s with the parts that tags change.
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
