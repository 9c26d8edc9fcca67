package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// questionMethods are sent by servers.
var questionMethods = []string{"MethodCreateMessage", "MethodRootsList", "MethodElicit"}

// sessionMethods are answered by internal/era.
var sessionMethods = []string{
	"MethodInitialize", "MethodPing", "MethodSetLevel", "MethodDiscover", "MethodSubscriptionsListen",
	"MethodResourcesSubscribe", "MethodResourcesUnsubscribe", "MethodTasksResult",
}

// methodTables are the files that name each method of requests from a client, with the methods that they leave out.
var methodTables = map[string][]string{
	"internal/era/methods.go":  nil,
	"mcp/otelmcp/telemetry.go": sessionMethods,
}

// Each table of methods has each method of package mcp.
func TestTablesHaveEachMethod(t *testing.T) {
	methods := methodNames(t)
	if !slices.Contains(methods, "MethodToolsCall") || !slices.Contains(methods, "MethodTasksGet") {
		t.Fatalf("the methods of package mcp are %q", methods)
	}
	for table, without := range methodTables {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, table), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		named := make(map[string]bool)
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				named[selector.Sel.Name] = true
			}
			return true
		})
		for _, method := range methods {
			if !named[method] && !slices.Contains(without, method) && !slices.Contains(questionMethods, method) {
				t.Errorf("%s does not name mcp.%s", table, method)
			}
		}
	}
}

// methodNames returns the constants of package mcp that are methods of requests.
func methodNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range moduleSources(t) {
		if file.folder() != "mcp" || file.isTest() {
			continue
		}
		for _, spec := range constants(file.syntax) {
			for _, name := range spec.Names {
				if strings.HasPrefix(name.Name, "Method") {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
