package schema

import (
	"encoding"
	stdjson "encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// rawText is the key in Schema.Extras of a schema that a type wrote itself. It
// is no keyword, since no keyword is empty.
const rawText = ""

// leafSchema describes the types that are not taken apart. It returns nil for
// all others. Every call makes a new schema, which a field's tags may change.
func leafSchema(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case has[Schemer](t):
		raw := reflect.New(t).Interface().(Schemer).JSONSchema()
		return &jsonschema.Schema{Extras: map[string]any{rawText: raw}}
	case hasEnum(t):
		return enumSchema(t)
	case has[json.Marshaler](t), has[json.Unmarshaler](t), has[json.MarshalerTo](t), has[json.UnmarshalerFrom](t):
		return &jsonschema.Schema{}
	case hasText(t):
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && leafSchema(t.Elem()).Type == "integer" {
			return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
		}
	case reflect.Int8:
		return integerSchema(math.MinInt8, math.MaxInt8)
	case reflect.Int16:
		return integerSchema(math.MinInt16, math.MaxInt16)
	case reflect.Int32:
		return integerSchema(math.MinInt32, math.MaxInt32)
	case reflect.Uint8:
		return integerSchema(0, math.MaxUint8)
	case reflect.Uint16:
		return integerSchema(0, math.MaxUint16)
	case reflect.Uint32:
		return integerSchema(0, math.MaxUint32)
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	}
	return nil
}

func integerSchema(minimum, maximum int64) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type:    "integer",
		Minimum: stdjson.Number(strconv.FormatInt(minimum, 10)),
		Maximum: stdjson.Number(strconv.FormatInt(maximum, 10)),
	}
}

// describesItself reports whether neither the type nor its tags are looked
// into: it is a leaf, or has the methods of the reflecting library.
func describesItself(t reflect.Type) bool {
	return leafSchema(t) != nil ||
		has[interface{ JSONSchema() *jsonschema.Schema }](t) ||
		has[interface{ JSONSchemaExtend(*jsonschema.Schema) }](t) ||
		has[interface{ JSONSchemaAlias() any }](t)
}

// checkOwnSchema reads what the type says of itself.
func checkOwnSchema(t reflect.Type, path string) error {
	if has[Schemer](t) {
		raw := reflect.New(t).Interface().(Schemer).JSONSchema()
		if _, err := jsonscan.ReadObject(raw); err != nil {
			return &TypeError{Path: path, Reason: fmt.Sprintf("JSONSchema of %s must return a JSON object: %v", t, err)}
		}
	}
	if hasEnum(t) {
		if _, err := enumValues(t); err != nil {
			return &TypeError{Path: path, Reason: fmt.Sprintf("EnumValues of %s: %v", t, err)}
		}
	}
	return nil
}

// has reports whether t or a pointer to it implements I.
func has[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Kind() != reflect.Interface && (t.Implements(i) || reflect.PointerTo(t).Implements(i))
}

func hasText(t reflect.Type) bool {
	return has[encoding.TextMarshaler](t) || has[encoding.TextUnmarshaler](t)
}

// hasEnum reports whether t has a method EnumValues() []T. No interface can
// say that: its method would return another type for each T.
func hasEnum(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	method, ok := reflect.PointerTo(t).MethodByName("EnumValues")
	return ok && method.Type.NumIn() == 1 && method.Type.NumOut() == 1 &&
		method.Type.Out(0).Kind() == reflect.Slice && method.Type.Out(0).Elem() == t
}

func enumValues(t reflect.Type) ([]any, error) {
	values := reflect.New(t).MethodByName("EnumValues").Call(nil)[0]
	if values.Len() == 0 {
		return nil, fmt.Errorf("expected at least one value")
	}
	list := make([]any, values.Len())
	for i := range list {
		raw, err := json.Marshal(values.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		list[i] = stdjson.RawMessage(raw)
	}
	return list, nil
}

func enumSchema(t reflect.Type) *jsonschema.Schema {
	list, _ := enumValues(t) // inspected before
	s := &jsonschema.Schema{Enum: list}
	if len(list) == 0 {
		return s
	}
	scanner := jsonscan.New(list[0].(stdjson.RawMessage))
	switch scanner.Kind() {
	case jsonscan.String:
		s.Type = "string"
	case jsonscan.Number:
		s.Type = "number"
		if isNumber(t) && t.Kind() != reflect.Float32 && t.Kind() != reflect.Float64 {
			s.Type = "integer"
		}
	}
	return s
}
