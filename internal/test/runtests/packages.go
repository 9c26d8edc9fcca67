package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A mode is how a test runs. If several modes suit a test, the greatest applies.
type mode int

const (
	unknown    mode = iota
	plain           // one goroutine: without the race detector
	real            // with the race detector and two processors
	virtual         // with the race detector and one processor
	allocating      // without the race detector, which changes what is measured
)

func (m mode) String() string {
	return [...]string{"unknown", "plain", "real", "virtual", "allocating"}[m]
}

// race reports whether the tests need the race detector.
func (m mode) race() bool { return m == real || m == virtual }

// processors returns the number of processors for tests with the mode.
func (m mode) processors() int {
	if m == virtual {
		return 1
	}
	return 2
}

// A testPackage is a package with tests.
type testPackage struct {
	module   module
	path     string // import path
	dir      string
	alone    bool              // it runs while no other package runs
	tests    map[mode][]string // names
	binaries map[bool]string   // files, by whether the race detector is linked
}

// modes returns the modes that the package has tests for.
func (p *testPackage) modes() []mode {
	var found []mode
	for _, m := range []mode{plain, real, virtual, allocating} {
		if len(p.tests[m]) > 0 {
			found = append(found, m)
		}
	}
	return found
}

func (p *testPackage) size() int {
	count := 0
	for _, names := range p.tests {
		count += len(names)
	}
	return count
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir                    string
	Module                             *struct{ Path, Dir string }
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// environ returns the environment of commands for the module.
func (m module) environ() []string {
	if m.workspace {
		return append(os.Environ(), "GOWORK=")
	}
	return append(os.Environ(), "GOWORK=off")
}

func (m module) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.dir
	cmd.Env = m.environ()
	return cmd
}

// list returns the packages of a module that have tests.
func (m module) list(ctx context.Context, patterns []string) ([]*testPackage, error) {
	cmd := m.goCommand(ctx, append([]string{"list", "-json=ImportPath,Dir,Module,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	root, err := m.goCommand(ctx, "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	m.root = strings.TrimSpace(string(root))
	source := sources{imported: map[string]folder{}}
	var found []*testPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		tests, err := source.tests(p)
		if err != nil {
			return nil, err
		}
		if m.plain {
			tests = map[mode][]string{plain: slices.Concat(slices.Collect(maps.Values(tests))...)}
		}
		if len(tests) > 0 {
			found = append(found, &testPackage{
				module: m, path: p.ImportPath, dir: p.Dir, tests: tests,
				binaries: map[bool]string{},
			})
		}
	}
	// The largest packages start first, so that the lanes end at about the same time.
	slices.SortStableFunc(found, func(a, b *testPackage) int { return cmp.Compare(b.size(), a.size()) })
	return found, nil
}

// build builds the test binaries of packages. One go command builds packages with different names,
// because the name of a binary is the last element of the import path.
func (m module) build(ctx context.Context, packages []*testPackage, dir string) error {
	for _, race := range []bool{true, false} {
		var groups []map[string]*testPackage
		for _, p := range packages {
			if !slices.ContainsFunc(p.modes(), func(m mode) bool { return m.race() == race }) {
				continue
			}
			name := p.path[strings.LastIndexByte(p.path, '/')+1:]
			i := slices.IndexFunc(groups, func(g map[string]*testPackage) bool { return g[name] == nil })
			if i < 0 {
				i = len(groups)
				groups = append(groups, map[string]*testPackage{})
			}
			groups[i][name] = p
		}
		for i, group := range groups {
			folder := filepath.Join(dir, fmt.Sprintf("%t-%d", race, i)) + string(filepath.Separator)
			if err := os.MkdirAll(folder, 0o750); err != nil {
				return err
			}
			args := []string{"test", "-c", "-ldflags=-s -w", fmt.Sprintf("-race=%t", race), "-o", folder}
			for name, p := range group {
				args = append(args, p.path)
				p.binaries[race] = filepath.Join(folder, name+".test")
			}
			build := m.goCommand(ctx, args...)
			if race { // needs cgo, with which nothing else is built
				build.Env = append(build.Env, "CGO_ENABLED=1")
			}
			if output, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("the tests are not built: %w\n%s", err, output)
			}
		}
	}
	return nil
}

// sources finds out from source code how tests run.
type sources struct {
	imported map[string]folder // packages of this repository, by import path
}

// A folder is what matters of the source of a package, without tests.
type folder struct {
	concurrent bool            // starts goroutines
	modes      map[string]mode // of its functions
}

// modulePath is the common part of the import paths of the modules in this repository.
const modulePath = "github.com/dovetail-go/dovetail"

// concurrent lists packages of the standard library whose users share values between goroutines.
var concurrent = []string{"net", "net/http", "net/http/httptest"}

// tests returns the names of the tests, fuzz targets and examples of a package, by mode.
func (s *sources) tests(p listed) (map[mode][]string, error) {
	files, err := parse(p.Dir, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
	if err != nil || len(files) == 0 {
		return nil, err
	}
	for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
		if dir, ok := directory(path, p); ok {
			if err := s.read(path, dir); err != nil {
				return nil, err
			}
		}
	}
	own, err := parse(p.Dir, p.GoFiles)
	if err != nil {
		return nil, err
	}
	least := plain
	if startsGoroutines(own...) {
		least = real
	}
	modes := s.modes(files)
	found := map[mode][]string{}
	for _, name := range names(files) {
		m := cmp.Or(modes[name], least)
		found[m] = append(found[m], name)
	}
	if len(found[allocating]) == 0 && len(found[real])+len(found[virtual]) > 0 {
		found[real] = append(found[real], found[plain]...) // no second binary
		delete(found, plain)
	}
	return found, nil
}

// read reads a package of this repository.
func (s *sources) read(path, dir string) error {
	if _, done := s.imported[path]; done {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var list []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			list = append(list, e.Name())
		}
	}
	files, err := parse(dir, list)
	if err != nil {
		return err
	}
	s.imported[path] = folder{concurrent: startsGoroutines(files...), modes: s.modes(files)}
	return nil
}

// directory returns the folder of a package in the repository of another package, whose module may
// be nested.
func directory(path string, near listed) (string, bool) {
	if near.Module == nil {
		return "", false
	}
	if rest, ok := strings.CutPrefix(path+"/", near.Module.Path+"/"); ok {
		return filepath.Join(near.Module.Dir, rest), true
	}
	rest, ok := strings.CutPrefix(path+"/", modulePath+"/")
	nested, inside := strings.CutPrefix(near.Module.Path, modulePath+"/")
	root, nearRoot := strings.CutSuffix(near.Module.Dir, string(filepath.Separator)+filepath.FromSlash(nested))
	return filepath.Join(root, rest), ok && inside && nearRoot
}

func parse(dir string, names []string) ([]*ast.File, error) {
	var files []*ast.File
	set := token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// startsGoroutines reports whether the nodes have a go statement or call a method Go, such as that
// of sync.WaitGroup.
func startsGoroutines[N ast.Node](nodes ...N) bool {
	found := false
	for _, node := range nodes {
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.SelectorExpr:
				found = found || n.Sel.Name == "Go"
			}
			return !found
		})
	}
	return found
}

// names returns the functions that a test binary runs: tests, fuzz targets, and examples with
// output.
func names(files []*ast.File) []string {
	var found []string
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && f.Name.Name != "TestMain" && (isTest(f.Name.Name, "Test") || isTest(f.Name.Name, "Fuzz")) {
				found = append(found, f.Name.Name)
			}
		}
	}
	for _, e := range doc.Examples(files...) {
		if e.Output != "" || e.EmptyOutput {
			found = append(found, "Example"+e.Name)
		}
	}
	return found
}

func isTest(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	first, _ := utf8.DecodeRuneInString(rest)
	return ok && (rest == "" || !unicode.IsLower(first))
}

// modes returns the modes of the functions of files that need one. A function has the mode of
// what it mentions, directly or through other functions and methods of the files.
func (s *sources) modes(files []*ast.File) map[string]mode {
	found := map[string]mode{}
	users := map[string][]string{} // the functions that mention a name
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			name := f.Name.Name
			if startsGoroutines(f) {
				found[name] = max(found[name], real)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					users[n.Name] = append(users[n.Name], name)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok {
						found[name] = max(found[name], s.modeOf(file, x.Name, n.Sel.Name))
					}
				}
				return true
			})
		}
	}
	for changed := true; changed; {
		changed = false
		for name, m := range found {
			for _, user := range users[name] {
				if m > found[user] {
					found[user], changed = m, true
				}
			}
		}
	}
	return found
}

// modeOf returns the mode that a function needs if it mentions a name of an imported package.
func (s *sources) modeOf(file *ast.File, qualifier, name string) mode {
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || importName(file, path) != qualifier {
			continue
		}
		imported := s.imported[path]
		switch {
		case path == "testing" && name == "AllocsPerRun", path == modulePath+"/internal/test/racetest":
			return allocating
		case path == "testing/synctest", imported.modes[name] == virtual:
			return virtual
		case imported.concurrent, slices.Contains(concurrent, path):
			return real
		}
	}
	return unknown
}

// importName returns the name by which a file uses an imported package, or "".
func importName(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if got, err := strconv.Unquote(spec.Path.Value); err != nil || got != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}
