package openapi

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An objectWriter writes the members of one schema.
type objectWriter struct {
	*conversion
	from    *jsonscan.Members
	omitted nameSet // properties that are left out
	dst     []byte
}

// keyword writes one keyword. It drops everything that JSON Schema 2020-12 does not define, and
// keywords that name or anchor schemas, because references are generated.
func (o *objectWriter) keyword(name string, value json.RawMessage) error {
	switch name {
	case "const", "default", "deprecated", "readOnly", "writeOnly", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
		"minProperties", "maxProperties", "dependentRequired", "contentEncoding":
		o.put(name, value)
	case "title", "description":
		o.text(name, value)
	case "example", "examples":
		o.examples(name, value)
	case "items", "not", "if", "then", "else", "contains", "propertyNames", "contentSchema",
		"unevaluatedItems", "unevaluatedProperties":
		return o.nested(name, value, o.schema)
	case "additionalProperties":
		if !o.dropsPattern() {
			return o.nested(name, value, o.schema)
		}
	case "allOf", "anyOf", "prefixItems":
		return o.nested(name, value, o.list)
	case "oneOf":
		// Documents distinguish alternatives by formats and discriminators, which a
		// validator ignores. It would reject a value that matches two of them.
		if o.from.Get("anyOf") == nil {
			name = "anyOf"
		}
		return o.nested(name, value, o.list)
	case "dependentSchemas":
		return o.nested(name, value, func(dst []byte, schemas json.RawMessage) ([]byte, error) {
			return o.byName(dst, schemas, func(string) bool { return true })
		})
	case "properties":
		return o.nested(name, value, func(dst []byte, schemas json.RawMessage) ([]byte, error) {
			return o.byName(dst, schemas, func(name string) bool { return !o.omitted.has[name] })
		})
	case "patternProperties":
		return o.nested(name, value, func(dst []byte, schemas json.RawMessage) ([]byte, error) {
			return o.byName(dst, schemas, isRE2)
		})
	case "$ref":
		return o.reference(value)
	case "required":
		o.required(value)
	case "type":
		o.types(value)
	case "enum":
		o.enum(value)
	case "format", "contentMediaType":
		o.format(name, value)
	case "pattern":
		if pattern, ok := asString(value); ok && isRE2(pattern) {
			o.put(name, value)
		}
	case "minimum", "maximum":
		if !isTrue(o.from.Get(exclusive[name])) {
			o.put(name, value)
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		o.exclusiveBound(name, value)
	}
	return nil
}

func (o *objectWriter) put(name string, value []byte) {
	o.dst = appendMember(o.dst, jsonscan.AppendString(nil, name), value)
}

// nested writes a keyword whose value contains schemas. It drops the keyword if write returns
// nothing.
func (o *objectWriter) nested(name string, value json.RawMessage, write func([]byte, json.RawMessage) ([]byte, error)) error {
	text, err := write(nil, value)
	if err == nil && text != nil {
		o.put(name, text)
	}
	return err
}

// list writes a list of schemas. It omits an empty list, which JSON Schema does not allow.
func (o *objectWriter) list(dst []byte, schemas json.RawMessage) ([]byte, error) {
	var elements []json.RawMessage
	if json.Unmarshal(schemas, &elements) != nil || len(elements) == 0 {
		return nil, nil
	}
	for i, element := range elements {
		dst = append(dst, "[,"[min(i, 1)])
		var err error
		if dst, err = o.schema(dst, element); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// byName writes the members of an object of schemas that keep selects.
func (o *objectWriter) byName(dst []byte, schemas json.RawMessage, keep func(name string) bool) ([]byte, error) {
	members, err := jsonscan.ReadObject(schemas)
	if err != nil {
		return nil, err
	}
	dst = append(dst, '{')
	for m := range members.All() {
		if !keep(m.Name()) {
			continue
		}
		schema, err := o.schema(nil, m.Value)
		if err != nil {
			return nil, err
		}
		dst = appendMember(dst, m.Key, schema)
	}
	return append(dst, '}'), nil
}

// dropsPattern reports whether a pattern of patternProperties is dropped. Then it is unknown
// which properties are additional.
func (o *objectWriter) dropsPattern() bool {
	patterns := o.from.Get("patternProperties")
	if jsonscan.KindOf(patterns) != jsonscan.Object {
		return false
	}
	members, err := jsonscan.ReadObject(patterns)
	if err != nil {
		return false // byName returns this error
	}
	for m := range members.All() {
		if !isRE2(m.Name()) {
			return true
		}
	}
	return false
}

// reference writes a reference to a definition.
func (o *objectWriter) reference(value json.RawMessage) error {
	ref, ok := asString(value)
	if !ok {
		return nil
	}
	pointer, err := pointerOf(ref)
	if err != nil {
		return err
	}
	target, _, err := o.source.find(pointer)
	if err != nil {
		return err
	}
	o.targets.add(target)
	o.put("$ref", jsonscan.AppendString(nil, "#/$defs/"+o.name(target)))
	return nil
}

func (o *objectWriter) required(value json.RawMessage) {
	var names []string
	if json.Unmarshal(value, &names) != nil {
		return // a boolean, as in draft-03 of JSON Schema
	}
	var kept nameSet
	for _, name := range names {
		if !o.omitted.has[name] {
			kept.add(name)
		}
	}
	if len(kept.list) > 0 {
		o.put("required", stringList(kept.list))
	}
}

// types writes the types that JSON Schema defines, and adds null to a nullable schema.
func (o *objectWriter) types(value json.RawMessage) {
	var names []string
	if json.Unmarshal(value, &names) != nil {
		name, _ := asString(value)
		names = []string{name}
	}
	var kept nameSet
	for _, name := range names {
		switch name {
		case "null", "boolean", "object", "array", "number", "string", "integer":
			kept.add(name)
		}
	}
	if len(kept.list) == 0 {
		return
	}
	if isTrue(o.from.Get("nullable")) {
		kept.add("null")
	}
	if len(kept.list) == 1 {
		o.put("type", jsonscan.AppendString(nil, kept.list[0]))
		return
	}
	o.put("type", stringList(kept.list))
}

// enum adds null to the values of a nullable schema.
func (o *objectWriter) enum(value json.RawMessage) {
	var values []json.RawMessage
	if json.Unmarshal(value, &values) != nil || len(values) == 0 {
		return
	}
	isNull := func(v json.RawMessage) bool { return string(v) == "null" }
	if isTrue(o.from.Get("nullable")) && !slices.ContainsFunc(values, isNull) {
		open := bytes.TrimSuffix(bytes.TrimSpace(value), []byte("]"))
		value = append(bytes.Clone(open), `,null]`...)
	}
	o.put("enum", value)
}

// format writes the format of a string. Binary data is base64 in arguments, whatever its
// encoding in the request is.
func (o *objectWriter) format(name string, value json.RawMessage) {
	binary := !o.response && isBinary(o.from)
	if name == "contentMediaType" || !binary {
		if jsonscan.KindOf(value) == jsonscan.String {
			o.put(name, value)
		}
	}
	if binary && (name == "format" || o.from.Get("format") == nil) {
		o.put("contentEncoding", []byte(`"base64"`))
	}
}

// isBinary reports whether a schema describes bytes that are not encoded as text.
func isBinary(schema *jsonscan.Members) bool {
	if kind := typeOf(schema); kind != "" && kind != "string" || schema.Get("contentEncoding") != nil {
		return false
	}
	if format, _ := asString(schema.Get("format")); format == "binary" {
		return true
	}
	media, ok := asString(schema.Get("contentMediaType"))
	return ok && !isText(mediaType(media))
}

// exclusive maps a bound to the keyword that makes it exclusive in OpenAPI 3.0.
var exclusive = map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}

// exclusiveBound writes an exclusive bound. It is a number in OpenAPI 3.1; in 3.0 it is a
// boolean that makes the other bound exclusive.
func (o *objectWriter) exclusiveBound(name string, value json.RawMessage) {
	switch jsonscan.KindOf(value) {
	case jsonscan.Number:
		o.put(name, value)
	case jsonscan.Bool:
		other := "minimum"
		if name == "exclusiveMaximum" {
			other = "maximum"
		}
		if number := o.from.Get(other); isTrue(value) && number != nil {
			o.put(name, number)
		}
	}
}

// text writes a title or description, cut at maxNote.
func (o *objectWriter) text(name string, value json.RawMessage) {
	text, ok := asString(value)
	switch {
	case !ok:
	case len(text) > maxNote:
		o.put(name, jsonscan.AppendString(nil, cut(text, maxNote)))
	default:
		o.put(name, value)
	}
}

// examples writes examples of arguments. Examples of responses are dropped.
func (o *objectWriter) examples(name string, value json.RawMessage) {
	switch {
	case o.response:
	case name == "examples" && jsonscan.KindOf(value) == jsonscan.Array:
		o.put(name, value)
	case name == "example" && o.from.Get("examples") == nil:
		o.put("examples", append(append([]byte{'['}, value...), ']'))
	}
}
