package tooltype

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Limits of one schema. What is beyond them is Any.
const (
	maxTypes  = 5000
	maxDepth  = 30       // of schemas inside each other
	maxFields = 100_000  // in all objects
	maxValues = 200      // of a literal
	maxRead   = 16 << 20 // bytes, in all
	maxSafe   = 1<<53 - 1
)

// Input returns the type of arguments: an Object, a Map, or a Union of them. A schema that names no members is an Object
// without fields, unless it allows further members.
func Input(schema json.RawMessage) *Type {
	t := Of(schema)
	root, err := jsonscan.ReadObject(schema)
	switch {
	case t.Kind == Map && err == nil && string(root.Get("type")) == `"object"` && root.Get("additionalProperties") == nil && root.Get("patternProperties") == nil:
		return &Type{Kind: Object, Description: t.Description}
	case t.Kind == Object, t.Kind == Map, t.Kind == Union && !slices.ContainsFunc(t.Members, func(m *Type) bool { return m.Kind != Object && m.Kind != Map }):
		return t
	}
	return t.Flat()
}

// Of returns the type of a schema, such as that of a result. A text that is no schema is Any.
func Of(schema json.RawMessage) *Type {
	r := &reader{root: schema, named: make(map[string]*Type)}
	t := r.reference("#")
	for _, n := range r.order {
		r.complete(n)
	}
	if !r.rootNamed {
		t.Name = ""
	}
	return t
}

// A reader reads one document.
type reader struct {
	root      []byte
	named     map[string]*Type // by reference
	order     []*Type
	types     int
	fields    int
	bytes     int
	rootNamed bool // the root refers to itself
}

// reference returns the type of a reference within the document.
func (r *reader) reference(ref string) *Type {
	if t, ok := r.named[ref]; ok {
		r.rootNamed = r.rootNamed || ref == "#"
		return t
	}
	fragment, ok := strings.CutPrefix(ref, "#")
	if r.bytes += len(r.root); !ok || r.bytes > maxRead {
		return &Type{}
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return &Type{}
	}
	tokens, err := jsonscan.ParsePointer(fragment)
	if err != nil {
		return &Type{}
	}
	target, err := jsonscan.FindPointer(r.root, tokens...)
	if err != nil || target == nil {
		return &Type{}
	}
	t := &Type{Name: "Self"}
	if len(tokens) > 0 {
		t.Name = tokens[len(tokens)-1]
	}
	r.named[ref] = t
	r.order = append(r.order, t)
	name := t.Name
	found := r.read(target, 0)
	if found != t {
		*t = *found
	}
	if found.Name != "" && len(tokens) > 0 {
		r.named[ref] = found // the reference is only another name
	}
	t.Name = name
	return r.named[ref]
}

// complete replaces the members of a named union that contains itself, without anything in between, by the other types
// in it.
func (r *reader) complete(t *Type) {
	if t.Kind != Union {
		return
	}
	others, again := t.leaves(make(map[*Type]bool))
	if !again {
		return
	}
	name, description := t.Name, t.Description
	*t = *union(others)
	t.Name, t.Description = name, description
}

// leaves returns the members of a union and of the unions in it. again reports whether one of them contains another that
// contains it.
func (t *Type) leaves(above map[*Type]bool) (others []*Type, again bool) {
	if above[t] {
		return nil, true
	}
	if t.Kind != Union {
		return []*Type{t}, false
	}
	above[t] = true
	for _, m := range t.Members {
		more, repeats := m.leaves(above)
		others, again = append(others, more...), again || repeats
	}
	return others, again
}

// read returns the type of a schema. depth is the number of schemas around it.
func (r *reader) read(schema []byte, depth int) *Type {
	r.types++
	r.bytes += len(schema)
	if depth > maxDepth || r.types > maxTypes || r.bytes > maxRead {
		return &Type{}
	}
	m, err := jsonscan.ReadObject(schema)
	if err != nil {
		return &Type{}
	}
	t := r.own(&m, depth)
	narrow := func(by *Type) {
		if r.fields += t.size() + by.size(); r.fields > maxFields {
			return
		}
		if both := intersect(t, by); both != nil {
			t = both
		}
	}
	if ref := m.Get("$ref"); jsonscan.KindOf(ref) == jsonscan.String {
		narrow(r.reference(jsonscan.Unquote(ref)))
	}
	required := texts(m.Get("required"))
	for _, part := range list(m.Get("allOf")) {
		narrow(r.read(part, depth+1))
		if more, err := jsonscan.ReadObject(part); err == nil { // it may name fields of other parts
			required = append(required, texts(more.Get("required"))...)
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var members []*Type
		for _, part := range list(m.Get(keyword)) {
			members = append(members, r.read(part, depth+1))
		}
		if len(members) > 0 {
			narrow(union(members))
		}
	}
	t = requiring(t, required)
	if t.Description == "" && t.Name == "" {
		t.Description = text(m.Get("description"))
	}
	return t
}

// requiring returns a type with further required fields.
func requiring(t *Type, names []string) *Type {
	required := setOf(names)
	lacks := func(f Field) bool { return !f.Required && required[f.Name] }
	if t.Kind != Object || !slices.ContainsFunc(t.Fields, lacks) {
		return t
	}
	t = &Type{Kind: Object, Description: t.Description, Fields: slices.Clone(t.Fields), Element: t.Element}
	for i, f := range t.Fields {
		t.Fields[i].Required = f.Required || lacks(f)
	}
	return t
}

// own returns the type that the keywords type, enum, const and those of objects and arrays say.
func (r *reader) own(m *jsonscan.Members, depth int) *Type {
	t := r.typed(m, depth)
	values := list(m.Get("enum"))
	if one := m.Get("const"); one != nil {
		values = [][]byte{one}
	}
	if len(values) == 0 {
		return t
	}
	if both := intersect(t, literals(values)); both != nil {
		return both
	}
	return t
}

// typed returns the type that the keyword type says, or those of objects and arrays without it.
func (r *reader) typed(m *jsonscan.Members, depth int) *Type {
	kinds := texts(m.Get("type"))
	if one := m.Get("type"); jsonscan.KindOf(one) == jsonscan.String {
		kinds = []string{jsonscan.Unquote(one)}
	}
	if len(kinds) == 0 {
		switch {
		case m.Get("properties") != nil || m.Get("additionalProperties") != nil:
			kinds = []string{"object"}
		case m.Get("items") != nil || m.Get("prefixItems") != nil:
			kinds = []string{"array"}
		}
	}
	var types []*Type
	for _, kind := range kinds {
		switch kind {
		case "null":
			types = append(types, &Type{Kind: Null})
		case "boolean":
			types = append(types, &Type{Kind: Boolean})
		case "integer":
			types = append(types, &Type{Kind: Integer})
		case "number":
			types = append(types, &Type{Kind: Number})
		case "string":
			types = append(types, &Type{Kind: String})
		case "array":
			types = append(types, &Type{Kind: Array, Element: r.elements(m, depth)})
		case "object":
			types = append(types, r.object(m, depth))
		default:
			return &Type{}
		}
	}
	return union(types)
}

// elements returns the type of the elements of an array.
func (r *reader) elements(m *jsonscan.Members, depth int) *Type {
	items := m.Get("items")
	parts := append(list(m.Get("prefixItems")), list(items)...) // a list of items is that of older drafts
	if len(parts) == 0 {
		return r.read(items, depth+1)
	}
	var types []*Type
	for _, part := range parts {
		types = append(types, r.read(part, depth+1))
	}
	switch jsonscan.KindOf(items) {
	case jsonscan.Object:
		types = append(types, r.read(items, depth+1))
	case jsonscan.EOF:
		return &Type{} // further elements are not restricted
	}
	return union(types)
}

// object returns an Object, or a Map if the schema names no members.
func (r *reader) object(m *jsonscan.Members, depth int) *Type {
	further := m.Get("additionalProperties")
	properties, err := jsonscan.ReadObject(m.Get("properties"))
	if err != nil || properties.Len() == 0 {
		if string(further) == "false" && m.Get("patternProperties") == nil {
			return &Type{Kind: Object}
		}
		if patterns, err := jsonscan.ReadObject(m.Get("patternProperties")); err == nil && string(further) == "false" && patterns.Len() == 1 {
			for p := range patterns.All() {
				further = p.Value
			}
		}
		return &Type{Kind: Map, Element: r.read(further, depth+1)}
	}
	if r.fields += properties.Len(); r.fields > maxFields {
		return &Type{Kind: Map, Element: &Type{}}
	}
	required := setOf(texts(m.Get("required")))
	t := &Type{Kind: Object}
	for p := range properties.All() {
		f := Field{Name: p.Name(), Required: required[p.Name()], Type: r.read(p.Value, depth+1)}
		if own, err := jsonscan.ReadObject(p.Value); err == nil {
			f.Description = text(own.Get("description"))
		}
		t.Fields = append(t.Fields, f)
	}
	if further != nil && string(further) != "false" {
		t.Element = r.read(further, depth+1)
	}
	return t
}

// literals returns the type of a list of values. Those that no literal can have stand for all of their kind.
func literals(values [][]byte) *Type {
	if len(values) > maxValues {
		values = values[:0:0]
	}
	var types []*Type
	for _, value := range values {
		switch jsonscan.KindOf(value) {
		case jsonscan.String:
			types = append(types, &Type{Kind: Literal, Values: []any{jsonscan.Unquote(value)}})
		case jsonscan.Bool:
			types = append(types, &Type{Kind: Literal, Values: []any{string(value) == "true"}})
		case jsonscan.Null:
			types = append(types, &Type{Kind: Null})
		case jsonscan.Number:
			n, err := strconv.ParseInt(string(value), 10, 64)
			switch {
			case err == nil && -maxSafe <= n && n <= maxSafe:
				types = append(types, &Type{Kind: Literal, Values: []any{n}})
			case err == nil:
				types = append(types, &Type{Kind: Integer})
			default:
				types = append(types, &Type{Kind: Number})
			}
		default:
			return &Type{}
		}
	}
	return union(types)
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range names {
		set[name] = true
	}
	return set
}

// list returns the elements of an array, or nil for another value.
func list(array []byte) (elements [][]byte) {
	if jsonscan.KindOf(array) != jsonscan.Array {
		return nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(array, &raw) != nil {
		return nil
	}
	for _, element := range raw {
		elements = append(elements, element)
	}
	return elements
}

// texts returns the strings of an array.
func texts(array []byte) (texts []string) {
	for _, element := range list(array) {
		if jsonscan.KindOf(element) == jsonscan.String {
			texts = append(texts, jsonscan.Unquote(element))
		}
	}
	return texts
}

// text returns the value of a string, or "" for another value.
func text(value []byte) string {
	if jsonscan.KindOf(value) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(value)
}
