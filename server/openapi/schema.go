package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/pattern"
	"github.com/dovetail-go/dovetail/schema"
)

// A keyword is what stands under a name in a schema.
type keyword uint8

const (
	dropped       keyword = iota // means nothing in JSON Schema, or nothing here
	plain                        // is copied
	example                      // is copied into what goes out, a list of examples
	note                         // is copied, cut when it is long
	subschema                    // a schema
	subschemas                   // a list of schemas
	schemasByName                // an object of schemas
	special                      // is converted by a rule of its own
)

// keywords are those that are kept of a schema: JSON Schema 2020-12 without what
// names or anchors schemas, for references are made anew.
var keywords = map[string]keyword{
	"type": special, "format": special, "contentMediaType": special, "pattern": special, "required": special, "enum": special,
	"properties": special, "patternProperties": special,
	"minimum": special, "maximum": special, "exclusiveMinimum": special, "exclusiveMaximum": special,
	"$ref": special, "oneOf": special, "example": example, "examples": example,

	"title": note, "description": note,
	"const": plain, "default": plain, "deprecated": plain, "readOnly": plain, "writeOnly": plain,
	"multipleOf": plain, "minLength": plain, "maxLength": plain,
	"minItems": plain, "maxItems": plain, "uniqueItems": plain, "minContains": plain, "maxContains": plain,
	"minProperties": plain, "maxProperties": plain, "dependentRequired": plain,
	"contentEncoding": plain,

	"items": subschema, "not": subschema, "if": subschema, "then": subschema, "else": subschema,
	"contains": subschema, "propertyNames": subschema, "contentSchema": subschema,
	"additionalProperties": subschema, "unevaluatedItems": subschema, "unevaluatedProperties": subschema,
	"allOf": subschemas, "anyOf": subschemas, "prefixItems": subschemas,
	"dependentSchemas": schemasByName,
}

// A converter turns schemas of the document into JSON Schema 2020-12: those of
// OpenAPI 3.1 are almost that, those of 3.0 say some things in words of their own
// (OpenAPI 3.0.4, section 4.7.24; 3.1.1, section 4.8.24).
type converter struct {
	source *source
	// refersAlone: what stands beside a $ref counts for nothing.
	refersAlone bool
	// response: the schema is of what a service sends, not of what it takes.
	response bool

	converted map[string]*converted // schemas that others refer to, by pointer
	names     map[string]string     // what they are called in $defs
	pointers  map[string]string     // the same, by name
}

// converted is a schema in its new form, and what it refers to.
type converted struct {
	text    json.RawMessage
	targets []string // pointers, in order
}

func newConverter(d *document, response bool) *converter {
	return &converter{
		source: d.source, refersAlone: d.refersAlone(), response: response,
		converted: make(map[string]*converted), names: make(map[string]string), pointers: make(map[string]string),
	}
}

func (c *converter) convert(schema json.RawMessage) (*converted, error) {
	w := conversion{converter: c}
	text, err := w.schema(nil, schema)
	if err != nil {
		return nil, err
	}
	return &converted{text, w.targets}, nil
}

// root converts a schema that is to stand at the root of others: not as a reference,
// since clients look there for a type.
func (c *converter) root(schema json.RawMessage) (*converted, error) {
	done, err := c.convert(schema)
	for range maxReferences {
		if err != nil || len(done.targets) != 1 || string(done.text) != `{"$ref":"#/$defs/`+c.names[done.targets[0]]+`"}` {
			return done, err
		}
		done, err = c.definition(done.targets[0])
	}
	return nil, fmt.Errorf("the references from %.256s run in a circle", schema)
}

// errTooLarge is that of a schema that nobody will compile.
var errTooLarge = fmt.Errorf("its schema has more than %d bytes", schema.MaxSchemaBytes)

// complete adds the definitions that a schema, an object, refers to.
func (c *converter) complete(root *converted) (json.RawMessage, error) {
	if len(root.targets) == 0 {
		return root.text, nil
	}
	definitions := []byte{'{'}
	targets := slices.Clone(root.targets)
	for i := 0; i < len(targets); i++ {
		definition, err := c.definition(targets[i])
		if err != nil {
			return nil, err
		}
		definitions = appendMember(definitions, jsonscan.AppendString(nil, c.names[targets[i]]), definition.text)
		if len(definitions) > schema.MaxSchemaBytes {
			return nil, errTooLarge
		}
		for _, target := range definition.targets {
			if !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
		}
	}
	return jsonscan.Splice(nil, root.text, jsonscan.Edit{Name: "$defs", Value: append(definitions, '}')})
}

// definition is the schema at a pointer.
func (c *converter) definition(pointer string) (*converted, error) {
	if done, ok := c.converted[pointer]; ok {
		return done, nil
	}
	_, schema, err := c.source.find(pointer)
	if err != nil {
		return nil, err
	}
	done, err := c.convert(schema)
	if err != nil {
		return nil, err
	}
	c.converted[pointer] = done
	return done, nil
}

// name is what the schema at a pointer is called in $defs.
func (c *converter) name(pointer string) string {
	if name, ok := c.names[pointer]; ok {
		return name
	}
	base := sanitize(unescapeToken(pointer[strings.LastIndexByte(pointer, '/')+1:]))
	name := base
	for i := 2; c.pointers[name] != ""; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	c.names[pointer], c.pointers[name] = name, pointer
	return name
}

// A conversion writes one schema.
type conversion struct {
	*converter
	targets []string
}

func (w *conversion) schema(dst []byte, schema json.RawMessage) ([]byte, error) {
	switch jsonscan.KindOf(schema) {
	case jsonscan.Object:
	case jsonscan.Bool:
		return append(dst, schema...), nil
	default:
		return append(dst, `{}`...), nil
	}
	members, err := jsonscan.ReadObject(schema)
	if err != nil {
		return nil, err
	}
	_, refers := asString(members.Get("$ref"))
	// A nullable schema without a type is one that refers or is put together.
	wrapped := isTrue(members.Get("nullable")) && members.Get("type") == nil && (!refers || !w.refersAlone)
	if wrapped {
		dst = append(dst, `{"anyOf":[`...)
	}
	hidden, err := w.hidden(members.Get("properties"))
	if err != nil {
		return nil, err
	}
	o := objectWriter{conversion: w, from: &members, hidden: hidden, dst: append(dst, '{')}
	for m := range members.All() {
		name := m.Name()
		if refers && w.refersAlone && name != "$ref" && name != "description" {
			continue
		}
		if err := o.keyword(name, m.Value); err != nil {
			return nil, err
		}
	}
	dst = append(o.dst, '}')
	if wrapped {
		dst = append(dst, `,{"type":"null"}]}`...)
	}
	return dst, nil
}

// hidden names the properties that do not travel in this direction: readOnly ones in
// a request, writeOnly ones in a response (OpenAPI 3.0.4, section 4.7.24.2.1).
func (w *conversion) hidden(properties json.RawMessage) ([]string, error) {
	if jsonscan.KindOf(properties) != jsonscan.Object {
		return nil, nil
	}
	members, err := jsonscan.ReadObject(properties)
	if err != nil {
		return nil, err
	}
	flag := "readOnly"
	if w.response {
		flag = "writeOnly"
	}
	var names []string
	for m := range members.All() {
		property, err := w.source.object(m.Value)
		if err != nil {
			return nil, err
		}
		if isTrue(property.Get(flag)) {
			names = append(names, m.Name())
		}
	}
	return names, nil
}

func isTrue(raw json.RawMessage) bool { return string(raw) == "true" }

// cut shortens a text to at most limit bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	text = text[:limit-len(ellipsis)]
	for len(text) > 0 {
		if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return text + ellipsis
}

// isRE2 reports whether a validator accepts a pattern. ECMAScript has some, such as
// look-ahead, that RE2 has not, and a pattern may be too large.
func isRE2(text string) bool {
	_, err := pattern.Compile(text)
	return err == nil
}
