package schema

import (
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/invopop/jsonschema"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An inspector visits a type and the types that it contains before reflection. It finds types without
// a schema while the path to them is known, and collects the fields of structs.
type inspector struct {
	output  bool // the schema describes encoded values
	structs map[reflect.Type]*structInfo
	seen    map[reflect.Type]bool // types may contain themselves
}

func (in *inspector) inspect(t reflect.Type, path string) error {
	t = deref(t)
	if in.seen[t] {
		return nil
	}
	in.seen[t] = true
	if t == reflect.TypeFor[url.URL]() {
		return &TypeError{Path: path, Reason: "url.URL has no JSON form of its own: use a string with format=uri"}
	}
	if describesItself(t) {
		return checkOwnSchema(t, path)
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return in.inspect(t.Elem(), path+"[]")
	case reflect.Map:
		if keyPattern(t.Key()) == "" && t.Key().Kind() != reflect.String && !hasText(t.Key()) {
			return &TypeError{Path: path, Reason: "keys of a JSON object are strings, integers or types with text methods, not " + t.Key().String()}
		}
		return in.inspect(t.Elem(), path+"[]")
	case reflect.Struct:
		return in.inspectStruct(t, path)
	case reflect.Interface:
		if t.NumMethod() > 0 && !in.output {
			return &TypeError{Path: path, Reason: "nothing can be read into " + t.String() + ", an interface with methods"}
		}
		return nil
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64, reflect.Int, reflect.Int64:
		return nil
	}
	return &TypeError{Path: path, Reason: "the type " + t.String() + " has no JSON form"}
}

func (in *inspector) inspectStruct(t reflect.Type, path string) error {
	info, err := in.structInfo(t, path)
	if err != nil {
		return err
	}
	// Arguments without members are not decoded.
	isRoot := len(in.seen) == 1
	if reason := refusal(t); reason != "" && (in.output || !isRoot || !isMemberless(t)) {
		return &TypeError{Path: path, Reason: reason}
	}
	in.structs[t] = info
	for i := range info.fields {
		if err := in.inspect(info.fields[i].typ, info.fields[i].path); err != nil {
			return err
		}
	}
	if info.others == nil {
		return nil
	}
	return in.inspect(info.others, path+"[]")
}

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

// primitiveSchema returns a new schema for a type whose parts are not inspected, and nil for other
// types. The tags of a field may change the schema.
func primitiveSchema(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[slog.Level](): // its text is also its JSON
		return &jsonschema.Schema{Type: "string"}
	case t == reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: durationDescription}
	case has[SchemaProvider](t):
		raw := reflect.New(t).Interface().(SchemaProvider).JSONSchema()
		return &jsonschema.Schema{Extras: map[string]any{ownSchema: raw}}
	case hasEnum(t):
		return enumSchema(t)
	case has[json.Marshaler](t), has[json.Unmarshaler](t), has[json.MarshalerTo](t), has[json.UnmarshalerFrom](t):
		return &jsonschema.Schema{}
	case hasText(t):
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && primitiveSchema(t.Elem()).Type == "integer" {
			return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
		}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return integerSchema(-1<<(t.Bits()-1), 1<<(t.Bits()-1)-1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return integerSchema(0, 1<<t.Bits()-1)
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

// describesItself reports whether the parts of a type are not inspected: it has a primitive schema, or
// methods of the reflection library.
func describesItself(t reflect.Type) bool {
	return primitiveSchema(t) != nil ||
		has[interface{ JSONSchema() *jsonschema.Schema }](t) ||
		has[interface{ JSONSchemaExtend(*jsonschema.Schema) }](t) ||
		has[interface{ JSONSchemaAlias() any }](t)
}

// checkOwnSchema checks the results of JSONSchema and EnumValues of a type.
func checkOwnSchema(t reflect.Type, path string) error {
	if has[SchemaProvider](t) {
		raw := reflect.New(t).Interface().(SchemaProvider).JSONSchema()
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
	list, _ := enumValues(t) // checked by checkOwnSchema
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
