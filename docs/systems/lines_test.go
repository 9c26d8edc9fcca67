package systems_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// maxLines is the maximum number of lines of all examples together.
const maxLines = 210

// The examples are as short as those of the systems. The lines of the bodies of all functions count, except for blank lines,
// comments and the lines that handle errors.
func TestExamplesAreShort(t *testing.T) {
	examples, total := 0, 0
	for _, name := range []string{
		"ipybox_test.go", "agentruntimes_test.go", "roomkit_test.go", "iitool_test.go", "lauren_test.go", "../../server/openapi/lauren_test.go",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.FromSlash(name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if strings.HasPrefix(fn.Name.Name, "Example") {
				examples++
			}
			lines := codeLines(fset, fn.Body)
			t.Logf("%-30s %d", fn.Name.Name, lines)
			total += lines
		}
	}
	if examples != 23 || total > maxLines {
		t.Errorf("%d examples have %d lines, want 23 with at most %d", examples, total, maxLines)
	}
}

// codeLines returns the number of lines in which a node begins or ends, except those that only handle an error.
func codeLines(fset *token.FileSet, body *ast.BlockStmt) int {
	line := func(pos token.Pos) int { return fset.Position(pos).Line }
	lines := make(map[int]bool)
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil || n == body {
			return n != nil
		}
		lines[line(n.Pos())], lines[line(n.End()-1)] = true, true
		check, ok := n.(*ast.IfStmt)
		if !ok || !handlesError(check) {
			return true
		}
		if check.Init == nil {
			delete(lines, line(check.Pos()))
		}
		delete(lines, line(check.End()-1))
		return false
	})
	return len(lines)
}

// handlesError reports whether a statement is "if err != nil" with one statement.
func handlesError(s *ast.IfStmt) bool {
	condition, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || condition.Op != token.NEQ || s.Else != nil || len(s.Body.List) != 1 {
		return false
	}
	checked, ok := condition.X.(*ast.Ident)
	return ok && checked.Name == "err"
}
