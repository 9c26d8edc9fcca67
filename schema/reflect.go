package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Schemer is implemented by types that bring their own schema. The method is
// called on a zero value. It returns a JSON object that stands by itself: a
// reference in it is resolved against the whole document it becomes part of.
type Schemer interface {
	JSONSchema() json.RawMessage
}

// For returns the JSON Schema of T; see [ForType].
func For[T any]() (json.RawMessage, error) {
	return ForType(reflect.TypeFor[T]())
}

// ForType returns the JSON Schema 2020-12 of t, or a [*TypeError] that names
// the field that has none. The same type always gives the same bytes. Nothing
// is cached: keep the result.
//
// The schema describes what github.com/go-json-experiment/json reads, see
// [ForWritten] for what it writes:
//
//   - A struct is an object that allows no other members, in the order of the
//     fields. Embedded structs are flattened unless they have a JSON name.
//     Blank and unexported fields are left out. A field is required unless it
//     is a pointer, has omitempty or omitzero, or has a default.
//   - Integers of a fixed size, and all unsigned ones, have their range.
//   - []byte and [N]byte are base64, time.Time is a date-time, a type with text
//     methods is a string, a type with JSON methods may be anything. Maps with
//     keys of integers have such members only.
//   - A type with the method EnumValues() []T accepts these values only, and a
//     [Schemer] says all for itself.
//   - Types that occur once are described in place. Structs that occur twice,
//     and types that contain themselves, are kept in $defs, under the name of
//     the type, with the package in front where two would be alike.
//
// A field's tag `jsonschema:"…"` adds keywords, separated by commas: title,
// description, enum, default, example, format, pattern, minLength, maxLength,
// minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minItems,
// maxItems, uniqueItems, minProperties, maxProperties, any x-keyword=text, and
// the words required and nullable. enum and example may be repeated, and so
// may default on a list. A comma inside a value is written \\,. On a list,
// keywords that are not about lists apply to its items. Free text is better
// placed in the tag jsonschema_description, where commas need no escape. A
// keyword that is misspelt or does not fit the field's type is an error.
//
// chan, func and complex types have no schema, nor have time.Duration and
// url.URL, which have no JSON form of their own, and interfaces with methods,
// which nothing can be read into.
func ForType(t reflect.Type) (json.RawMessage, error) { return forType(t, false) }

// ForWritten is [ForType] for values that are written. It differs where writing does: a
// field that is a pointer may be null, as a nil pointer is written, unless it has
// omitempty or omitzero; fields of an embedded pointer are not required; and an
// interface with methods holds anything.
func ForWritten(t reflect.Type) (json.RawMessage, error) { return forType(t, true) }

func forType(t reflect.Type, written bool) (raw json.RawMessage, err error) {
	// The reflecting library, and methods of the types themselves, panic on
	// what they cannot handle; a schema must never take the process down.
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
	shapes := inspection{written: written, structs: map[reflect.Type]*structShape{}, met: map[reflect.Type]bool{}}
	if err := shapes.inspect(t, typePath(t)); err != nil {
		return nil, err
	}
	r := newReflection(shapes.structs)
	root, err := r.schema(t)
	if err != nil {
		return nil, err
	}
	return newDocument(r, root).encode()
}

// TypeError says that a Go type has no JSON Schema.
type TypeError struct {
	Path   string // the Go path of the type or field, such as Order.Items[].Price
	Reason string
}

// Error says where, and what.
func (e *TypeError) Error() string {
	return "schema: " + e.Path + ": " + e.Reason
}
