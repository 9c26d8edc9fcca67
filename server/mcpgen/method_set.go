package main

import (
	"cmp"
	"go/ast"
	"slices"
)

// An embedding is a type at some depth within another.
type embedding struct {
	decl    *typeDecl
	pointer bool // its methods with pointer receivers need no pointer to the outer type
}

// methodSet returns the methods of a type, promoted ones too, by their names. Of one
// name the shallowest counts, and none where two are as shallow.
func (s *source) methodSet(of *typeDecl) ([]method, error) {
	var methods []method
	hidden := map[string]bool{} // names at a smaller depth
	seen := map[*typeDecl]bool{of: true}
	for level := []embedding{{decl: of}}; len(level) > 0; {
		here := map[string][]*method{} // nil for a field
		var next []embedding
		for _, e := range level {
			for _, m := range e.decl.declared() {
				m.pointer = m.pointer && !e.pointer
				here[m.name] = append(here[m.name], &m)
			}
			fields, in, err := s.structOf(e.decl.Type, e.decl.in)
			if err != nil {
				return nil, err
			}
			for _, f := range fieldsIn(fields) {
				here[f.name] = append(here[f.name], nil)
				if !f.embedded {
					continue
				}
				inner, err := s.declOf(f.Type, in)
				if err != nil {
					return nil, err
				}
				if inner != nil && !seen[inner] {
					seen[inner] = true
					_, pointer := f.Type.(*ast.StarExpr)
					next = append(next, embedding{inner, e.pointer || pointer})
				}
			}
		}
		for name, found := range here {
			if len(found) == 1 && found[0] != nil && !hidden[name] {
				methods = append(methods, *found[0])
			}
		}
		for name := range here {
			hidden[name] = true
		}
		level = next
	}
	slices.SortFunc(methods, func(a, b method) int { return cmp.Compare(a.name, b.name) })
	return methods, nil
}

// declared are the methods of the type itself, or those that an interface lists.
func (d *typeDecl) declared() []method {
	abstract, ok := d.Type.(*ast.InterfaceType)
	if !ok {
		return d.in.pkg.methods[d.Name.Name]
	}
	var methods []method
	for _, m := range abstract.Methods.List {
		if of, ok := m.Type.(*ast.FuncType); ok {
			for _, name := range m.Names {
				methods = append(methods, method{name: name.Name, doc: m.Doc, of: of, in: d.in, pos: name.Pos()})
			}
		}
	}
	return methods
}

// A structField is one field with one name.
type structField struct {
	*ast.Field
	name     string
	embedded bool
}

// fieldsIn are the fields of a struct, none of nil.
func fieldsIn(of *ast.StructType) []structField {
	if of == nil {
		return nil
	}
	var fields []structField
	for _, f := range of.Fields.List {
		for _, name := range f.Names {
			fields = append(fields, structField{f, name.Name, false})
		}
		if len(f.Names) == 0 {
			fields = append(fields, structField{f, typeName(f.Type), true})
		}
	}
	return fields
}
