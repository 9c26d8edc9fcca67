package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// Packages have no mutable state, so two servers in one process do not affect each other.
func TestPackagesKeepNoState(t *testing.T) {
	packages := moduleBuild(t)
	imp := compiled(packages)
	byFolder := map[string][]*source{}
	for _, file := range moduleSources(t) {
		p, ok := packages[path.Join(modulePath, file.folder())]
		if ok && slices.Contains(p.GoFiles, path.Base(file.path)) {
			byFolder[file.folder()] = append(byFolder[file.folder()], file)
		}
	}
	for folder, files := range byFolder {
		found, err := packageState(folder, files, imp)
		if err != nil {
			t.Errorf("package %s: %v", folder, err)
		}
		for _, f := range found {
			t.Error(f)
		}
	}
}

func TestStateRule(t *testing.T) {
	imp := compiled(moduleBuild(t))
	check := func(file *source) []finding {
		found, err := packageState("planted", []*source{file}, imp)
		if err != nil {
			t.Error(err)
		}
		return found
	}
	planted(t, "state.go", "server/planted.go", check)
	planted(t, "clean.go", "server/planted.go", check)
}

// packageState finds package variables that a function modifies, and those that contain a lock
// or an atomic value.
func packageState(folder string, files []*source, imp types.Importer) ([]finding, error) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	syntax := make([]*ast.File, len(files))
	for i, file := range files {
		syntax[i] = file.syntax
	}
	pkg, err := (&types.Config{Importer: imp}).Check(path.Join(modulePath, folder), files[0].fset, syntax, info)
	if err != nil {
		return nil, err
	}

	var found []finding
	for _, file := range files {
		changed := func(target ast.Expr) {
			name := rootOf(target)
			if name == nil {
				return
			}
			if v, ok := info.Uses[name].(*types.Var); ok && v.Parent() == pkg.Scope() {
				found = append(found, file.at(target.Pos(), "changes the package's variable %s", v.Name()))
			}
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.AssignStmt:
				if node.Tok != token.DEFINE {
					for _, target := range node.Lhs {
						changed(target)
					}
				}
			case *ast.IncDecStmt:
				changed(node.X)
			case *ast.CallExpr:
				if f, ok := node.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") && len(node.Args) > 0 {
					changed(node.Args[0])
				}
			case *ast.ValueSpec:
				for _, name := range node.Names {
					if v, ok := info.Defs[name].(*types.Var); ok && v.Parent() == pkg.Scope() && guarded(v.Type()) {
						found = append(found, file.at(name.Pos(), "%s contains a lock or an atomic value", v.Name()))
					}
				}
			}
			return true
		})
	}
	return found, nil
}

// rootOf returns the variable that an assignment to the expression modifies, or nil.
func rootOf(expr ast.Expr) *ast.Ident {
	for {
		switch x := expr.(type) {
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			expr = x.X
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.SelectorExpr:
			expr = x.X
		default:
			return nil
		}
	}
}

// guarded reports whether a type is, or has a field of, a type of package sync or sync/atomic
// other than sync.Pool.
func guarded(typ types.Type) bool {
	name := types.TypeString(typ, nil)
	if strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "sync/atomic.") {
		return name != "sync.Pool"
	}
	if s, ok := typ.Underlying().(*types.Struct); ok {
		for field := range s.Fields() {
			if guarded(field.Type()) {
				return true
			}
		}
	}
	return false
}
