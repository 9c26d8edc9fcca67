package server

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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
	enums, err := enumsOf(t)
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
		f.list = append(f.list, field{
			name: name, index: sf.Index, set: set, values: enums[name],
			description: sf.Tag.Get("jsonschema_description"),
			optional:    sf.Type.Kind() == reflect.Pointer || strings.Contains(options, "omit"),
		})
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
			if !field.optional {
				return fmt.Errorf("missing %q (accepted: %s)", field.name, strings.Join(f.names(), ", "))
			}
			continue
		}
		if i := slices.IndexFunc(values, field.lacks); i >= 0 {
			return fmt.Errorf("%q: expected one of %s, got %.80q", field.name, strings.Join(field.values, ", "), values[i])
		}
		if err := field.set(v.FieldByIndex(field.index), values); err != nil {
			return fmt.Errorf("%q: expected %w", field.name, err)
		}
	}
	return nil
}

// lacks says whether a value is none that the field may have.
func (f *field) lacks(value string) bool { return f.values != nil && !slices.Contains(f.values, value) }

// enumsOf are the values of the fields that may have some only, by the fields' names:
// those of a jsonschema tag or of a method EnumValues.
func enumsOf(t reflect.Type) (map[string][]string, error) {
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
	enums := make(map[string][]string)
	for property := range properties.All() {
		var about struct{ Enum []json.RawMessage }
		if err := json.Unmarshal(property.Value, &about); err != nil {
			return nil, err
		}
		for _, value := range about.Enum {
			text := string(value)
			if jsonscan.KindOf(value) == jsonscan.String {
				text = jsonscan.Unquote(value)
			}
			name := jsonscan.Unquote(property.Key)
			enums[name] = append(enums[name], text)
		}
	}
	return enums, nil
}

// setterOf returns what puts strings into a value of the type.
func setterOf(t reflect.Type) (func(reflect.Value, []string) error, error) {
	if t.Kind() == reflect.Pointer {
		set, err := setterOf(t.Elem())
		if err != nil {
			return nil, err
		}
		return func(v reflect.Value, values []string) error {
			v.Set(reflect.New(t.Elem()))
			return set(v.Elem(), values)
		}, nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return single(func(v reflect.Value, s string) error {
			return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
		}), nil
	}
	switch t.Kind() {
	case reflect.String:
		return single(func(v reflect.Value, s string) error { v.SetString(s); return nil }), nil
	case reflect.Bool:
		return single(setBool), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return single(setInt), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return single(setUint), nil
	case reflect.Float32, reflect.Float64:
		return single(setFloat), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return func(v reflect.Value, values []string) error {
				v.Set(reflect.ValueOf(values).Convert(t))
				return nil
			}, nil
		}
	}
	return nil, fmt.Errorf("%v cannot hold a string's value", t)
}

func single(set func(reflect.Value, string) error) func(reflect.Value, []string) error {
	return func(v reflect.Value, values []string) error { return set(v, strings.Join(values, ",")) }
}

func setBool(v reflect.Value, s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("true or false, got %.80q", s)
	}
	v.SetBool(b)
	return nil
}

func setInt(v reflect.Value, s string) error {
	n, err := strconv.ParseInt(s, 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("an integer of %d bits, got %.80q", v.Type().Bits(), s)
	}
	v.SetInt(n)
	return nil
}

func setUint(v reflect.Value, s string) error {
	n, err := strconv.ParseUint(s, 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("an integer of %d bits, not negative, got %.80q", v.Type().Bits(), s)
	}
	v.SetUint(n)
	return nil
}

func setFloat(v reflect.Value, s string) error {
	n, err := strconv.ParseFloat(s, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("a number, got %.80q", s)
	}
	v.SetFloat(n)
	return nil
}
