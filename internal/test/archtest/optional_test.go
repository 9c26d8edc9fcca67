package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each interface that code looks for by a type assertion is in the table of docs/architecture.md, so its comment says
// who looks for it, on what, and what happens without it.
func TestOptionalInterfacesAreListed(t *testing.T) {
	files := slices.DeleteFunc(slices.Clone(moduleSources(t)), (*source).isTest)
	declared, listed := interfacesOf(files), optionalInterfaces(t)
	enforceIn(t, files, assertsUnlisted(declared, listed), nil)
	for _, name := range listed {
		if !slices.Contains(declared, name) {
			t.Errorf("docs/architecture.md lists %s, but there is no such interface", name)
		}
	}
}

func TestOptionalInterfaceRule(t *testing.T) {
	planted(t, "optional.go", "server/planted.go", assertsUnlisted(
		[]string{"planted.closer", "planted.opener", "transport.CallPeer"}, []string{"planted.opener"}))
	planted(t, "clean.go", "server/planted.go", assertsUnlisted(nil, nil))
}

var firstColumn = regexp.MustCompile(`(?m)^\|.*?\|`)

// optionalInterfaces returns the names in the first column of the table, with their packages.
func optionalInterfaces(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Optional interfaces\n")
	section, _, _ = strings.Cut(section, "\n## ")
	column := strings.Join(firstColumn.FindAllString(section, -1), "")
	names := regexp.MustCompile(`[a-z]+\.[A-Za-z]+`).FindAllString(column, -1)
	if len(names) == 0 {
		t.Fatal("docs/architecture.md has no table of optional interfaces")
	}
	return names
}

// interfacesOf returns the names of the interfaces that files declare, with their packages.
func interfacesOf(files []*source) (names []string) {
	for _, file := range files {
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					names = append(names, file.syntax.Name.Name+"."+spec.Name.Name)
				}
			}
			return true
		})
	}
	return names
}

// assertsUnlisted finds type assertions to declared interfaces that are not listed, and to interfaces without a name.
func assertsUnlisted(declared, listed []string) rule {
	return func(file *source) (found []finding) {
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			assertion, ok := n.(*ast.TypeAssertExpr)
			if !ok {
				return true
			}
			var name string
			switch of := assertion.Type.(type) {
			case *ast.InterfaceType:
				found = append(found, file.at(assertion.Pos(), "an interface without a name: name it, and add it to docs/architecture.md"))
			case *ast.Ident:
				name = file.syntax.Name.Name + "." + of.Name
			case *ast.SelectorExpr:
				if pkg, ok := of.X.(*ast.Ident); ok {
					name = pkg.Name + "." + of.Sel.Name
				}
			}
			if slices.Contains(declared, name) && !slices.Contains(listed, name) {
				found = append(found, file.at(assertion.Pos(), "%s is not in the table of optional interfaces in docs/architecture.md", name))
			}
			return true
		})
		return found
	}
}
