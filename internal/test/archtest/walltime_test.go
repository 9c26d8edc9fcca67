package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// A test that fails if something takes long fails on a busy machine. Wait for an event with
// internal/test/waittest, compare CPU time with internal/test/cputest, or use testing/synctest.
func TestTestsDoNotCompareWallTime(t *testing.T) {
	byFolder := map[string][]*source{}
	for _, file := range moduleSources(t) {
		if file.isTest() {
			byFolder[file.folder()] = append(byFolder[file.folder()], file)
		}
	}
	for _, files := range byFolder {
		for _, f := range comparesWallTime(files) {
			t.Error(f)
		}
	}
}

func TestWallTimeRule(t *testing.T) {
	planted(t, "walltime.go", "server/planted_test.go", func(file *source) []finding {
		return comparesWallTime([]*source{file})
	})
}

// comparesWallTime finds upper limits of measured durations in the test functions of a package,
// outside virtual time. Conditions of loops are permitted, since a loop may wait for an event,
// and so are lower limits, which a busy machine does not break. Other functions of the tests
// may be called in virtual time and are not checked.
func comparesWallTime(files []*source) []finding {
	bubbles := startsBubbles(files)
	var found []finding
	for _, file := range files {
		for _, decl := range file.syntax.Decls {
			test, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(test.Name.Name, "Test") {
				continue
			}
			var durations []string
			var condition ast.Node // of the innermost loop so far
			ast.Inspect(test, func(node ast.Node) bool {
				if node != nil && node == condition {
					return false
				}
				switch node := node.(type) {
				case *ast.ForStmt:
					condition = node.Cond
				case *ast.CallExpr:
					return !bubbles(node)
				case *ast.AssignStmt:
					for i, value := range node.Rhs {
						if name, ok := node.Lhs[i].(*ast.Ident); ok && isMeasured(value, durations) {
							durations = append(durations, name.Name)
						}
					}
				case *ast.BinaryExpr:
					x, y := isMeasured(node.X, durations), isMeasured(node.Y, durations)
					switch node.Op {
					case token.GTR, token.GEQ:
						y = false
					case token.LSS, token.LEQ:
						x = false
					case token.EQL, token.NEQ:
					default:
						return true
					}
					if x || y {
						found = append(found, file.at(node.Pos(), "an upper limit of wall time"))
					}
				}
				return true
			})
		}
	}
	return found
}

// startsBubbles returns a function that reports whether a call runs its arguments in virtual
// time: a call of synctest.Test, or of a function of these files that calls it.
func startsBubbles(files []*source) func(*ast.CallExpr) bool {
	var names []string
	bubbles := func(call *ast.CallExpr) bool {
		switch called := call.Fun.(type) {
		case *ast.Ident:
			return slices.Contains(names, called.Name)
		case *ast.SelectorExpr:
			x, ok := called.X.(*ast.Ident)
			return ok && x.Name == "synctest" && called.Sel.Name == "Test"
		}
		return false
	}
	for before := -1; before < len(names); {
		before = len(names)
		for _, file := range files {
			for _, decl := range file.syntax.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || strings.HasPrefix(f.Name.Name, "Test") || slices.Contains(names, f.Name.Name) {
					continue
				}
				calls := false
				ast.Inspect(f, func(node ast.Node) bool {
					call, ok := node.(*ast.CallExpr)
					calls = calls || ok && bubbles(call)
					return !calls
				})
				if calls {
					names = append(names, f.Name.Name)
				}
			}
		}
	}
	return bubbles
}

// isMeasured reports whether an expression contains a call of time.Since or one of the variables.
func isMeasured(e ast.Expr, durations []string) bool {
	is := false
	ast.Inspect(e, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.Ident:
			is = is || slices.Contains(durations, node.Name)
		case *ast.SelectorExpr:
			x, ok := node.X.(*ast.Ident)
			is = is || ok && x.Name == "time" && node.Sel.Name == "Since"
		}
		return true
	})
	return is
}
