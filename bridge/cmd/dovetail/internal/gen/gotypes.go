package gen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/internal/tooltype"
)

const (
	maxTypes = 5000 // of a package
	maxDepth = 60   // of types inside each other
)

// A scope has the Go types of the named types of one schema, and the beginning of their names.
type scope struct {
	prefix string
	types  map[*tooltype.Type]string
}

// root returns the type of arguments or of a result.
func (g *generator) root(name, doc string, t *tooltype.Type) string {
	s := &scope{name, make(map[*tooltype.Type]string)}
	if t.Kind != tooltype.Object || !g.canDeclare(t) {
		return g.typeOf(s, name, t, 0)
	}
	name = g.used.Add(name)
	if t.Name != "" {
		s.types[t] = "*" + name
	}
	g.structNamed(s, name, doc, t, 0)
	return name
}

// canDeclare reports whether a struct can have the fields of an object.
func (g *generator) canDeclare(t *tooltype.Type) bool {
	return g.types < maxTypes && g.err == nil && !slices.ContainsFunc(t.Fields, func(f tooltype.Field) bool { return !canBeTag(f.Name) })
}

// typeOf returns the Go type of a type, without a pointer unless null is a value or the type has a name.
func (g *generator) typeOf(s *scope, name string, t *tooltype.Type, depth int) string {
	if depth > maxDepth {
		return "any"
	}
	if t.Name == "" {
		return g.contentOf(s, name, t, depth)
	}
	made, ok := s.types[t]
	switch {
	case ok:
	case t.Kind == tooltype.Object && len(t.Fields) > 0 && g.canDeclare(t):
		name = g.used.Add(s.nameOf(t))
		made = "*" + name // a pointer, since a type may contain itself
		s.types[t] = made
		g.structNamed(s, name, "is an object", t, depth)
	default:
		s.types[t] = "any" // a type that is not a struct and contains itself is any
		made = g.contentOf(s, s.nameOf(t), t, depth)
		s.types[t] = made
	}
	return made
}

// nameOf returns the name of a type that has one.
func (s *scope) nameOf(t *tooltype.Type) string {
	return tooltype.Bounded(s.prefix + tooltype.Exported(t.Name))
}

// contentOf returns the Go type of a type without its name.
func (g *generator) contentOf(s *scope, name string, t *tooltype.Type, depth int) string {
	switch t.Kind {
	case tooltype.String:
		return "string"
	case tooltype.Integer:
		return "int64"
	case tooltype.Number:
		return "float64"
	case tooltype.Boolean:
		return "bool"
	case tooltype.Literal:
		return g.literal(name, t)
	case tooltype.Array:
		return "[]" + g.typeOf(s, tooltype.Bounded(name+"Item"), t.Element, depth+1)
	case tooltype.Map:
		return "map[string]" + g.typeOf(s, tooltype.Bounded(name+"Value"), t.Element, depth+1)
	case tooltype.Object:
		if len(t.Fields) == 0 || !g.canDeclare(t) {
			return "map[string]any"
		}
		name = g.used.Add(name)
		g.structNamed(s, name, "is an object", t, depth)
		return name
	case tooltype.Union:
		isNull := func(m *tooltype.Type) bool { return m.Kind == tooltype.Null }
		others := slices.DeleteFunc(slices.Clone(t.Members), isNull)
		if len(others) == 1 {
			return pointer(g.typeOf(s, name, others[0], depth+1))
		}
	}
	return "any"
}

// pointer returns a type that has a value for null.
func pointer(made string) string {
	if made == "any" || strings.HasPrefix(made, "*") || strings.HasPrefix(made, "[]") || strings.HasPrefix(made, "map[") {
		return made
	}
	return "*" + made
}

// literal returns a type with constants for texts, or the type of other values.
func (g *generator) literal(name string, t *tooltype.Type) string {
	var texts []string
	for _, value := range t.Values {
		if text, ok := value.(string); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) < len(t.Values) {
		return plainLiteral(t.Values)
	}
	if g.types >= maxTypes || g.err != nil {
		return "string"
	}
	g.types++
	name = g.used.Add(name)
	fmt.Fprintf(&g.out, "// %s is one of a list of texts.\ntype %s string\n\n// The values of %s.\nconst (\n", name, name, name)
	for _, text := range texts {
		constant := g.used.Add(tooltype.Bounded(name + tooltype.Exported(text)))
		fmt.Fprintf(&g.out, "\t%s %s = %s\n", constant, name, strconv.Quote(text))
	}
	fmt.Fprint(&g.out, ")\n\n")
	g.declared()
	return name
}

// plainLiteral returns the type of values that are not all texts.
func plainLiteral(values []any) string {
	made := ""
	for _, value := range values {
		kind := fmt.Sprintf("%T", value)
		if made != "" && made != kind {
			return "any"
		}
		made = kind
	}
	return made
}

// structNamed declares a struct.
func (g *generator) structNamed(s *scope, name, doc string, t *tooltype.Type, depth int) {
	g.types++
	var fields strings.Builder
	fieldNames := make(tooltype.Names)
	for _, f := range t.Fields {
		field := fieldNames.Add(tooltype.Exported(f.Name))
		made := g.typeOf(s, tooltype.Bounded(name+field), f.Type, depth+1)
		option := ""
		if !f.Required {
			option, made = ",omitempty", pointer(made)
		}
		if f.Description != "" {
			fmt.Fprintf(&fields, "\t// %s\n", tooltype.Line(f.Description))
		}
		fmt.Fprintf(&fields, "\t%s %s `json:%s`\n", field, made, strconv.Quote(f.Name+option))
	}
	fmt.Fprintf(&g.out, "// %s %s.\ntype %s struct {\n%s}\n\n", name, doc, name, fields.String())
	g.declared()
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
