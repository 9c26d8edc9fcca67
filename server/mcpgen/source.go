package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// serverPath is the package of the annotations.
const serverPath = "github.com/dovetail-go/dovetail/server"

// A source parses a package and the packages of the types that it uses. It does not type-check.
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
	names   map[string]bool     // all identifiers of the package level
}

// A sourceFile resolves the names in a file.
type sourceFile struct {
	pkg     *sourcePackage
	imports map[string]string // paths by name
}

// A typeDecl is the declaration of a type.
type typeDecl struct {
	*ast.TypeSpec
	in *sourceFile
}

// A method is a method of a type or interface.
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

// at returns an error with its position.
func (s *source) at(pos token.Pos, format string, args ...any) error {
	position := s.fset.Position(pos)
	return fmt.Errorf("%s:%d: %w", position.Filename, position.Line, fmt.Errorf(format, args...))
}

// own parses the package in the folder.
func (s *source) own() (*sourcePackage, error) {
	pkg, err := s.read(s.folder)
	if err == nil && pkg.name == "" {
		err = fmt.Errorf("%s: it contains no Go files", s.folder)
	}
	return pkg, err
}

// imported parses another package. Packages of the standard library, which have no annotations, are
// returned empty.
func (s *source) imported(path string, from token.Pos) (*sourcePackage, error) {
	if pkg, ok := s.packages[path]; ok {
		return pkg, nil
	}
	folder, err := filepath.Abs(s.folder)
	if err != nil {
		return nil, err
	}
	inModule := s.context
	inModule.Dir = folder // go/build runs the go command, which needs the folder of this module
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

// read parses the files of a folder that a build uses, without tests and the file of mcpgen.
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
			return nil, s.at(file.Name.Pos(), "it is in package %s, but another file is in package %s", file.Name.Name, pkg.name)
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

// namedType returns the name in a type expression, without pointers, parentheses and type
// arguments.
func namedType(expr ast.Expr) ast.Expr {
	for {
		switch t := expr.(type) {
		case *ast.StarExpr:
			expr = t.X
		case *ast.ParenExpr:
			expr = t.X
		case *ast.IndexExpr:
			expr = t.X
		case *ast.IndexListExpr:
			expr = t.X
		default:
			return expr
		}
	}
}

// typeName returns the name of the type in an expression, without its package. It is also the name
// of an embedded field.
func typeName(expr ast.Expr) string {
	switch t := namedType(expr).(type) {
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

// usualName returns the usual name of a package: the last element of its path, without a version.
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

// maxSteps bounds a chain of type declarations, which is circular in an invalid program.
const maxSteps = 100

// declOf returns the declaration of the type in an expression. It follows aliases and ignores
// pointers and type arguments. The result is nil for an unknown type.
func (s *source) declOf(expr ast.Expr, in *sourceFile) (*typeDecl, error) {
	for range maxSteps {
		decl, err := s.named(expr, in)
		if decl == nil || err != nil || !decl.Assign.IsValid() {
			return decl, err
		}
		expr, in = decl.Type, decl.in
	}
	return nil, s.at(expr.Pos(), "the type is declared circularly")
}

// named returns the declaration of the name in a type expression.
func (s *source) named(expr ast.Expr, in *sourceFile) (*typeDecl, error) {
	switch t := namedType(expr).(type) {
	case *ast.Ident:
		return in.pkg.types[t.Name], nil
	case *ast.SelectorExpr:
		path, ok := in.path(t)
		if !ok {
			return nil, nil
		}
		pkg, err := s.imported(path, t.Pos())
		if err != nil {
			return nil, err
		}
		return pkg.types[t.Sel.Name], nil
	}
	return nil, nil
}

// path returns the import path of the package in a selector.
func (f *sourceFile) path(selector *ast.SelectorExpr) (string, bool) {
	name, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	path, ok := f.imports[name.Name]
	return path, ok
}

// means returns the name that a type expression denotes, if it is one of names in the package path.
// Otherwise it returns "".
func (s *source) means(expr ast.Expr, in *sourceFile, path string, names ...string) (string, error) {
	for range maxSteps {
		expr = ast.Unparen(expr)
		switch t := expr.(type) {
		case *ast.SelectorExpr:
			if from, ok := in.path(t); ok && from == path {
				if slices.Contains(names, t.Sel.Name) {
					return t.Sel.Name, nil
				}
				return "", nil
			}
		case *ast.Ident:
		default:
			return "", nil
		}
		decl, err := s.named(expr, in)
		if decl == nil || err != nil || !decl.Assign.IsValid() {
			return "", err
		}
		expr, in = decl.Type, decl.in
	}
	return "", nil
}

// structOf returns the struct that a type expression denotes, and its file. The result is nil for
// other types, including pointers to structs.
func (s *source) structOf(expr ast.Expr, in *sourceFile) (*ast.StructType, *sourceFile, error) {
	for range maxSteps {
		expr = ast.Unparen(expr)
		switch t := expr.(type) {
		case *ast.StructType:
			return t, in, nil
		case *ast.StarExpr:
			return nil, nil, nil
		}
		decl, err := s.named(expr, in)
		if decl == nil || err != nil {
			return nil, nil, err
		}
		expr, in = decl.Type, decl.in
	}
	return nil, nil, nil
}
