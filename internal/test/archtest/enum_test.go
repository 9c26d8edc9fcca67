package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// A log or an error with the number of an enum does not say which value that is.
func TestEnumsHaveString(t *testing.T) {
	enforce(t, lacksString, exceptions{
		"jsonrpc/error.go": "a Code is a number for peers and in their documentation",
	})
}

func TestEnumRule(t *testing.T) {
	planted(t, "enum.go", "server/planted.go", lacksString)
	planted(t, "clean.go", "server/planted.go", lacksString)
}

var integers = []string{"int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64"}

// lacksString finds exported integer types with constants and without a String method.
func lacksString(file *source) []finding {
	if file.isTest() || file.isMain() || file.isInternal() {
		return nil
	}
	types, enums, described := map[string]*ast.Ident{}, map[string]bool{}, map[string]bool{}
	for _, decl := range file.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil && decl.Name.Name == "String" {
				described[receiver(decl)] = true
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if of, ok := spec.Type.(*ast.Ident); ok && spec.Name.IsExported() && slices.Contains(integers, of.Name) {
						types[spec.Name.Name] = spec.Name
					}
				case *ast.ValueSpec:
					if of, ok := spec.Type.(*ast.Ident); ok && decl.Tok == token.CONST {
						enums[of.Name] = true
					}
				}
			}
		}
	}
	var found []finding
	for name, ident := range types {
		if enums[name] && !described[name] {
			found = append(found, file.at(ident.Pos(), "%s has constants and no method String", name))
		}
	}
	return found
}
