package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// limitFolders are the packages whose type Limits has the limits of one side.
var limitFolders = []string{"transport", "transport/store", "client"}

// Each field of a type Limits has a test that reaches the limit, named TestLimit and the field,
// and a row in the guide with its default and its reason.
func TestLimitsAreTested(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	var fields []string
	for _, file := range moduleSources(t) {
		if file.isTest() {
			for _, decl := range file.syntax.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
					tests[f.Name.Name] = true
				}
			}
		} else if slices.Contains(limitFolders, file.folder()) {
			for _, name := range limitFields(file.syntax) {
				fields = append(fields, path.Base(file.folder())+".Limits."+name)
			}
		}
	}
	if len(fields) == 0 {
		t.Error("there is no type Limits")
	}
	for _, field := range fields {
		if name := "TestLimit" + field[strings.LastIndex(field, ".")+1:]; !tests[name] {
			t.Errorf("no test reaches %s: expected a function %s", field, name)
		}
		if !strings.Contains(string(text), "\n| `"+field+"` | ") {
			t.Errorf("docs/limits.md has no row for %s", field)
		}
	}
}

// limitFields returns the names of the fields of the type Limits.
func limitFields(file *ast.File) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Limits" {
			return true
		}
		if body, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range body.Fields.List {
				for _, name := range field.Names {
					names = append(names, name.Name)
				}
			}
		}
		return false
	})
	return names
}
