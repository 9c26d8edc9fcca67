package server

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// maxProblems is how many problems an error lists, as many as an error of package schema.
const maxProblems = 32

// A fields decodes named strings into a struct of strings, numbers, booleans, lists of strings or
// encoding.TextUnmarshaler, or into a map[string]string. The strings are the arguments of a prompt,
// or the variables of a URI template. It may be used concurrently.
type fields struct {
	list     []field
	isMap    bool // the type is a map
	anyNames bool // the map may have names that are not in list
}

type field struct {
	name          string
	description   string
	optional      bool
	values        []string // allowed values; nil if all are
	defaultValues []string // used if the field is absent; nil if there is no default
	index         []int
	isList        bool // the field is a list of strings
	set           func(reflect.Value, []string) error
}

func newFields(t reflect.Type) (*fields, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return &fields{isMap: true, anyNames: true}, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v must be a struct or map[string]string", t)
	}
	tagged, err := fieldSchemas(t)
	if err != nil {
		return nil, err
	}
	f := &fields{}
	for _, sf := range reflect.VisibleFields(t) {
		if sf.Anonymous || !sf.IsExported() {
			continue
		}
		if isThroughPointer(t, sf.Index) {
			return nil, fmt.Errorf("field %s: it must not be promoted from an embedded pointer", sf.Name)
		}
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		set, err := setterFor(sf.Type)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", sf.Name, err)
		}
		tags := tagged[name]
		field := field{
			name: name, index: sf.Index, isList: isStrings(sf.Type), set: set, values: tags.enum, defaultValues: tags.defaultValues,
			description: tags.description, optional: !tags.required || tags.defaultValues != nil,
		}
		if err := field.checkDefault(sf.Type); err != nil {
			return nil, fmt.Errorf("field %s: the default: expected %w", sf.Name, err)
		}
		f.list = append(f.list, field)
	}
	return f, nil
}

// declare limits a map to arguments that are known only at run time.
func (f *fields) declare(arguments []mcp.PromptArgument) error {
	if !f.isMap {
		return errors.New("Prompt.Arguments is for a function that takes a map[string]string")
	}
	f.anyNames = false
	for _, a := range arguments {
		if a.Name == "" || slices.Contains(f.names(), a.Name) {
			return fmt.Errorf("Prompt.Arguments: the name %q is empty or given twice", a.Name)
		}
		f.list = append(f.list, field{name: a.Name, optional: !a.Required})
	}
	return nil
}

// isThroughPointer reports whether a field belongs to a struct that is embedded by pointer, which
// would be nil.
func isThroughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// allowedValues returns the values of the fields with an enum, by name.
func (f *fields) allowedValues() map[string][]string {
	limited := make(map[string][]string)
	for _, field := range f.list {
		if field.values != nil {
			limited[field.name] = field.values
		}
	}
	return limited
}

func (f *fields) isOptional(name string) bool {
	return slices.ContainsFunc(f.list, func(field field) bool { return field.name == name && field.optional })
}

func (f *fields) isList(name string) bool {
	return slices.ContainsFunc(f.list, func(field field) bool { return field.name == name && field.isList })
}

// isStrings reports whether a type is a list of strings, or a pointer to one.
func isStrings(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String
}

func (f *fields) names() []string {
	names := make([]string, len(f.list))
	for i, field := range f.list {
		names[i] = field.name
	}
	return names
}

// decode sets the fields of the struct, or the map, that into points to. of returns the values for
// a name, or nil. The error lists all problems, up to 32.
func (f *fields) decode(into any, given []string, of func(name string) []string) error {
	v := reflect.ValueOf(into).Elem()
	if f.isMap {
		m := make(map[string]string, len(given))
		for _, name := range given {
			m[name] = strings.Join(of(name), ",")
		}
		v.Set(reflect.ValueOf(m))
	}
	var problems []string
	for _, name := range given {
		if len(problems) == maxProblems || f.anyNames {
			break
		}
		if !slices.ContainsFunc(f.list, func(field field) bool { return field.name == name }) {
			problems = append(problems, fmt.Sprintf("unknown %s (accepted: %s)", jsonscan.Quote(name), strings.Join(f.names(), ", ")))
		}
	}
	for i := range f.list {
		field := &f.list[i]
		values := of(field.name)
		if values == nil {
			values = slices.Clone(field.defaultValues) // the function may change a list
		}
		switch {
		case values != nil && f.isMap:
		case values != nil:
			if err := field.setChecked(v.FieldByIndex(field.index), values); err != nil {
				problems = append(problems, fmt.Sprintf("%q: expected %v", field.name, err))
			}
		case !field.optional:
			problems = append(problems, fmt.Sprintf("missing %q (accepted: %s)", field.name, strings.Join(f.names(), ", ")))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems[:min(len(problems), maxProblems)], "; "))
}

// setChecked sets v to values, if they are allowed. The error says what was expected.
func (f *field) setChecked(v reflect.Value, values []string) error {
	if i := slices.IndexFunc(values, f.disallows); i >= 0 {
		return fmt.Errorf("one of %s, got %.80q", strings.Join(f.values, ", "), values[i])
	}
	return f.set(v, values)
}

// disallows reports whether the field has an enum without the value.
func (f *field) disallows(value string) bool {
	return f.values != nil && !slices.Contains(f.values, value)
}

func (f *field) checkDefault(t reflect.Type) error {
	if f.defaultValues == nil {
		return nil
	}
	return f.setChecked(reflect.New(t).Elem(), f.defaultValues)
}

// A fieldSchema has those parts of the schema of a field that restrict and describe a string.
type fieldSchema struct {
	description         string
	required            bool
	enum, defaultValues []string
}

// fieldSchemas returns the schemas of the fields of a struct, by name.
func fieldSchemas(t reflect.Type) (map[string]fieldSchema, error) {
	reflected, err := schema.ForType(t)
	if err != nil {
		return nil, err
	}
	var root struct {
		Properties map[string]struct {
			Description string
			Enum        []json.RawMessage
			Default     json.RawMessage
			Items       struct{ Enum []json.RawMessage }
		}
		Required []string
	}
	if err := json.Unmarshal(reflected, &root); err != nil {
		return nil, err
	}
	found := make(map[string]fieldSchema)
	for name, property := range root.Properties {
		found[name] = fieldSchema{
			description: property.Description, required: slices.Contains(root.Required, name),
			enum:          jsonTexts(append(property.Enum, property.Items.Enum...)),
			defaultValues: jsonTexts(listElements(property.Default)),
		}
	}
	return found, nil
}

// listElements returns the elements of a list. Any other value is a list with one element.
func listElements(value json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	switch {
	case value == nil:
		return nil
	case json.Unmarshal(value, &list) == nil:
		return list
	}
	return []json.RawMessage{value}
}

// jsonTexts returns JSON values as text. Strings are unquoted.
func jsonTexts(values []json.RawMessage) []string {
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

// setterFor returns a function that parses strings and sets a value of the type.
func setterFor(t reflect.Type) (func(reflect.Value, []string) error, error) {
	if t.Kind() == reflect.Pointer {
		set, err := setterFor(t.Elem())
		if err != nil {
			return nil, err
		}
		return func(v reflect.Value, values []string) error {
			v.Set(reflect.New(t.Elem()))
			return set(v.Elem(), values)
		}, nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return joined(func(v reflect.Value, s string) error {
			err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
			switch {
			case err == nil:
				return nil
			case t == reflect.TypeFor[time.Time]():
				return fmt.Errorf("a date-time as in RFC 3339, got %.80q", s)
			}
			return fmt.Errorf("a valid value (%.256v), got %.80q", err, s)
		}), nil
	}
	zero := reflect.Zero(t)
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[url.URL]():
		return joined(func(v reflect.Value, s string) error {
			parsed, err := url.Parse(s)
			if err != nil {
				return fmt.Errorf("a URL, got %.80q", s)
			}
			v.Set(reflect.ValueOf(*parsed))
			return nil
		}), nil
	case t == reflect.TypeFor[json.Number]():
		return joined(func(v reflect.Value, s string) error {
			if jsonscan.KindOf([]byte(s)) != jsonscan.Number || jsonscan.Valid([]byte(s)) != nil || strings.TrimSpace(s) != s {
				return fmt.Errorf("a number, got %.80q", s)
			}
			v.SetString(s)
			return nil
		}), nil
	case kind == reflect.String, kind == reflect.Bool, zero.CanInt(), zero.CanUint(), zero.CanFloat():
		return joined(setScalar), nil
	case kind == reflect.Slice && t.Elem().Kind() == reflect.String:
		return func(v reflect.Value, values []string) error {
			v.Set(reflect.ValueOf(values).Convert(t))
			return nil
		}, nil
	}
	return nil, fmt.Errorf("%v cannot hold a string's value", t)
}

func joined(set func(reflect.Value, string) error) func(reflect.Value, []string) error {
	return func(v reflect.Value, values []string) error { return set(v, strings.Join(values, ",")) }
}

// setScalar parses s and sets v, a string, boolean or number. The error says what was expected.
func setScalar(v reflect.Value, s string) error {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
	case v.Kind() == reflect.Bool:
		yes := slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(s))
		if !yes && !slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(s)) {
			return fmt.Errorf("true or false, got %.80q", s)
		}
		v.SetBool(yes)
	case v.CanInt():
		n, err := strconv.ParseInt(s, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("an integer of %d bits, got %.80q", v.Type().Bits(), s)
		}
		v.SetInt(n)
	case v.CanUint():
		n, err := strconv.ParseUint(s, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("an integer of %d bits, not negative, got %.80q", v.Type().Bits(), s)
		}
		v.SetUint(n)
	default:
		n, err := strconv.ParseFloat(s, v.Type().Bits())
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || strings.ContainsAny(s, "_xX") { // Go syntax that is not JSON
			return fmt.Errorf("a number, got %.80q", s)
		}
		v.SetFloat(n)
	}
	return nil
}
