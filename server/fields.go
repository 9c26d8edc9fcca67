package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/schema"
)

// fields decodes named strings, of a prompt's arguments or a URI template's
// variables, into a struct of strings, numbers, booleans, lists of strings or
// encoding.TextUnmarshaler, by their json names, or into a map[string]string. It
// is made once and safe for concurrent use.
type fields struct {
	list []field
	open bool // it is a map and takes any name
}

type field struct {
	name        string
	description string
	optional    bool
	values      []string // all that it may have, nil if that is not limited
	fallback    []string // what it has when it is absent, nil if nothing
	index       []int
	set         func(reflect.Value, []string) error
}

func newFields(t reflect.Type) (*fields, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return &fields{open: true}, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v must be a struct or map[string]string", t)
	}
	tagged, err := taggedOf(t)
	if err != nil {
		return nil, err
	}
	f := &fields{}
	for _, sf := range reflect.VisibleFields(t) {
		if sf.Anonymous || !sf.IsExported() {
			continue
		}
		if throughPointer(t, sf.Index) {
			return nil, fmt.Errorf("field %s: it must not be promoted from an embedded pointer", sf.Name)
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		set, err := setterOf(sf.Type)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", sf.Name, err)
		}
		tags := tagged[name]
		field := field{
			name: name, index: sf.Index, set: set, values: tags.enum, fallback: tags.fallback,
			description: sf.Tag.Get("jsonschema_description"),
			optional:    sf.Type.Kind() == reflect.Pointer || strings.Contains(options, "omit") || tags.fallback != nil,
		}
		if err := field.checkFallback(sf.Type); err != nil {
			return nil, fmt.Errorf("field %s: the default: expected %w", sf.Name, err)
		}
		f.list = append(f.list, field)
	}
	return f, nil
}

// throughPointer says whether a field is that of a struct embedded by a pointer, which
// would be nil.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// limited are the values of the fields that may have some only, by the fields' names.
func (f *fields) limited() map[string][]string {
	limited := make(map[string][]string)
	for _, field := range f.list {
		if field.values != nil {
			limited[field.name] = field.values
		}
	}
	return limited
}

func (f *fields) names() []string {
	names := make([]string, len(f.list))
	for i, field := range f.list {
		names[i] = field.name
	}
	return names
}

// decode takes the values by their names into the value that into points to; of
// gives none for a name that is absent.
func (f *fields) decode(into any, given []string, of func(name string) []string) error {
	v := reflect.ValueOf(into).Elem()
	if f.open {
		m := make(map[string]string, len(given))
		for _, name := range given {
			m[name] = strings.Join(of(name), ",")
		}
		v.Set(reflect.ValueOf(m))
		return nil
	}
	for _, name := range given {
		if !slices.ContainsFunc(f.list, func(field field) bool { return field.name == name }) {
			return fmt.Errorf("unknown %q (accepted: %s)", name, strings.Join(f.names(), ", "))
		}
	}
	for i := range f.list {
		field := &f.list[i]
		values := of(field.name)
		if values == nil {
			values = slices.Clone(field.fallback) // a list becomes the function's
		}
		if values == nil {
			if !field.optional {
				return fmt.Errorf("missing %q (accepted: %s)", field.name, strings.Join(f.names(), ", "))
			}
			continue
		}
		if err := field.take(v.FieldByIndex(field.index), values); err != nil {
			return fmt.Errorf("%q: expected %w", field.name, err)
		}
	}
	return nil
}

// take puts strings into v, which is the field's. The error says what was expected.
func (f *field) take(v reflect.Value, values []string) error {
	if i := slices.IndexFunc(values, f.lacks); i >= 0 {
		return fmt.Errorf("one of %s, got %.80q", strings.Join(f.values, ", "), values[i])
	}
	return f.set(v, values)
}

// lacks says whether a value is none that the field may have.
func (f *field) lacks(value string) bool { return f.values != nil && !slices.Contains(f.values, value) }

func (f *field) checkFallback(t reflect.Type) error {
	if f.fallback == nil {
		return nil
	}
	return f.take(reflect.New(t).Elem(), f.fallback)
}

// tagged is what the jsonschema tag of a field, or a method EnumValues, says of its
// values.
type tagged struct{ enum, fallback []string }

// taggedOf finds what is said of the fields, by their names.
func taggedOf(t reflect.Type) (map[string]tagged, error) {
	reflected, err := schema.ForType(t)
	if err != nil {
		return nil, err
	}
	root, err := jsonscan.ReadObject(reflected)
	if err != nil || root.Get("properties") == nil {
		return nil, err
	}
	properties, err := jsonscan.ReadObject(root.Get("properties"))
	if err != nil {
		return nil, err
	}
	found := make(map[string]tagged)
	for property := range properties.All() {
		var about struct {
			Enum    []json.RawMessage
			Default json.RawMessage
			Items   struct{ Enum []json.RawMessage }
		}
		if err := json.Unmarshal(property.Value, &about); err != nil {
			return nil, err
		}
		found[property.Name()] = tagged{
			enum:     asText(append(about.Enum, about.Items.Enum...)),
			fallback: asText(elements(about.Default)),
		}
	}
	return found, nil
}

// elements are those of a list; any other value is its only one.
func elements(value json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	switch {
	case value == nil:
		return nil
	case json.Unmarshal(value, &list) == nil:
		return list
	}
	return []json.RawMessage{value}
}

// asText are JSON values as a caller would write them.
func asText(values []json.RawMessage) []string {
	if values == nil {
		return nil
	}
	texts := make([]string, 0, len(values))
	for _, value := range values {
		if jsonscan.KindOf(value) == jsonscan.String {
			texts = append(texts, jsonscan.Unquote(value))
		} else {
			texts = append(texts, string(value))
		}
	}
	return texts
}
