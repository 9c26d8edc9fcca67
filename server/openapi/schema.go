package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/pattern"
	"github.com/dovetail-go/dovetail/internal/toolschema"
)

// A converter converts schemas of the document to JSON Schema 2020-12. Schemas of OpenAPI 3.1
// are almost that; schemas of 3.0 have keywords of their own (OpenAPI 3.0.4, section 4.7.24;
// 3.1.1, section 4.8.24).
type converter struct {
	source *source
	// ignoresRefSiblings: the siblings of a $ref are ignored (OpenAPI 3.0).
	ignoresRefSiblings bool
	// response: the schemas are of responses, not of requests.
	response bool

	converted map[string]*converted // the targets of references, by pointer
	names     map[string]string     // in $defs, by pointer
	pointers  map[string]string     // by name in $defs
	bases     map[string]int        // the last number that was added to a name
}

// converted is a JSON Schema and the targets of its references.
type converted struct {
	text    json.RawMessage
	targets []string // pointers, in order of occurrence
}

func newConverter(d *document, response bool) *converter {
	return &converter{
		source: d.source, ignoresRefSiblings: d.ignoresRefSiblings(), response: response,
		converted: make(map[string]*converted), names: make(map[string]string), pointers: make(map[string]string), bases: make(map[string]int),
	}
}

func (c *converter) convert(schema json.RawMessage) (*converted, error) {
	w := conversion{converter: c}
	text, err := w.schema(nil, schema)
	if err != nil {
		return nil, err
	}
	return &converted{text, w.targets.list}, nil
}

// root converts a schema that becomes the root of another one. It replaces a reference by its
// target, because clients expect a type there.
func (c *converter) root(schema json.RawMessage) (*converted, error) {
	done, err := c.convert(schema)
	for range maxReferences {
		if err != nil || len(done.targets) != 1 || string(done.text) != `{"$ref":"#/$defs/`+c.names[done.targets[0]]+`"}` {
			return done, err
		}
		done, err = c.definition(done.targets[0])
	}
	return nil, fmt.Errorf("the references from %.256s are circular", schema)
}

// maxSchemaBytes is the size of the largest schema that package schema compiles.
const maxSchemaBytes = 256 << 10

// errTooLarge says that a schema is too large to be compiled.
var errTooLarge = fmt.Errorf("its schema has more than %d bytes", maxSchemaBytes)

// complete replaces references with their targets. If a schema contains itself or would be large, complete adds $defs
// with the definitions that the schema needs.
func (c *converter) complete(root *converted) (json.RawMessage, error) {
	if len(root.targets) == 0 {
		return root.text, nil
	}
	definitions := []byte{'{'}
	var targets nameSet
	targets.add(root.targets...)
	for done := 0; done < len(targets.list); { // definitions add targets
		pointer := targets.list[done]
		done++
		definition, err := c.definition(pointer)
		if err != nil {
			return nil, err
		}
		definitions = appendMember(definitions, jsonscan.AppendString(nil, c.names[pointer]), definition.text)
		if len(definitions) > maxSchemaBytes {
			return nil, errTooLarge
		}
		targets.add(definition.targets...)
	}
	schema, err := jsonscan.Splice(nil, root.text, jsonscan.Edit{Name: "$defs", Value: append(definitions, '}')})
	if err != nil {
		return nil, err
	}
	return toolschema.Inline(schema, toolschema.MaxInlined)
}

// definition returns the converted schema at a pointer.
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

// name returns the name in $defs of the schema at a pointer.
func (c *converter) name(pointer string) string {
	if name, ok := c.names[pointer]; ok {
		return name
	}
	base := sanitize(jsonscan.UnescapeToken(pointer[strings.LastIndexByte(pointer, '/')+1:]))
	name := base
	for c.pointers[name] != "" {
		c.bases[base]++
		name = fmt.Sprintf("%s_%d", base, c.bases[base]+1)
	}
	c.names[pointer], c.pointers[name] = name, pointer
	return name
}

// A nameSet is a list of names without duplicates. Its zero value is empty.
type nameSet struct {
	list []string
	has  map[string]bool
}

func (s *nameSet) add(names ...string) {
	for _, name := range names {
		if s.has[name] {
			continue
		}
		if s.has == nil {
			s.has = make(map[string]bool)
		}
		s.has[name] = true
		s.list = append(s.list, name)
	}
}

// A conversion converts one schema and collects its references.
type conversion struct {
	*converter
	targets nameSet
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
	// A nullable schema without a type is a reference or a composition.
	wrapped := isTrue(members.Get("nullable")) && members.Get("type") == nil && (!refers || !w.ignoresRefSiblings)
	if wrapped {
		dst = append(dst, `{"anyOf":[`...)
	}
	omitted, err := w.omitted(members.Get("properties"))
	if err != nil {
		return nil, err
	}
	o := objectWriter{conversion: w, from: &members, omitted: omitted, dst: append(dst, '{')}
	for m := range members.All() {
		name := m.Name()
		if refers && w.ignoresRefSiblings && name != "$ref" && name != "description" {
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

// omitted returns the readOnly properties of a request, or the writeOnly properties of a
// response (OpenAPI 3.0.4, section 4.7.24.2.1).
func (w *conversion) omitted(properties json.RawMessage) (names nameSet, err error) {
	if jsonscan.KindOf(properties) != jsonscan.Object {
		return names, nil
	}
	members, err := jsonscan.ReadObject(properties)
	if err != nil {
		return names, err
	}
	flag := "readOnly"
	if w.response {
		flag = "writeOnly"
	}
	for m := range members.All() {
		property, err := w.source.object(m.Value)
		if err != nil {
			return names, err
		}
		if isTrue(property.Get(flag)) {
			names.add(m.Name())
		}
	}
	return names, nil
}

func isTrue(raw json.RawMessage) bool { return string(raw) == "true" }

// cut shortens a text to at most limit bytes, including an ellipsis.
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

// isRE2 reports whether a validator accepts a pattern. RE2 does not support all patterns of
// ECMAScript, such as look-ahead, and a pattern may be too large.
func isRE2(text string) bool {
	_, err := pattern.Compile(text)
	return err == nil
}
