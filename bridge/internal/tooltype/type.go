package tooltype

import "slices"

// A Kind is the kind of a [Type].
type Kind int

// The kinds of types.
const (
	Any     Kind = iota // any value
	Null                // null
	Boolean             // a boolean
	Integer             // a whole number
	Number              // a number
	String              // a string
	Literal             // one of Values
	Array               // an array of Element
	Map                 // an object with any names and values of Element
	Object              // an object with Fields
	Union               // one of Members
)

// A Type says which values a schema accepts. It must not be changed.
type Type struct {
	Kind Kind
	// Name is the last part of the reference by which a schema refers to the type, "" for a type without
	// references. Only types with a name can contain themselves. It is hostile text.
	Name string
	// Description is the text of the schema. It is hostile text.
	Description string
	// Values are the values of a Literal: string, int64 or bool, each once. Integers are at most 2⁵³-1.
	Values []any
	// Element is the type of elements of an Array and of values of a Map. For an Object it is the type of further
	// values, and nil if there are none.
	Element *Type
	// Fields are the members of an Object in the order of the schema, with unique names.
	Fields []Field
	// Members are at least two types of a Union. It does not contain itself as a member of its members, except
	// inside an Array, a Map or an Object.
	Members []*Type
}

// A Field is a member of an object.
type Field struct {
	Name        string // hostile text
	Description string // hostile text
	Type        *Type
	Required    bool
}

// Flat returns an Object or a Map that accepts all values of t that are objects. It is for languages in which a union of
// objects has to be one struct, or one list of parameters.
func (t *Type) Flat() *Type {
	switch t.Kind {
	case Object, Map:
		return t
	case Union:
		var objects []*Type
		for _, m := range t.Members {
			if flat := m.Flat(); flat.Kind == Object {
				objects = append(objects, flat)
			} else if m.Kind == Map || m.Kind == Any {
				return flat
			}
		}
		if len(objects) > 0 {
			return joined(objects)
		}
	}
	return &Type{Kind: Map, Element: &Type{}}
}

// joined returns an object with the fields of several. A field is required if each object requires it.
func joined(objects []*Type) *Type {
	all := &Type{Kind: Object, Description: objects[0].Description}
	types := make(map[string][]*Type)
	required := make(map[string]int)
	for _, o := range objects {
		if o.Element != nil {
			all.Element = &Type{}
		}
		for _, f := range o.Fields {
			if types[f.Name] == nil {
				all.Fields = append(all.Fields, f)
			}
			types[f.Name] = append(types[f.Name], f.Type)
			if f.Required {
				required[f.Name]++
			}
		}
	}
	for i := range all.Fields {
		f := &all.Fields[i]
		f.Type, f.Required = union(types[f.Name]), required[f.Name] == len(objects)
	}
	return all
}

// maxMembers is the number of members of a union. A union of more is Any.
const maxMembers = 100

// union returns a type of all values of its members.
func union(members []*Type) *Type {
	var flat []*Type
	for _, m := range members {
		if m.Kind == Union && m.Name == "" {
			flat = append(flat, m.Members...)
		} else {
			flat = append(flat, m)
		}
	}
	kinds := make(map[Kind]bool)
	for _, m := range flat {
		kinds[m.Kind] = true
	}
	var made []*Type
	var literal *Type
	for _, m := range flat {
		switch {
		case m.Kind == Any && m.Name == "":
			return &Type{}
		case len(made) > maxMembers || literal != nil && len(literal.Values) > maxValues:
			return &Type{}
		case m.Kind == Integer && kinds[Number], slices.Contains(made, m):
		case m.Kind == Literal:
			if literal == nil {
				literal = &Type{Kind: Literal}
				made = append(made, literal)
			}
			for _, value := range m.Values {
				if kind := kindOf(value); !kinds[kind] && !(kind == Integer && kinds[Number]) && !slices.Contains(literal.Values, value) {
					literal.Values = append(literal.Values, value)
				}
			}
		case m.Kind < Literal && m.Kind != Any && slices.ContainsFunc(made, func(o *Type) bool { return o.Kind == m.Kind }):
		default:
			made = append(made, m)
		}
	}
	made = slices.DeleteFunc(made, func(m *Type) bool { return m == literal && len(literal.Values) == 0 })
	switch {
	case len(made) == 0:
		return &Type{}
	case len(made) == 1:
		return made[0]
	}
	return &Type{Kind: Union, Members: made}
}

// kindOf returns the kind of a value of a literal.
func kindOf(value any) Kind {
	switch value.(type) {
	case string:
		return String
	case int64:
		return Integer
	}
	return Boolean
}

// size is the number of fields that merging the type copies at most.
func (t *Type) size() int {
	size := len(t.Fields)
	if t.Kind == Union {
		for _, m := range t.Members {
			size += len(m.Fields)
		}
	}
	return size
}

// intersect returns a type of the values that both types have, or nil if there are none. It may have more values: it
// looks at the fields of objects, and not inside of them.
func intersect(a, b *Type) *Type {
	if a.Kind != Union && (a.Kind > b.Kind || b.Kind == Union) {
		a, b = b, a
	}
	switch {
	case a.Kind == Any && (a.Name == "" || b.Kind != Any): // a type with a name may not be complete
		return b
	case a == b || b.Kind == Any:
		return a
	case a.Kind == Union:
		if b.Kind == Union && len(a.Members)*len(b.Members) > maxMembers {
			return a
		}
		var both []*Type
		for _, m := range a.Members {
			if m.Kind == Union && m.Name != "" { // it may not be complete
				both = append(both, m)
			} else if one := intersect(m, b); one != nil {
				both = append(both, one)
			}
		}
		if both == nil {
			return nil
		}
		return union(both)
	case b.Kind == Literal:
		return literalOf(b, a)
	case a.Kind == Integer && b.Kind == Number, a.Kind == b.Kind && a.Kind < Literal:
		return a
	case a.Kind == Array && b.Kind == Array, a.Kind == Map && b.Kind == Map:
		if a.Element.Kind == Any {
			return b
		}
		return a
	case a.Kind == Map && b.Kind == Object:
		return b
	case a.Kind == Object && b.Kind == Object:
		return merged(a, b)
	}
	return nil
}

// literalOf returns the values of a literal that another type has, or nil if there are none.
func literalOf(literal, other *Type) *Type {
	var values []any
	for _, value := range literal.Values {
		kind := kindOf(value)
		if kind == other.Kind || kind == Integer && other.Kind == Number || other.Kind == Literal && slices.Contains(other.Values, value) {
			values = append(values, value)
		}
	}
	if values == nil {
		return nil
	}
	return &Type{Kind: Literal, Description: literal.Description, Values: values}
}

// merged returns an object with the fields of both.
func merged(a, b *Type) *Type {
	both := &Type{Kind: Object, Description: a.Description, Fields: slices.Clone(a.Fields), Element: a.Element}
	if both.Description == "" {
		both.Description = b.Description
	}
	if both.Element == nil {
		both.Element = b.Element
	}
	at := make(map[string]int)
	for i, f := range both.Fields {
		at[f.Name] = i
	}
	for _, f := range b.Fields {
		i, exists := at[f.Name]
		if !exists {
			both.Fields = append(both.Fields, f)
			continue
		}
		same := &both.Fields[i]
		same.Required = same.Required || f.Required
		if same.Type.Kind == Any {
			same.Type = f.Type
		}
		if same.Description == "" {
			same.Description = f.Description
		}
	}
	return both
}
