package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// SchemaProvider is implemented by types that return their own schema, a JSON object. [ForType] and
// [ForOutput] look for it on each type. Without it, they derive the schema from the Go type. The method is
// called on a zero value. A reference in the schema is resolved against the document that the schema
// becomes part of.
type SchemaProvider interface {
	JSONSchema() json.RawMessage
}

// Optional methods of types that the library github.com/invopop/jsonschema defines. [ForType] and
// [ForOutput] look for them on the zero value of each type. Without them, they use the type, its tags and the
// name of the field.
type (
	librarySchema interface{ JSONSchema() *jsonschema.Schema }       // the schema of the type
	typeAlias     interface{ JSONSchemaAlias() any }                 // a value of the type to describe instead
	typeExtender  interface{ JSONSchemaExtend(*jsonschema.Schema) }  // changes the schema of the type
	fieldAlias    interface{ JSONSchemaProperty(name string) any }   // the same for a field
	fieldDocs     interface{ GetFieldDocString(name string) string } // the description of a field
)

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
//     integer keys are integers, and those of a map with keys of an enumeration are its values.
//   - time.Duration is an integer, the number of nanoseconds, as in encoding/json. The description of
//     a field replaces the one that says so.
//   - json.Number is a number, big.Int an integer, url.URL a string with the format uri (uri-reference for
//     [ForOutput]), and a type UUID of 16 bytes with text methods, such as of github.com/google/uuid, a string with
//     the format uuid.
//   - A type with the method EnumValues() []T accepts only these values. A [SchemaProvider] returns
//     its own schema.
//   - Types that contain themselves are in $defs, under the name of the type, with the package in front
//     where two names would be equal. The root is also written in place. All other types are described in
//     place, since many programs ignore $defs. Only if the schema would have more than 16 KiB, structs that
//     occur twice are in $defs too.
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
// These types have no schema: chan, func and complex types; pointers that point to themselves; interfaces with
// methods, which cannot be decoded; and structs that the JSON library refuses, such as one with a json tag at an
// unexported field.
func ForType(t reflect.Type) (json.RawMessage, error) { return forType(t, mode{}) }

// ForOutput is [ForType] for values that are encoded, such as results. It differs where encoding
// differs: a field that is a pointer may be null, unless it has omitempty or omitzero; fields of an
// embedded pointer are not required; and an interface with methods may be anything.
func ForOutput(t reflect.Type) (json.RawMessage, error) { return forType(t, mode{output: true}) }

// A mode is what differs between schemas of the same type.
type mode struct {
	output        bool // the schema describes encoded values
	requiredByTag bool // see [DecoderOptions]
}

func forType(t reflect.Type, mode mode) (raw json.RawMessage, err error) {
	// Methods of the types may panic. A reflection panics with a TypeError.
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *TypeError:
			raw, err = nil, p
		default:
			raw, err = nil, &TypeError{Path: fmt.Sprint(t), Reason: fmt.Sprintf("reflecting panicked: %v", p)}
		}
	}()
	if t == nil {
		return nil, &TypeError{Path: "nil", Reason: "expected a type"}
	}
	r := &reflection{mode: mode, root: deref(t), numbers: map[reflect.Type]int{}}
	return newDocument(r, r.schema(r.root, typePath(r.root))).encode()
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

// A reflection makes the schemas of one type and of the types that it contains, in one walk. The Reflector of the
// library invopop/jsonschema cannot do so, neither in v0.13 nor in v0.14: it flattens embedded structs without the
// rules of the JSON library, reads keywords in descriptions, ignores keywords that do not fit, and passes no path to a
// hook, which errors need.
type reflection struct {
	mode
	root        reflect.Type
	path        string // of the type that is described, for messages
	numbers     map[reflect.Type]int
	definitions []*definition // by number
	shared      []*definition // those that may be in $defs, in order of appearance
}

// A definition is the schema of a named type. Where it is written, in place or in $defs, is known only
// at the end of the walk, and so is its name there.
type definition struct {
	typ         reflect.Type
	schema      *jsonschema.Schema // nil before the type is described
	isOpen      bool               // the type is being described; it may contain itself
	isUsed      bool
	isRecursive bool   // the type contains itself, and is in $defs
	name        string // in $defs; "" if the type is described in place
}

// number returns the number of the definition of a type, and "" for a type without a name. It is not the name of the type,
// since types of several packages and functions can have the same name.
func (r *reflection) number(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	n, ok := r.numbers[t]
	if !ok {
		n = len(r.definitions)
		r.numbers[t] = n
		r.definitions = append(r.definitions, &definition{typ: t})
	}
	return strconv.Itoa(n)
}

const (
	// referencePrefix begins a reference to a definition in a written schema.
	referencePrefix = "#/$defs/"
	// typePrefix begins a reference to the number of a definition in a schema that is not written yet. No schema that a
	// type returns has such a reference, because it is no URI.
	typePrefix = "\x00"
)

// referred returns the definition that s refers to, or nil. A reference in a schema of a SchemaProvider
// may have another target.
func (r *reflection) referred(s *jsonschema.Schema) *definition {
	number, ok := strings.CutPrefix(s.Ref, typePrefix)
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || n >= len(r.definitions) {
		return nil
	}
	if def := r.definitions[n]; def.schema != nil || def.isOpen {
		return def
	}
	return nil
}

func (r *reflection) fail(reason string) {
	panic(&TypeError{Path: r.path, Reason: reason})
}

// schema returns a new schema of the type at a path, which the tags of a field may change.
func (r *reflection) schema(t reflect.Type, path string) *jsonschema.Schema {
	outer := r.path
	r.path = path
	t = deref(t)
	for range maxPointers {
		alias, ok := reflect.TypeAssert[typeAlias](reflect.Zero(t))
		if !ok {
			break
		}
		t = deref(reflect.TypeOf(alias.JSONSchemaAlias()))
	}
	s := r.describe(t)
	r.path = outer
	def := r.referred(s)
	if def == nil {
		return s
	}
	isRepeated := def.isUsed && def.typ.Kind() == reflect.Struct
	if (isRepeated || def.isOpen) && !slices.Contains(r.shared, def) {
		r.shared = append(r.shared, def)
	}
	def.isRecursive = def.isRecursive || def.isOpen
	def.isUsed = true
	return s
}

// describe returns a new schema of a type, or a reference to its definition.
func (r *reflection) describe(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[url.URL]() {
		s := &jsonschema.Schema{Type: "string", Format: "uri"}
		if r.output {
			s.Format = "uri-reference" // it may be relative
		}
		return s
	}
	s, err := primitiveSchema(t)
	if err != nil {
		r.fail(err.Error())
	}
	if s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() > 0 && !r.output {
			r.fail("nothing can be read into " + t.String() + ", an interface with methods")
		}
		return &jsonschema.Schema{}
	}
	if provider, ok := reflect.TypeAssert[librarySchema](reflect.Zero(t)); ok {
		return r.provided(t, provider.JSONSchema())
	}
	switch t.Kind() {
	case reflect.Bool:
		return extended(t, &jsonschema.Schema{Type: "boolean"})
	case reflect.String:
		return extended(t, &jsonschema.Schema{Type: "string"})
	case reflect.Float32, reflect.Float64:
		return extended(t, &jsonschema.Schema{Type: "number"})
	case reflect.Int, reflect.Int64:
		return extended(t, &jsonschema.Schema{Type: "integer"})
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		return r.composite(t)
	}
	r.fail("the type " + t.String() + " has no JSON form")
	return nil
}

// provided returns the schema s that a type has returned, or a reference to it as the definition of the type.
func (r *reflection) provided(t reflect.Type, s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		r.fail("JSONSchema of " + t.String() + " returned nil")
	}
	number := r.number(t)
	if number == "" {
		s = clone(s)
		s.Definitions, s.Version = nil, ""
		return s
	}
	r.definitions[r.numbers[t]].schema = s
	return &jsonschema.Schema{Ref: typePrefix + number}
}

// composite describes a struct, list or map.
func (r *reflection) composite(t reflect.Type) *jsonschema.Schema {
	number := r.number(t)
	if number == "" {
		return r.body(t)
	}
	def := r.definitions[r.numbers[t]]
	isStruct := t.Kind() == reflect.Struct
	if !def.isOpen && (def.schema == nil || !isStruct) {
		def.isOpen = true
		body := r.body(t)
		def.isOpen = false
		def.schema = body
		if !isStruct { // only structs, and types that contain themselves, have a definition
			return clone(body)
		}
	}
	return &jsonschema.Schema{Ref: typePrefix + number}
}

// body describes a struct, list or map in place.
func (r *reflection) body(t reflect.Type) *jsonschema.Schema {
	return extended(t, r.membersOf(t))
}

// extended returns the schema of a type after the type has changed it.
func extended(t reflect.Type, s *jsonschema.Schema) *jsonschema.Schema {
	if extender, ok := reflect.TypeAssert[typeExtender](reflect.Zero(t)); ok {
		extender.JSONSchemaExtend(s)
	}
	return s
}

func (r *reflection) membersOf(t reflect.Type) *jsonschema.Schema {
	switch t.Kind() {
	case reflect.Struct:
		return r.structSchema(t)
	case reflect.Map:
		pattern := keyPattern(t.Key())
		if pattern == "" && t.Key().Kind() != reflect.String && !hasText(t.Key()) {
			r.fail("keys of a JSON object are strings, integers or types with text methods, not " + t.Key().String())
		}
		s := &jsonschema.Schema{Type: "object", AdditionalProperties: r.schema(t.Elem(), r.path+"[]")}
		if hasEnum(t.Key()) {
			s.PropertyNames = r.keyNames(t.Key())
			return s
		}
		if pattern != "" {
			s.PatternProperties = map[string]*jsonschema.Schema{pattern: s.AdditionalProperties}
			s.AdditionalProperties = jsonschema.FalseSchema
		}
		return s
	}
	s := &jsonschema.Schema{Type: "array", Items: r.schema(t.Elem(), r.path+"[]")}
	if t.Kind() == reflect.Array {
		length := uint64(t.Len())
		s.MinItems, s.MaxItems = &length, &length
	}
	return s
}

// keyNames returns the schema of the names of members of a map whose keys are an enumeration.
func (r *reflection) keyNames(key reflect.Type) *jsonschema.Schema {
	s, err := enumSchema(key)
	if err != nil {
		r.fail(err.Error())
	}
	for i, value := range s.Enum {
		if raw, _ := value.(json.RawMessage); jsonscan.KindOf(raw) != jsonscan.String {
			s.Enum[i] = json.RawMessage(jsonscan.AppendText(nil, raw)) // a key is a string
		}
	}
	return &jsonschema.Schema{Enum: s.Enum}
}

func (r *reflection) structSchema(t reflect.Type) *jsonschema.Schema {
	info, err := newStructInfo(t, r.path, r.mode)
	if err != nil {
		panic(err)
	}
	// Arguments without members are not decoded.
	if reason := refusal(t); reason != "" && (r.output || t != r.root || !isMemberless(t)) {
		r.fail(reason)
	}
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range info.fields {
		property := r.schema(f.typ, f.path)
		if err := applyTags(property, f); err != nil {
			panic(err)
		}
		if f.orNull {
			setExtra(property, nullable, true)
		}
		s.Properties.Set(f.name, property)
		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}
	if info.others != nil {
		s.AdditionalProperties = r.schema(info.others, r.path+"[]")
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

// maxPointers is the number of pointers that deref follows. A type such as type P *P has no end.
const maxPointers = 32

// deref returns what t points to. The result is a pointer if there are more than maxPointers.
func deref(t reflect.Type) reflect.Type {
	for range maxPointers {
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	return t
}
