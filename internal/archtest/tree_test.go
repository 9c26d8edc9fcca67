package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const modulePath = "github.com/dovetail-go/dovetail"

// root is the module's folder, seen from this package's.
var root = filepath.Join("..", "..")

// A source is one Go file of the module, whatever platform it is built for.
type source struct {
	path   string // slash-separated, below the module's root
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

// in reports whether the file lies in the folder or below it.
func (s *source) in(folder string) bool { return strings.HasPrefix(s.path, folder+"/") }

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

// walk visits the module's files. Nested modules and what tools leave behind
// are not part of it.
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

func inTestdata(name string) bool {
	return strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/testdata/")
}
