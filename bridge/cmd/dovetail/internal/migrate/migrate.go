// Package migrate rewrites programs of other MCP libraries: what has a counterpart that is always right. [Rewrite] reads
// a module and returns its new files, and writes nothing. What each identifier becomes is in one table per library; see
// table.go. An identifier that is in no table stays as it is, under a comment that says what to do.
package migrate

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

const (
	library = "github.com/dovetail-go/dovetail"
	goSDK   = "github.com/modelcontextprotocol/go-sdk"
	mcpGo   = "github.com/mark3labs/mcp-go"
)

// Marker begins each comment that says what is left to do.
const Marker = "TODO(dovetail): "

// goVersion is the version of the language that the library needs.
const goVersion = "1.26.0"

// Options configures [Rewrite].
type Options struct {
	// Library is the version of the library that the module will require, or the path of a folder with the library, which
	// begins with . or /.
	Library string
}

// A Result is what [Rewrite] would change.
type Result struct {
	Root  string // the folder of the module
	Files []File // by name
	// Lines is how many lines of the program use the other library. Left is how many of them are not rewritten.
	Lines, Left int
	Notes       []Note
	// Skipped are files that import the other library and were not read: generated ones, links, and those that build
	// constraints exclude here.
	Skipped []string
	// Errors are the compile errors of the result, tests included.
	Errors []string
}

// A File is a file that changes. Before is nil for a new file.
type File struct {
	Name          string // below the root, with slashes
	Before, After []byte
}

// A Note says what is left to do by hand at a place.
type Note struct {
	Name string
	Line int // in the file before the change
	Text string
}

// ErrNothing means that no package of the module imports a library that can be rewritten.
var ErrNothing = errors.New("no package of the module imports " + goSDK + "/mcp or " + mcpGo + "/server")

// Rewrite rewrites the packages of the module in a folder, with their tests. The go command builds the module before and
// after, and may download what it requires.
func Rewrite(ctx context.Context, folder string, opts Options) (*Result, error) {
	root, err := moduleRoot(folder)
	if err != nil {
		return nil, err
	}
	before, err := load(ctx, root, nil, nil)
	if err != nil {
		return nil, err
	}
	if problems := compileErrors(before, root); len(problems) > 0 {
		return nil, fmt.Errorf("the module does not compile: %s", problems[0])
	}
	p, err := newProgram(before, root)
	if err != nil {
		return nil, err
	}
	r := &Result{Root: root}
	if err := p.rewrite(r); err != nil {
		return nil, err
	}
	if len(r.Files) == 0 {
		return nil, ErrNothing
	}
	if r.Skipped, err = skipped(root, p); err != nil {
		return nil, err
	}
	return r, r.build(ctx, p, opts)
}

func moduleRoot(folder string) (string, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", fmt.Errorf("there is no folder %s; expected the folder of a Go module", folder)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return "", fmt.Errorf("the folder %s has no go.mod; expected the folder of a Go module", folder)
	}
	return root, nil
}

// load type-checks all packages of a module and their tests.
func load(ctx context.Context, root string, overlay map[string][]byte, flags []string) ([]*packages.Package, error) {
	all, err := packages.Load(&packages.Config{
		Context: ctx, Dir: root, Tests: true, Overlay: overlay, BuildFlags: flags,
		Env: append(os.Environ(), "GOWORK=off"), // a workspace would add modules that are not changed, and allows no -modfile
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedModule,
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	if len(all) == 0 { // the go command has refused go.mod, which the error above does not have
		return nil, errors.New("the go command finds no packages in the module: does go vet ./... work?")
	}
	return all, nil
}

// compileErrors returns the errors of packages, each once, with file names below the root.
func compileErrors(all []*packages.Package, root string) []string {
	seen := make(map[string]bool)
	for _, pkg := range all {
		for _, e := range pkg.Errors {
			if strings.HasPrefix(e.Msg, "# ") { // what the compiler says, which stops at some errors of a package
				continue
			}
			seen[strings.ReplaceAll(e.Error(), root+string(filepath.Separator), "")] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// skipped returns the files below the root that import a library and are not in the program.
func skipped(root string, p *program) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (d.Name() == "vendor" || d.Name() == "testdata" || d.Name()[0] == '.' || exists(filepath.Join(path, "go.mod"))) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || p.sources[path] != nil {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err == nil && slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return isRewritten(importPath(spec)) }) {
			names = append(names, path[len(root)+1:])
		}
		return nil
	})
	return names, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

//go:embed compat/*.go
var compatFiles embed.FS

// build adds go.mod, go.sum and the files of package compat, and finds the compile errors of the result.
func (r *Result) build(ctx context.Context, p *program, opts Options) error {
	if p.needsCompat {
		names := []string{"compat.go"}
		if p.usesMCPGo {
			names = append(names, "arguments.go", "tools.go")
		}
		for _, name := range names {
			text, err := compatFiles.ReadFile("compat/" + name)
			if err != nil {
				return err
			}
			name = "internal/compat/" + name
			before, err := os.ReadFile(filepath.Join(r.Root, filepath.FromSlash(name)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			r.Files = append(r.Files, File{name, before, text})
		}
	}
	temporary, err := os.MkdirTemp("", "dovetail-migrate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	names := []string{"go.mod", "go.sum"}
	inputs := make(map[string][]byte)
	for _, name := range names {
		if inputs[name], err = os.ReadFile(filepath.Join(r.Root, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	changed, sums, err := newModule(inputs["go.mod"], opts.Library, r.Root, p.kept)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"go.mod": changed, "go.sum": slices.Concat(inputs["go.sum"], sums)} {
		if err := os.WriteFile(filepath.Join(temporary, name), text, 0o600); err != nil {
			return err
		}
	}
	overlay := make(map[string][]byte)
	for _, f := range r.Files {
		overlay[filepath.Join(r.Root, filepath.FromSlash(f.Name))] = f.After
	}
	after, err := load(ctx, r.Root, overlay, []string{"-mod=mod", "-modfile=" + filepath.Join(temporary, "go.mod")})
	if err != nil {
		return err
	}
	r.Errors = compileErrors(after, r.Root)
	for _, name := range names { // the go command has added what the packages need
		text, err := os.ReadFile(filepath.Join(temporary, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(text, inputs[name]) {
			r.Files = append(r.Files, File{Name: name, Before: inputs[name], After: text})
		}
	}
	slices.SortFunc(r.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// newModule returns a go.mod that requires the library instead of those that no package imports any more, and the
// checksums of the library's own requirements if it is a folder.
func newModule(text []byte, version, root string, kept map[string]bool) (changed, sums []byte, err error) {
	module, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(version, ".") || filepath.IsAbs(version) {
		folder, err := filepath.Abs(version)
		if err != nil {
			return nil, nil, err
		}
		if sums, err = os.ReadFile(filepath.Join(folder, "go.sum")); err != nil {
			return nil, nil, fmt.Errorf("reading the library: %w", err)
		}
		if err := module.AddReplace(library, "", folder, ""); err != nil {
			return nil, nil, err
		}
		version = "v0.0.0"
	}
	if err := module.AddRequire(library, version); err != nil {
		return nil, nil, err
	}
	for _, sdk := range []string{goSDK, mcpGo} {
		if !kept[sdk] {
			if err := module.DropRequire(sdk); err != nil {
				return nil, nil, err
			}
		}
	}
	if module.Go == nil || semver.Compare("v"+module.Go.Version, "v"+goVersion) < 0 {
		if err := module.AddGoStmt(goVersion); err != nil {
			return nil, nil, err
		}
	}
	module.Cleanup()
	changed, err = module.Format()
	return changed, sums, err
}
