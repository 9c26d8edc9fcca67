package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const modulePath = "github.com/dovetail-go/dovetail"

// root is the module's folder, relative to this package.
var root = filepath.Join("..", "..", "..")

// A source is a Go file of the module, for any platform.
type source struct {
	path   string // slash-separated, relative to root
	lines  int
	fset   *token.FileSet
	syntax *ast.File
}

func (s *source) folder() string { return path.Dir(s.path) }
func (s *source) isTest() bool   { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) isMain() bool   { return s.syntax.Name.Name == "main" }

func (s *source) at(pos token.Pos, format string, args ...any) finding {
	return finding{s.path, s.fset.Position(pos).Line, fmt.Sprintf(format, args...)}
}

// in reports whether the file is in the folder or below it.
func (s *source) in(folder string) bool { return strings.HasPrefix(s.path, folder+"/") }

// isInternal reports whether other modules cannot import the package.
func (s *source) isInternal() bool { return strings.Contains("/"+s.path, "/internal/") }

// sources parses the module's Go files once for all tests.
var sources = sync.OnceValues(func() ([]*source, error) {
	var list []*source
	fset := token.NewFileSet()
	err := walk(func(name string) error {
		if path.Ext(name) != ".go" || inTestdata(name) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		s, err := parse(fset, name, text)
		list = append(list, s)
		return err
	})
	return list, err
})

func parse(fset *token.FileSet, name string, text []byte) (*source, error) {
	syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return &source{name, bytes.Count(text, []byte("\n")), fset, syntax}, err
}

func moduleSources(t *testing.T) []*source {
	t.Helper()
	list, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// walk visits the module's files, without nested modules and folders of tools.
func walk(visit func(name string) error) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case name == ".":
			return nil
		case !d.IsDir():
			return visit(name)
		case strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci", d.Name() == "node_modules":
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil {
			return fs.SkipDir
		}
		return nil
	})
}

// nestedSources returns the Go files of the nested modules, such as examples and commands.
func nestedSources(t *testing.T) []*source {
	t.Helper()
	var list []*source
	fset := token.NewFileSet()
	nested := map[string]bool{".": false} // by folder: whether it is in a nested module
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case name == ".":
			return nil
		case d.IsDir():
			if strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			nested[name] = err == nil || nested[path.Dir(name)]
			return nil
		case !nested[path.Dir(name)] || path.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s, err := parse(fset, name, text)
		list = append(list, s)
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("%d files in nested modules: %v", len(list), err)
	}
	return list
}

func inTestdata(name string) bool {
	return strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/testdata/")
}

// A listed package is an entry in the output of go list.
type listed struct {
	ImportPath string
	Name       string
	Export     string // file of export data
	GoFiles    []string
}

// build compiles the module once for this platform, and lists its packages with their
// dependencies.
var build = sync.OnceValues(func() (map[string]*listed, error) {
	out, err := goCommand("list", "-e", "-export", "-deps",
		"-json=ImportPath,Name,Export,GoFiles", "./...")
	if err != nil {
		return nil, err
	}
	packages := map[string]*listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages[p.ImportPath] = &p
	}
})

func moduleBuild(t *testing.T) map[string]*listed {
	t.Helper()
	packages, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// compiled returns an importer that reads the export data of the build.
func compiled(packages map[string]*listed) types.Importer {
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		p, ok := packages[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("package %s is not part of the build", name)
		case p.Export == "":
			return nil, fmt.Errorf("package %s does not build", name)
		}
		return os.Open(p.Export)
	})
}

// goCommand runs the go command in the module's folder.
func goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out, nil
}

// A finding is a line that breaks a rule.
type finding struct {
	path string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// A rule returns the findings in a file.
type rule func(*source) []finding

// exceptions are the files to which a rule does not apply, each with the reason.
type exceptions map[string]string

// enforce applies a rule to every file of the module.
func enforce(t *testing.T, check rule, except exceptions) {
	t.Helper()
	enforceIn(t, moduleSources(t), check, except)
}

// enforceIn applies a rule to files.
func enforceIn(t *testing.T, files []*source, check rule, except exceptions) {
	t.Helper()
	needed := map[string]bool{}
	for _, file := range files {
		for _, f := range check(file) {
			if _, ok := except[f.path]; ok {
				needed[f.path] = true
				continue
			}
			t.Error(f)
		}
	}
	for name, reason := range except {
		if !needed[name] {
			t.Errorf("%s needs no exception; delete its entry", name)
		}
		if reason == "" {
			t.Errorf("the exception for %s gives no reason", name)
		}
	}
}

var want = regexp.MustCompile("// want (\"[^\"]*\"|`[^`]*`)")

// planted applies a rule to a file in testdata/planted, as if its path were name. The lines
// that break the rule have a "want" comment with a part of the finding.
func planted(t *testing.T, file, name string, check rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "planted", file))
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse(token.NewFileSet(), name, text)
	if err != nil {
		t.Fatal(err)
	}

	found := check(s)
	for number, line := range strings.Split(string(text), "\n") {
		match := want.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		message, err := strconv.Unquote(match[1])
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(found, func(f finding) bool {
			return f.line == number+1 && strings.Contains(f.text, message)
		})
		if i < 0 {
			t.Errorf("%s:%d: not found: %s", path.Base(file), number+1, message)
			continue
		}
		found = slices.Delete(found, i, i+1)
	}
	for _, f := range found {
		t.Errorf("found, but not planted: %v", f)
	}
}
