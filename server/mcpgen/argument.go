package main

import (
	"go/ast"
	"reflect"
	"strconv"
	"strings"
)

// The annotations whose methods have descriptions. Completions have none.
const (
	toolTag     = "ToolTag"
	resourceTag = "ResourceTag"
	promptTag   = "PromptTag"
)

// arguments are the annotated struct that a method takes.
type arguments struct {
	tag string // toolTag and its like
	of  *ast.StructType
	in  *sourceFile
}

// argumentsOf finds out what a method takes, nil if that does not make it a tool, a
// resource or a prompt.
func (s *source) argumentsOf(m method) (*arguments, error) {
	var found *arguments
	takesContext := false
	for _, parameter := range m.of.Params.List {
		name, err := s.means(parameter.Type, m.in, "context", "Context")
		if err != nil {
			return nil, err
		}
		if name != "" {
			takesContext = true
		} else if of, err := s.annotated(parameter.Type, m.in); err != nil {
			return nil, err
		} else if of != nil {
			found = of
		}
	}
	if !takesContext {
		return nil, nil
	}
	return found, nil
}

// annotated returns the struct that a type expression stands for, if it has an
// annotation.
func (s *source) annotated(expr ast.Expr, in *sourceFile) (*arguments, error) {
	of, in, err := s.structOf(expr, in)
	if err != nil {
		return nil, err
	}
	for _, f := range fieldsIn(of) {
		if f.name != "_" {
			continue
		}
		tag, err := s.means(f.Type, in, serverPath, toolTag, resourceTag, promptTag)
		if err != nil {
			return nil, err
		}
		if tag != "" {
			return &arguments{tag, of, in}, nil
		}
	}
	return nil, nil
}

// An argument is a member of a method's arguments, under its JSON name.
type argument struct{ name, text string }

// fieldsOf lists the members of arguments, those of embedded structs after those
// around them. Of one name the shallowest counts.
func (s *source) fieldsOf(of *arguments) ([]argument, error) {
	type structIn struct {
		of *ast.StructType
		in *sourceFile
	}
	var list []argument
	taken := map[string]bool{}
	seen := map[*ast.StructType]bool{of.of: true}
	for queue := []structIn{{of.of, of.in}}; len(queue) > 0; queue = queue[1:] {
		here := queue[0]
		for _, f := range fieldsIn(here.of) {
			name, named := f.jsonName()
			switch {
			case name == "":
			case f.embedded && !named:
				embedded := f.Type
				if pointer, ok := embedded.(*ast.StarExpr); ok {
					embedded = pointer.X
				}
				inner, in, err := s.structOf(embedded, here.in)
				if err != nil {
					return nil, err
				}
				if inner != nil && !seen[inner] {
					seen[inner] = true
					queue = append(queue, structIn{inner, in})
				}
			case !taken[name]:
				taken[name] = true
				doc := f.Doc
				if doc.Text() == "" {
					doc = f.Comment
				}
				list = append(list, argument{name, here.in.describe(f.name, doc)})
			}
		}
	}
	return list, nil
}

// jsonName is the name of a field's member, and whether a tag gives it. It is empty if
// there is no such member.
func (f structField) jsonName() (name string, named bool) {
	var tag reflect.StructTag
	if f.Tag != nil {
		if text, err := strconv.Unquote(f.Tag.Value); err == nil {
			tag = reflect.StructTag(text)
		}
	}
	encoded := tag.Get("json")
	if encoded == "-" || tag.Get("jsonschema") == "-" || !f.embedded && !ast.IsExported(f.name) {
		return "", false
	}
	name, _, _ = strings.Cut(encoded, ",")
	if quoted, ok := strings.CutPrefix(encoded, "'"); ok { // in quotes a name may have commas
		if inner, _, ok := strings.Cut(quoted, "'"); ok {
			name = inner
		}
	}
	if name == "" {
		return f.name, false
	}
	return name, true
}
