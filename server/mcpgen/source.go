package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// serverPath is the package whose annotations make a method one of a service.
const serverPath = "github.com/dovetail-go/dovetail/server"

// A source reads packages: the one that is described, and those that its types come
// from. It knows what they declare; nothing is type-checked.
type source struct {
	folder   string
	fset     *token.FileSet
	context  build.Context
	packages map[string]*sourcePackage // by import path
}

// A sourcePackage is the syntax of one package.
type sourcePackage struct {
	name    string
	types   map[string]*typeDecl
	methods map[string][]method // by the name of the receiver's type
	names   map[string]bool     // of everything on the package's level
}

// A sourceFile is what names in a file mean.
type sourceFile struct {
	pkg     *sourcePackage
	imports map[string]string // paths by names
}

// A typeDecl is the declaration of a type.
type typeDecl struct {
	*ast.TypeSpec
	in *sourceFile
}

// A method is one of a type or of an interface.
type method struct {
	name    string
	doc     *ast.CommentGroup
	of      *ast.FuncType
	in      *sourceFile
	pos     token.Pos
	pointer bool // has a pointer receiver
}

func newSource(folder string) *source {
	return &source{folder: folder, fset: token.NewFileSet(), context: build.Default, packages: map[string]*sourcePackage{}}
}

// at is an error with its place.
func (s *source) at(pos token.Pos, format string, args ...any) error {
	place := s.fset.Position(pos)
	return fmt.Errorf("%s:%d: %w", place.Filename, place.Line, fmt.Errorf(format, args...))
}

// own reads the package that is described.
func (s *source) own() (*sourcePackage, error) {
	pkg, err := s.read(s.folder)
	if err == nil && pkg.name == "" {
		err = fmt.Errorf("%s: there are no Go files in it", s.folder)
	}
	return pkg, err
}

// imported reads another package. One of the standard library counts as empty: nothing
// there is annotated.
func (s *source) imported(path string, from token.Pos) (*sourcePackage, error) {
	if pkg, ok := s.packages[path]; ok {
		return pkg, nil
	}
	folder, err := filepath.Abs(s.folder)
	if err != nil {
		return nil, err
	}
	inModule := s.context
	inModule.Dir = folder // go/build asks the go command, which must run in this module
	found, err := inModule.Import(path, folder, build.FindOnly)
	if err != nil {
		return nil, s.at(from, "package %s cannot be found: %v", path, err)
	}
	pkg := &sourcePackage{}
	if !found.Goroot {
		if pkg, err = s.read(found.Dir); err != nil {
			return nil, err
		}
	}
	s.packages[path] = pkg
	return pkg, nil
}

// read parses the files of a folder that a build would take, without tests and without
// what mcpgen itself wrote.
func (s *source) read(folder string) (*sourcePackage, error) {
	pkg := &sourcePackage{types: map[string]*typeDecl{}, methods: map[string][]method{}, names: map[string]bool{}}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == outputName {
			continue
		}
		if match, err := s.context.MatchFile(folder, name); err != nil {
			return nil, err
		} else if !match {
			continue
		}
		file, err := parser.ParseFile(s.fset, filepath.Join(folder, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if pkg.name == "" {
			pkg.name = file.Name.Name
		}
		if file.Name.Name != pkg.name {
			return nil, s.at(file.Name.Pos(), "it is of package %s, and a file before it of package %s", file.Name.Name, pkg.name)
		}
		pkg.add(file)
	}
	return pkg, nil
}

func (p *sourcePackage) add(syntax *ast.File) {
	in := &sourceFile{pkg: p, imports: map[string]string{}}
	for _, spec := range syntax.Imports {
		path := strings.Trim(spec.Path.Value, "`\"")
		name := usualName(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		in.imports[name] = path
	}
	for _, decl := range syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			p.addFunc(decl, in)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				p.addSpec(spec, in)
			}
		}
	}
}

func (p *sourcePackage) addFunc(decl *ast.FuncDecl, in *sourceFile) {
	if decl.Recv == nil {
		p.names[decl.Name.Name] = true
		return
	}
	for _, receiver := range decl.Recv.List {
		_, pointer := receiver.Type.(*ast.StarExpr)
		name := typeName(receiver.Type)
		p.methods[name] = append(p.methods[name], method{decl.Name.Name, decl.Doc, decl.Type, in, decl.Name.Pos(), pointer})
	}
}

// typeName is the name of the type that an expression names, without its package: that
// of an embedded field, too.
func typeName(expr ast.Expr) string {
	switch t := expr.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.ParenExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func (p *sourcePackage) addSpec(spec ast.Spec, in *sourceFile) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		p.names[spec.Name.Name] = true
		p.types[spec.Name.Name] = &typeDecl{spec, in}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			p.names[name.Name] = true
		}
	}
}

// usualName is the name of a package that is imported without one: the last element of
// its path that is no version.
func usualName(path string) string {
	elements := strings.Split(path, "/")
	last := elements[len(elements)-1]
	if len(elements) > 1 && isVersion(last) {
		last = elements[len(elements)-2]
	}
	if name, version, ok := strings.Cut(last, "."); ok && isVersion(version) {
		return name
	}
	return last
}

func isVersion(element string) bool {
	digits, ok := strings.CutPrefix(element, "v")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
