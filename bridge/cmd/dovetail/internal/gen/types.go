package gen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxTypes = 5000 // of a package
	maxDepth = 30   // of nested schemas
)

// A scope has the definitions that references of a schema name, and the types made of them.
type scope struct {
	prefix string
	defs   map[string]json.RawMessage
	types  map[string]string
}

func newScope(prefix string, root property) *scope {
	s := &scope{prefix: prefix, defs: make(map[string]json.RawMessage), types: make(map[string]string)}
	for name, text := range root.Definitions {
		s.defs["#/definitions/"+name] = text
	}
	for name, text := range root.Defs {
		s.defs["#/$defs/"+name] = text
	}
	return s
}

// nameOf returns the name of the type of a definition.
func (s *scope) nameOf(ref string) string {
	return bounded(s.prefix + exported(ref[strings.LastIndex(ref, "/")+1:]))
}

// object returns the type of arguments, which is always a struct or a map.
func (g *generator) object(name, doc string, text json.RawMessage) string {
	p, _ := read(text)
	s := newScope(name, p)
	if made, ok := g.structOf(s, name, doc, p, 0); ok {
		return made
	}
	return "map[string]any"
}

// rootType returns the type of a result.
func (g *generator) rootType(name, doc string, text json.RawMessage) string {
	p, ok := read(text)
	if !ok {
		return "any"
	}
	s := newScope(name, p)
	if kind, nullable := p.kind(); kind == "object" && !nullable && p.Ref == "" {
		if made, ok := g.structOf(s, name, doc, p, 0); ok {
			return made
		}
	}
	return g.typeOf(s, name, text, 0)
}

// typeOf returns the Go type of a schema, without a pointer unless null is a value.
func (g *generator) typeOf(s *scope, name string, text json.RawMessage, depth int) string {
	p, ok := read(text)
	if !ok || depth > maxDepth {
		return "any"
	}
	if p.Ref != "" {
		return g.reference(s, p.Ref, depth)
	}
	kind, nullable := p.kind()
	made := "any"
	switch kind {
	case "string":
		made = g.stringType(name, p)
	case "integer":
		made = "int64"
	case "number":
		made = "float64"
	case "boolean":
		made = "bool"
	case "array":
		return "[]" + g.typeOf(s, bounded(name+"Item"), p.Items, depth+1)
	case "object":
		var isStruct bool
		if made, isStruct = g.structOf(s, name, "is an object", p, depth); !isStruct {
			return "map[string]" + g.typeOf(s, bounded(name+"Value"), p.AdditionalProperties, depth+1)
		}
	}
	if nullable && made != "any" {
		return "*" + made
	}
	return made
}

// reference returns the type of a definition of the same document.
func (g *generator) reference(s *scope, ref string, depth int) string {
	if made, ok := s.types[ref]; ok {
		return made
	}
	text, ok := s.defs[ref]
	if !ok {
		return "any"
	}
	p, ok := read(text)
	if kind, nullable := p.kind(); !ok || kind != "object" || nullable || !hasFields(p) {
		s.types[ref] = "any" // a type that refers to itself is any
		s.types[ref] = g.typeOf(s, s.nameOf(ref), text, depth+1)
		return s.types[ref]
	}
	name := g.used.add(s.nameOf(ref))
	s.types[ref] = "*" + name // a pointer, since a type may contain itself
	if !g.structNamed(s, name, "is an object", p, depth+1) {
		s.types[ref] = "map[string]any"
	}
	return s.types[ref]
}

// stringType returns string, or a type with constants for the values of enum.
func (g *generator) stringType(name string, p property) string {
	if len(p.Enum) == 0 || len(p.Enum) > 200 || g.types >= maxTypes || g.err != nil {
		return "string"
	}
	var values []string
	for _, value := range p.Enum {
		text, ok := value.(string)
		if !ok {
			return "string"
		}
		if !slices.Contains(values, text) {
			values = append(values, text)
		}
	}
	g.types++
	name = g.used.add(name)
	fmt.Fprintf(&g.out, "// %s is one of a list of texts.\ntype %s string\n\n// The values of %s.\nconst (\n", name, name, name)
	for _, value := range values {
		constant := g.used.add(bounded(name + exported(value)))
		fmt.Fprintf(&g.out, "\t%s %s = %s\n", constant, name, strconv.Quote(value))
	}
	fmt.Fprint(&g.out, ")\n\n")
	g.declared()
	return name
}

func hasFields(p property) bool {
	return len(p.Properties) > 0 && bytes.ContainsRune(p.Properties, ':')
}

// structOf declares a struct for an object with known members. ok is false if there are none, or a
// struct cannot have them. An object without any members is an empty struct at the root.
func (g *generator) structOf(s *scope, name, doc string, p property, depth int) (made string, ok bool) {
	isEmpty := depth == 0 && !hasFields(p) && (string(p.AdditionalProperties) == "false" || string(p.Type) == `"object"` && len(p.AdditionalProperties) == 0)
	if !isEmpty && !hasFields(p) || g.types >= maxTypes || g.err != nil {
		return "", false
	}
	name = g.used.add(name)
	if !g.structNamed(s, name, doc, p, depth) {
		delete(g.used, name)
		return "", false
	}
	return name, true
}

// structNamed declares the struct with a name. It declares nothing and returns false if the name of a
// member cannot be in a tag.
func (g *generator) structNamed(s *scope, name, doc string, p property, depth int) bool {
	members, ok := ordered(p.Properties)
	if !ok {
		return false
	}
	g.types++
	var fields strings.Builder
	fieldNames := make(names)
	for _, m := range members {
		field := fieldNames.add(exported(m.name))
		made := g.typeOf(s, bounded(name+field), m.value, depth+1)
		option := ""
		if !slices.Contains(p.Required, m.name) {
			option = ",omitempty"
			if made != "any" && !strings.HasPrefix(made, "*") && !strings.HasPrefix(made, "[]") && !strings.HasPrefix(made, "map[") {
				made = "*" + made
			}
		}
		if inner, ok := read(m.value); ok && inner.Description != "" {
			fmt.Fprintf(&fields, "\t// %s\n", line(inner.Description))
		}
		fmt.Fprintf(&fields, "\t%s %s `json:%s`\n", field, made, strconv.Quote(m.name+option))
	}
	fmt.Fprintf(&g.out, "// %s %s.\ntype %s struct {\n%s}\n\n", name, doc, name, fields.String())
	g.declared()
	return true
}

type schemaMember struct {
	name  string
	value json.RawMessage
}

// ordered returns the members of an object in order. ok is false if a name cannot be in a tag.
func ordered(text json.RawMessage) (members []schemaMember, ok bool) {
	if len(text) == 0 {
		return nil, true
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil, false
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, false
		}
		key := name.String()
		value, err := decoder.ReadValue()
		if err != nil || !canBeTag(key) {
			return nil, false
		}
		members = append(members, schemaMember{key, json.RawMessage(bytes.Clone(value))})
	}
	return members, true
}

// canBeTag reports whether a name can be in a tag. The library refuses - there, which
// encoding/json accepts as "-,".
func canBeTag(name string) bool {
	if name == "" || name == "-" {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r))
	}) < 0
}
