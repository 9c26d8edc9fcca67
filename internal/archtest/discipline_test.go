package archtest

import (
	"go/ast"
	"regexp"
	"testing"
)

func TestNoInitFunctions(t *testing.T)  { enforce(t, declaresInit, nil) }
func TestNoUnfinishedWork(t *testing.T) { enforce(t, leavesWork, nil) }

// A sleep is either too short on a slow machine or too long on a fast one: wait
// for the event, or let testing/synctest turn the clock.
func TestNothingSleeps(t *testing.T) {
	enforce(t, sleeps, exceptions{
		"internal/leak/leak.go": "goroutines end without an event that one could wait for",
	})
}

func TestDisciplineRules(t *testing.T) {
	planted(t, "init.go", "server/planted.go", declaresInit)
	planted(t, "unfinished.go", "server/planted.go", leavesWork)
	planted(t, "sleep.go", "server/planted_test.go", sleeps)
	for _, check := range []rule{declaresInit, leavesWork, sleeps} {
		planted(t, "clean.go", "server/planted.go", check)
	}
}

func declaresInit(file *source) []finding {
	var found []finding
	for _, decl := range file.syntax.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			found = append(found, file.at(f.Pos(), "an init function: importing a package must not do anything"))
		}
	}
	return found
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

func leavesWork(file *source) []finding {
	var found []finding
	for _, group := range file.syntax.Comments {
		for _, comment := range group.List {
			if mark := unfinished.FindString(comment.Text); mark != "" {
				found = append(found, file.at(comment.Pos(), "%s: finish it, or open an issue", mark))
			}
		}
	}
	return found
}

func sleeps(file *source) []finding {
	var found []finding
	ast.Inspect(file.syntax, func(node ast.Node) bool {
		if call, ok := node.(*ast.SelectorExpr); ok && call.Sel.Name == "Sleep" {
			if x, ok := call.X.(*ast.Ident); ok && x.Name == "time" {
				found = append(found, file.at(node.Pos(), "time.Sleep waits for nothing in particular"))
			}
		}
		return true
	})
	return found
}
