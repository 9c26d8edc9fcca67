package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestExportedNamesAreDocumented(t *testing.T) { enforce(t, undocumented, nil) }

func TestDocumentationRule(t *testing.T) {
	planted(t, "undocumented.go", "server/planted.go", undocumented)
	planted(t, "clean.go", "server/planted.go", undocumented)
}

// A package's comment stands in doc.go, a command's in main.go, and that of a small
// internal package may stand in the file that has its name.
func TestPackagesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range moduleSources(t) {
		if file.isTest() {
			continue
		}
		places := []string{"doc.go"}
		switch {
		case file.isMain():
			places = []string{"main.go"}
		case file.in("internal"):
			places = append(places, file.syntax.Name.Name+".go")
		}
		has := strings.TrimSpace(file.syntax.Doc.Text()) != ""
		if has && !slices.Contains(places, path.Base(file.path)) {
			t.Errorf("%s: the package comment belongs into %s", file.path, places[0])
		}
		documented[file.folder()] = documented[file.folder()] || has
	}
	for folder, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", folder)
		}
	}
}

// selfEvident are the methods that say all with the interface they carry out.
var selfEvident = []string{
	"Error", "Unwrap", "String",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "MarshalJSONTo", "UnmarshalJSONFrom",
}

// undocumented finds exported functions, methods, types, constants and variables
// without a comment. One on a group of constants or variables serves all of it.
func undocumented(file *source) []finding {
	if file.isTest() || file.isMain() {
		return nil
	}
	var found []finding
	missing := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if doc.Text() != "" {
				return
			}
		}
		if name.IsExported() {
			found = append(found, file.at(name.Pos(), "%s has no comment", name.Name))
		}
	}
	for _, decl := range file.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			isMethod := decl.Recv != nil
			if isMethod && (!ast.IsExported(receiver(decl)) || slices.Contains(selfEvident, decl.Name.Name)) {
				break
			}
			missing(decl.Name, decl.Doc)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					missing(spec.Name, spec.Doc, decl.Doc)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						missing(name, spec.Doc, spec.Comment, decl.Doc)
					}
				}
			}
		}
	}
	return found
}

// receiver returns the name of the type that a method belongs to.
func receiver(method *ast.FuncDecl) string {
	expr := method.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
