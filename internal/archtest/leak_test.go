package archtest

import (
	"go/ast"
	"testing"
)

// Every package with tests looks for goroutines that its tests left behind.
func TestTestsCheckForLeaks(t *testing.T) {
	checked := map[string]bool{}
	for _, file := range moduleSources(t) {
		if file.isTest() {
			checked[file.folder()] = checked[file.folder()] || callsLeakMain(file)
		}
	}
	delete(checked, "internal/leak") // tests the check itself
	for folder, ok := range checked {
		if !ok {
			t.Errorf("package %s has tests, but no TestMain that calls leak.Main", folder)
		}
	}
}

func TestLeakRule(t *testing.T) {
	notice := func(file *source) []finding {
		if callsLeakMain(file) {
			return []finding{{file.path, 1, "calls leak.Main"}}
		}
		return nil
	}
	planted(t, "leak_main.go", "server/main_test.go", notice)
	planted(t, "leak_other.go", "server/main_test.go", notice)
}

func callsLeakMain(file *source) bool {
	calls := false
	for _, decl := range file.syntax.Decls {
		main, ok := decl.(*ast.FuncDecl)
		if !ok || main.Name.Name != "TestMain" {
			continue
		}
		ast.Inspect(main, func(node ast.Node) bool {
			if call, ok := node.(*ast.SelectorExpr); ok && call.Sel.Name == "Main" {
				x, ok := call.X.(*ast.Ident)
				calls = calls || ok && (x.Name == "leak" || x.Name == "everywhere") // the latter calls the former
			}
			return true
		})
	}
	return calls
}
