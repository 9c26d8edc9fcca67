package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The linter and the other tests read the files for Linux only. Those for other systems have no errors of types. They are
// checked from source, since compiling the standard library for each system takes minutes.
func TestCodeForOtherSystems(t *testing.T) {
	for _, system := range []string{"darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			checked := map[string]*types.Package{"unsafe": types.Unsafe}
			files := 0
			for _, p := range packagesFor(t, system) {
				own := p.Module != nil && p.Module.Main
				pkg, err := p.check(checked, own)
				if checked[p.ImportPath] = pkg; own && err != nil {
					t.Errorf("%s: %v", p.ImportPath, err)
				}
				if own {
					files += len(p.GoFiles)
				}
			}
			if files < 500 {
				t.Errorf("only %d files were checked", files)
			}
		})
	}
}

// A systemPackage is a package as a system has it.
type systemPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
}

// packagesFor returns the packages of the module and those that they import, each after its imports.
func packagesFor(t *testing.T, system string) (list []*systemPackage) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(systemPackage)
		switch err := decoder.Decode(p); {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// check checks the types of a package, and those in its functions if bodies is true. imports are the packages that were checked.
func (p *systemPackage) check(imports map[string]*types.Package, bodies bool) (*types.Package, error) {
	if p.ImportPath == "unsafe" {
		return types.Unsafe, nil
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := &types.Config{
		IgnoreFuncBodies: !bodies, FakeImportC: true, Error: func(error) {}, Sizes: types.SizesFor("gc", "amd64"),
		Importer: importerFunc(func(name string) (*types.Package, error) {
			if mapped := p.ImportMap[name]; mapped != "" {
				name = mapped
			}
			if pkg := imports[name]; pkg != nil {
				return pkg, nil
			}
			return nil, errors.New("the package was not checked before")
		}),
	}
	return config.Check(p.ImportPath, fset, files, nil)
}

type importerFunc func(name string) (*types.Package, error)

func (f importerFunc) Import(name string) (*types.Package, error) { return f(name) }
