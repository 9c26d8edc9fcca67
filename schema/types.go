package schema

import (
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// refusal returns why the JSON library refuses to encode and decode a struct type, such as two fields of
// one name, or "".
func refusal(t reflect.Type) string {
	err := json.Unmarshal([]byte("{}"), reflect.New(t).Interface())
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok && semantic.Err != nil {
		return semantic.Err.Error()
	}
	return ""
}

// keyPattern returns the pattern of the keys of a map with integer keys, or "" for other keys.
func keyPattern(key reflect.Type) string {
	if hasText(key) {
		return ""
	}
	switch key.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "^-?(0|[1-9][0-9]*)$"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "^(0|[1-9][0-9]*)$"
	}
	return ""
}

// typePath returns the start of the paths in messages about t.
func typePath(t reflect.Type) string {
	if t.Name() == "" {
		return t.Kind().String()
	}
	return shortName(t)
}

// ownSchema is the key in Schema.Extras of the schema of a SchemaProvider. It is no keyword, since no
// keyword is empty.
const ownSchema = ""

const durationDescription = "duration in nanoseconds"

// primitiveSchema returns a new schema for a type whose parts are not described, and nil for other
// types. The tags of a field may change the schema.
func primitiveSchema(t reflect.Type) (*jsonschema.Schema, error) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}, nil
	case t == reflect.TypeFor[slog.Level](): // its text is also its JSON
		return &jsonschema.Schema{Type: "string"}, nil
	case t == reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: durationDescription}, nil
	case t == reflect.TypeFor[stdjson.Number]():
		return &jsonschema.Schema{Type: "number"}, nil
	case t == reflect.TypeFor[big.Int](): // its JSON is not its text
		return &jsonschema.Schema{Type: "integer"}, nil
	case isUUID(t):
		return &jsonschema.Schema{Type: "string", Format: "uuid"}, nil
	case has[SchemaProvider](t):
		raw := reflect.New(t).Interface().(SchemaProvider).JSONSchema()
		if _, err := jsonscan.ReadObject(raw); err != nil {
			return nil, fmt.Errorf("JSONSchema of %s must return a JSON object: %w", t, err)
		}
		return &jsonschema.Schema{Extras: map[string]any{ownSchema: raw}}, nil
	case hasEnum(t):
		return enumSchema(t)
	case has[json.Marshaler](t), has[json.Unmarshaler](t), has[json.MarshalerTo](t), has[json.UnmarshalerFrom](t):
		return &jsonschema.Schema{}, nil
	case hasText(t):
		return &jsonschema.Schema{Type: "string"}, nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() != reflect.Uint8 {
			return nil, nil
		}
		if elem, err := primitiveSchema(t.Elem()); err != nil || elem.Type == "integer" {
			return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}, err
		}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return integerSchema(-1<<(t.Bits()-1), 1<<(t.Bits()-1)-1), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return integerSchema(0, 1<<t.Bits()-1), nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}, nil
	}
	return nil, nil
}

func integerSchema(minimum, maximum int64) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type:    "integer",
		Minimum: stdjson.Number(strconv.FormatInt(minimum, 10)),
		Maximum: stdjson.Number(strconv.FormatInt(maximum, 10)),
	}
}

// has reports whether t or a pointer to it implements I.
func has[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Kind() != reflect.Interface && (t.Implements(i) || reflect.PointerTo(t).Implements(i))
}

// isUUID reports whether t is a UUID of a common package, such as github.com/google/uuid.
func isUUID(t reflect.Type) bool {
	return t.Name() == "UUID" && t.Kind() == reflect.Array && t.Len() == 16 && hasText(t) && !has[SchemaProvider](t)
}

func hasText(t reflect.Type) bool {
	return has[encoding.TextMarshaler](t) || has[encoding.TextUnmarshaler](t)
}

// hasEnum reports whether t has a method EnumValues() []T. No interface describes it, since the
// method returns a different type for each T.
func hasEnum(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	method, ok := reflect.PointerTo(t).MethodByName("EnumValues")
	return ok && method.Type.NumIn() == 1 && method.Type.NumOut() == 1 &&
		method.Type.Out(0).Kind() == reflect.Slice && method.Type.Out(0).Elem() == t
}

func enumSchema(t reflect.Type) (*jsonschema.Schema, error) {
	values := reflect.New(t).MethodByName("EnumValues").Call(nil)[0]
	if values.Len() == 0 {
		return nil, fmt.Errorf("EnumValues of %s: expected at least one value", t)
	}
	s := &jsonschema.Schema{Enum: make([]any, values.Len())}
	for i := range s.Enum {
		raw, err := json.Marshal(values.Index(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("EnumValues of %s: %w", t, err)
		}
		s.Enum[i] = stdjson.RawMessage(raw)
	}
	scanner := jsonscan.New(s.Enum[0].(stdjson.RawMessage))
	switch scanner.Kind() {
	case jsonscan.String:
		s.Type = "string"
	case jsonscan.Number:
		s.Type = "number"
		if isNumber(t) && t.Kind() != reflect.Float32 && t.Kind() != reflect.Float64 {
			s.Type = "integer"
		}
	}
	return s, nil
}
