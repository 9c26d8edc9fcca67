package openapi

import (
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An objectWriter writes the members of one schema.
type objectWriter struct {
	*conversion
	from   *jsonscan.Members
	hidden []string // properties that are left out
	dst    []byte
}

func (o *objectWriter) keyword(name string, value json.RawMessage) error {
	switch keywords[name] {
	case plain:
		o.put(name, value)
	case note:
		o.note(name, value)
	case example:
		o.example(name, value)
	case subschema:
		if name == "additionalProperties" && o.losesPatterns() {
			return nil
		}
		return o.nested(name, value, o.schema)
	case subschemas:
		if string(value) != "[]" && jsonscan.KindOf(value) == jsonscan.Array {
			return o.nested(name, value, o.list)
		}
	case schemasByName:
		return o.nested(name, value, o.byName)
	case special:
		return o.special(name, value)
	}
	return nil
}

func (o *objectWriter) special(name string, value json.RawMessage) error {
	switch name {
	case "$ref":
		return o.reference(value)
	case "oneOf":
		return o.alternatives(value)
	case "properties":
		return o.nested(name, value, o.properties)
	case "patternProperties":
		return o.nested(name, value, o.patterns)
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
		o.bound(name, value)
	}
	return nil
}

func (o *objectWriter) put(name string, value []byte) {
	o.dst = appendMember(o.dst, jsonscan.AppendString(nil, name), value)
}

// nested writes a member whose value has schemas in it.
func (o *objectWriter) nested(name string, value json.RawMessage, write func([]byte, json.RawMessage) ([]byte, error)) error {
	text, err := write(nil, value)
	if err != nil {
		return err
	}
	o.put(name, text)
	return nil
}

func (o *objectWriter) list(dst []byte, schemas json.RawMessage) ([]byte, error) {
	scan := jsonscan.New(schemas)
	if err := scan.EnterArray(); err != nil {
		return nil, err
	}
	dst = append(dst, '[')
	for first := true; ; first = false {
		more, err := scan.Element(first)
		if err != nil {
			return nil, err
		}
		if !more {
			return append(dst, ']'), nil
		}
		schema, err := scan.Value()
		if err != nil {
			return nil, err
		}
		if !first {
			dst = append(dst, ',')
		}
		if dst, err = o.schema(dst, schema); err != nil {
			return nil, err
		}
	}
}

// alternatives writes oneOf as anyOf. Documents tell alternatives apart by formats and
// discriminators, which a validator takes for annotations: it would refuse what fits two
// of them as far as it can see.
func (o *objectWriter) alternatives(value json.RawMessage) error {
	if jsonscan.KindOf(value) != jsonscan.Array || string(value) == "[]" {
		return nil
	}
	name := "anyOf"
	if o.from.Get(name) != nil {
		name = "oneOf"
	}
	return o.nested(name, value, o.list)
}

func (o *objectWriter) byName(dst []byte, schemas json.RawMessage) ([]byte, error) {
	return o.someByName(dst, schemas, func(string) bool { return true })
}

func (o *objectWriter) properties(dst []byte, schemas json.RawMessage) ([]byte, error) {
	return o.someByName(dst, schemas, func(name string) bool { return !slices.Contains(o.hidden, name) })
}

func (o *objectWriter) patterns(dst []byte, schemas json.RawMessage) ([]byte, error) {
	return o.someByName(dst, schemas, isRE2)
}

func (o *objectWriter) someByName(dst []byte, schemas json.RawMessage, keep func(name string) bool) ([]byte, error) {
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

// losesPatterns says whether a pattern of patternProperties is left out: then it is
// not known any more which properties are additional.
func (o *objectWriter) losesPatterns() bool {
	patterns := o.from.Get("patternProperties")
	if jsonscan.KindOf(patterns) != jsonscan.Object {
		return false
	}
	members, err := jsonscan.ReadObject(patterns)
	if err != nil {
		return false // whoever writes them will say so
	}
	for m := range members.All() {
		if !isRE2(m.Name()) {
			return true
		}
	}
	return false
}

// reference refers to the definition of what was referred to.
func (o *objectWriter) reference(value json.RawMessage) error {
	ref, ok := asString(value)
	if !ok {
		return nil
	}
	pointer, err := pointerOf(ref)
	if err != nil {
		return err
	}
	place, _, err := o.source.find(pointer)
	if err != nil {
		return err
	}
	if !slices.Contains(o.targets, place) {
		o.targets = append(o.targets, place)
	}
	o.put("$ref", jsonscan.AppendString(nil, "#/$defs/"+o.name(place)))
	return nil
}

func (o *objectWriter) required(value json.RawMessage) {
	var names []string
	if json.Unmarshal(value, &names) != nil {
		return // until draft-04 of JSON Schema, and by mistake since, this is a boolean
	}
	var kept []string
	for _, name := range names {
		if !slices.Contains(o.hidden, name) && !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	if len(kept) > 0 {
		o.put("required", stringList(kept))
	}
}

// types writes the types that JSON Schema knows, and null for what is nullable.
func (o *objectWriter) types(value json.RawMessage) {
	var names []string
	if json.Unmarshal(value, &names) != nil {
		name, _ := asString(value)
		names = []string{name}
	}
	var kept []string
	for _, name := range names {
		switch name {
		case "null", "boolean", "object", "array", "number", "string", "integer":
			if !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		}
	}
	if len(kept) == 0 {
		return
	}
	if isTrue(o.from.Get("nullable")) && !slices.Contains(kept, "null") {
		kept = append(kept, "null")
	}
	if len(kept) == 1 {
		o.put("type", jsonscan.AppendString(nil, kept[0]))
		return
	}
	o.put("type", stringList(kept))
}

// enum adds null where the type has it.
func (o *objectWriter) enum(value json.RawMessage) {
	var values []json.RawMessage
	if json.Unmarshal(value, &values) != nil || len(values) == 0 {
		return
	}
	isNull := func(v json.RawMessage) bool { return string(v) == "null" }
	if isTrue(o.from.Get("nullable")) && !slices.ContainsFunc(values, isNull) {
		list := append([]byte{'['}, values[0]...)
		for _, v := range values[1:] {
			list = append(append(list, ','), v...)
		}
		value = append(list, `,null]`...)
	}
	o.put("enum", value)
}

// format: bytes travel in arguments as base64, whatever they become in the request.
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

// isBinary says whether a schema is of bytes that are not encoded as text.
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

// exclusive are the keywords that make a bound of OpenAPI 3.0 exclusive.
var exclusive = map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}

// bound writes an exclusive bound, which is a number since 3.1, and until 3.0 says
// whether the other bound is one.
func (o *objectWriter) bound(name string, value json.RawMessage) {
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

func (o *objectWriter) note(name string, value json.RawMessage) {
	text, ok := asString(value)
	switch {
	case !ok:
	case len(text) > maxNote:
		o.put(name, jsonscan.AppendString(nil, cut(text, maxNote)))
	default:
		o.put(name, value)
	}
}

// example writes what shows a model how to write arguments. What comes back shows
// itself.
func (o *objectWriter) example(name string, value json.RawMessage) {
	switch {
	case o.response:
	case name == "examples" && jsonscan.KindOf(value) == jsonscan.Array:
		o.put(name, value)
	case name == "example" && o.from.Get("examples") == nil:
		o.put("examples", append(append([]byte{'['}, value...), ']'))
	}
}
