package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A service is a type with methods that AddService registers.
type service struct {
	name       string // of the type
	parameters int    // of the type, if it is generic
	pointer    bool   // some methods need a pointer
	texts      []text
}

// A text is the description of a method or of a field of its arguments.
type text struct{ key, value string }

// services returns the services of a package, sorted by name.
func (s *source) services(pkg *sourcePackage) ([]service, error) {
	var services []service
	for _, name := range slices.Sorted(maps.Keys(pkg.types)) {
		decl := pkg.types[name]
		if _, abstract := decl.Type.(*ast.InterfaceType); abstract || decl.Assign.IsValid() {
			continue
		}
		found, err := s.service(decl)
		if err != nil {
			return nil, err
		}
		if found != nil {
			services = append(services, *found)
		}
	}
	if len(services) == 0 {
		return nil, fmt.Errorf("%s: there is no service in package %s: no exported method takes a context.Context and "+
			"a struct with a blank field of type server.ToolTag, server.ResourceTag or server.PromptTag", s.folder, pkg.name)
	}
	return services, nil
}

// service returns the service of a type, or nil.
func (s *source) service(decl *typeDecl) (*service, error) {
	methods, err := s.methodSet(decl)
	if err != nil {
		return nil, err
	}
	var found *service
	for _, m := range methods {
		if !ast.IsExported(m.name) {
			continue
		}
		arguments, err := s.argumentsOf(m)
		if err != nil {
			return nil, err
		}
		if arguments == nil {
			continue
		}
		if found == nil {
			found = &service{name: decl.Name.Name}
			if decl.TypeParams != nil {
				found.parameters = decl.TypeParams.NumFields()
			}
		}
		found.pointer = found.pointer || m.pointer
		if err := s.describe(found, m, arguments); err != nil {
			return nil, err
		}
	}
	if found == nil {
		return nil, nil
	}
	for _, m := range decl.in.pkg.methods[decl.Name.Name] {
		if m.name == "Descriptions" {
			return nil, s.at(m.pos, "%s has a method Descriptions already: delete it or do not use mcpgen", decl.Name.Name)
		}
	}
	return found, nil
}

// describe adds the descriptions of a method and of its arguments.
func (s *source) describe(of *service, m method, arguments *arguments) error {
	if description := m.in.describe(m.name, m.doc); description != "" {
		of.texts = append(of.texts, text{m.name, description})
	}
	if arguments.tag == resourceTag {
		return nil // the variables of a template have no descriptions
	}
	fields, err := s.fieldsOf(arguments)
	if err != nil {
		return err
	}
	for _, field := range fields {
		if field.text != "" {
			of.texts = append(of.texts, text{m.name + "." + field.name, field.text})
		}
	}
	return nil
}

// An embedding is an embedded type.
type embedding struct {
	decl    *typeDecl
	pointer bool // its methods with pointer receivers need no pointer to the outer type
}

// methodSet returns the methods of a type, including promoted ones, sorted by name. As in Go, the
// shallowest method of a name is promoted, and none if there are two at that depth.
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

// declared returns the methods of the type itself, or of an interface.
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

// A structField is a field with one name.
type structField struct {
	*ast.Field
	name     string
	embedded bool
}

// fieldsIn returns the fields of a struct, which may be nil.
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

// Annotations of methods with descriptions.
const (
	toolTag     = "ToolTag"
	resourceTag = "ResourceTag"
	promptTag   = "PromptTag"
)

// arguments is the annotated struct that a method takes.
type arguments struct {
	tag string // such as toolTag
	of  *ast.StructType
	in  *sourceFile
}

// argumentsOf returns the arguments of a tool, resource or prompt, and nil for another method.
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

// annotated returns the struct that a type expression denotes, if it has an annotation.
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

// An argument is a member of the arguments of a method. Its name is the JSON name.
type argument struct{ name, text string }

// fieldsOf returns the members of arguments, with the members of embedded structs at the end. The
// shallowest member of a name is used.
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

// jsonName returns the JSON name of a field, and whether a tag defines it. The name is empty if the
// field is not encoded.
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
	if quoted, ok := strings.CutPrefix(encoded, "'"); ok { // a quoted name may contain commas
		if inner, _, ok := strings.Cut(quoted, "'"); ok {
			name = inner
		}
	}
	if name == "" {
		return f.name, false
	}
	return name, true
}

// describe returns the first paragraph of a comment on one line, without the name that it begins
// with.
func (f *sourceFile) describe(name string, doc *ast.CommentGroup) string {
	parser := comment.Parser{
		LookupPackage: func(name string) (string, bool) { path, ok := f.imports[name]; return path, ok },
		LookupSym:     func(string, string) bool { return true },
	}
	for _, block := range parser.Parse(doc.Text()).Content {
		if paragraph, ok := block.(*comment.Paragraph); ok {
			printer := comment.Printer{TextWidth: -1}
			text := printer.Text(&comment.Doc{Content: []comment.Block{paragraph}})
			return withoutName(name, strings.TrimSpace(string(text)))
		}
	}
	return ""
}

// withoutName removes the name that a comment begins with, if the rest is complete: "Search finds
// items." becomes "Finds items.", and "Query is the search term" becomes "The search term". "Limit
// must not be negative" is unchanged.
func withoutName(name, text string) string {
	rest, ok := strings.CutPrefix(text, name+" ")
	if !ok {
		return text
	}
	verb, after, more := strings.Cut(rest, " ")
	switch {
	case verb == "is" || verb == "are":
		if !more {
			return text
		}
		rest = after
	case !isVerb(strings.TrimRight(verb, ".,;:")):
		return text
	}
	first, size := utf8.DecodeRuneInString(rest)
	return string(unicode.ToUpper(first)) + rest[size:]
}

// isVerb reports whether a word is probably a verb in the third person: lower case and with a
// final s. Other such words, as in "Fail always fails", can begin a sentence as well.
func isVerb(word string) bool {
	return strings.HasSuffix(word, "s") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == ""
}
