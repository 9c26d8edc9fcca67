package main

import (
	"go/ast"
	"slices"
)

// maxSteps bounds how often one type may be declared as another: those of a correct
// program come to an end.
const maxSteps = 100

// declOf returns the declaration of the type that an expression names, past aliases,
// pointers and type arguments; nil if it names none that is known.
func (s *source) declOf(expr ast.Expr, in *sourceFile) (*typeDecl, error) {
	for range maxSteps {
		decl, err := s.named(expr, in)
		if decl == nil || err != nil || !decl.Assign.IsValid() {
			return decl, err
		}
		expr, in = decl.Type, decl.in
	}
	return nil, s.at(expr.Pos(), "the type is declared in a circle")
}

// named returns the declaration of the name in a type expression.
func (s *source) named(expr ast.Expr, in *sourceFile) (*typeDecl, error) {
	switch t := expr.(type) {
	case *ast.ParenExpr:
		return s.named(t.X, in)
	case *ast.StarExpr:
		return s.named(t.X, in)
	case *ast.IndexExpr:
		return s.named(t.X, in)
	case *ast.IndexListExpr:
		return s.named(t.X, in)
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

// path is that of the package whose name a selector has.
func (f *sourceFile) path(selector *ast.SelectorExpr) (string, bool) {
	name, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	path, ok := f.imports[name.Name]
	return path, ok
}

// means reports whether a type expression is one of the names of another package.
func (s *source) means(expr ast.Expr, in *sourceFile, path string, names ...string) (string, error) {
	for range maxSteps {
		switch t := expr.(type) {
		case *ast.ParenExpr:
			expr = t.X
			continue
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

// structOf returns the struct that a type expression stands for, and where it is
// written; nil if it stands for none. A pointer to a struct is no struct.
func (s *source) structOf(expr ast.Expr, in *sourceFile) (*ast.StructType, *sourceFile, error) {
	for range maxSteps {
		switch t := expr.(type) {
		case *ast.StructType:
			return t, in, nil
		case *ast.StarExpr:
			return nil, nil, nil
		case *ast.ParenExpr:
			expr = t.X
			continue
		}
		decl, err := s.named(expr, in)
		if decl == nil || err != nil {
			return nil, nil, err
		}
		expr, in = decl.Type, decl.in
	}
	return nil, nil, nil
}
