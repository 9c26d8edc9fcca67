package migrate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

// A program is what is rewritten together.
type program struct {
	root    string
	module  string             // the path of the module
	sources map[string]*source // by file
	shapes  map[string]shape   // of the functions with the results of a typed tool of go-sdk, by position
	kept    map[string]bool    // modules with packages that are still imported

	specials map[string]special
	literals map[string]literal

	usesMCPGo, needsCompat bool
}

// A source is one file.
type source struct {
	program *program
	path    string
	fset    *token.FileSet
	file    *ast.File
	types   *types.Package
	info    *types.Info
	text    []byte
	parents map[ast.Node]ast.Node
	// requests are the names of the *server.Request that stands before a parameter with arguments.
	requests map[types.Object]string
	imports  map[string]string // names of added imports, by path
	notes    map[int][]string  // by offset of a line
	noted    map[int]bool      // lines with identifiers that are left

	connections
	middlewares
}

// isRewritten reports whether a table has the identifiers of a package.
func isRewritten(path string) bool {
	switch path {
	case goSDK + "/mcp", goSDK + "/jsonrpc", mcpGo + "/mcp", mcpGo + "/server", mcpGo + "/client":
		return true
	}
	return false
}

// sdkOf returns the module of a package, if it is one of the other libraries.
func sdkOf(path string) string {
	for _, module := range []string{goSDK, mcpGo} {
		if path == module || strings.HasPrefix(path, module+"/") {
			return module
		}
	}
	return ""
}

func importPath(spec *ast.ImportSpec) string {
	path, _ := strconv.Unquote(spec.Path.Value)
	return path
}

func newProgram(all []*packages.Package, root string) (*program, error) {
	p := &program{root: root, sources: make(map[string]*source), shapes: make(map[string]shape), kept: make(map[string]bool)}
	p.specials, p.literals = specials()
	for _, pkg := range all {
		if pkg.Module != nil {
			p.module = pkg.Module.Path
		}
		for i, file := range pkg.Syntax {
			path := pkg.CompiledGoFiles[i]
			if p.sources[path] != nil || !p.owns(path) || ast.IsGenerated(file) || !slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return sdkOf(importPath(spec)) != "" }) {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			p.usesMCPGo = p.usesMCPGo || slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return sdkOf(importPath(spec)) == mcpGo })
			p.sources[path] = &source{
				program: p, path: path, fset: pkg.Fset, file: file, types: pkg.Types, info: pkg.TypesInfo, text: text,
				parents: parentsOf(file), notes: make(map[int][]string),
			}
		}
	}
	for _, s := range p.sources {
		s.findShapes()
		s.nameRequests()
		s.findConnections()
		s.findMiddleware()
	}
	return p, nil
}

// owns reports whether a file is in the folder of the module, also when links are followed.
func (p *program) owns(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && real == path && strings.HasPrefix(path, p.root+string(filepath.Separator))
}

func parentsOf(file *ast.File) map[ast.Node]ast.Node {
	parents := make(map[ast.Node]ast.Node)
	var stack []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			parents[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		return true
	})
	return parents
}

// rewrite adds the files of the program to a result.
func (p *program) rewrite(r *Result) error {
	for _, path := range slices.Sorted(maps.Keys(p.sources)) {
		s := p.sources[path]
		after, err := s.rewritten()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		used, left := s.lines()
		r.Lines, r.Left = r.Lines+used, r.Left+left
		name := filepath.ToSlash(path[len(p.root)+1:])
		for _, offset := range slices.Sorted(maps.Keys(s.notes)) {
			line := s.fset.PositionFor(s.file.FileStart+token.Pos(offset), false).Line
			for _, text := range s.notes[offset] {
				r.Notes = append(r.Notes, Note{name, line, text})
			}
		}
		if string(after) != string(s.text) {
			r.Files = append(r.Files, File{name, s.text, after})
		}
	}
	return nil
}

// rewritten returns the new text of the file.
func (s *source) rewritten() ([]byte, error) {
	for _, spec := range s.file.Imports {
		if sdk := sdkOf(importPath(spec)); sdk != "" && !isRewritten(importPath(spec)) {
			s.program.kept[sdk] = true
			advice := clientCode
			if strings.HasSuffix(importPath(spec), "/auth") || strings.HasSuffix(importPath(spec), "/oauthex") {
				advice = tokens
			}
			s.note(spec, "what uses "+importPath(spec)+" is not rewritten; "+advice)
		}
	}
	s.newInner(s.file) // finds the notes, which the second time are in the text
	s.imports, s.noted = make(map[string]string), make(map[int]bool)
	text := string(s.text[:s.offset(s.file.Pos())]) + s.newInner(s.file) + string(s.text[s.offset(s.file.End()):])
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, s.path, text, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("the result is no Go file, which is a mistake of dovetail migrate: %w", err)
	}
	for _, added := range slices.Sorted(maps.Keys(s.imports)) {
		name := s.imports[added]
		if name == path.Base(added) {
			name = ""
		}
		astutil.AddNamedImport(fset, file, name, added)
	}
	for _, spec := range s.file.Imports {
		name, imported := "", importPath(spec)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if isRewritten(imported) {
			astutil.DeleteNamedImport(fset, file, name, imported)
		}
	}
	for _, spec := range s.file.Imports { // those that only rewritten code has used
		imported := importPath(spec)
		// UsesImport guesses names from paths, and a wrong guess is wrong for the file before, too.
		if spec.Name == nil && !isRewritten(imported) && astutil.UsesImport(s.file, imported) && !astutil.UsesImport(file, imported) {
			astutil.DeleteImport(fset, file, imported)
		}
	}
	var out strings.Builder
	if err := format.Node(&out, fset, file); err != nil {
		return nil, err
	}
	return format.Source([]byte(out.String()))
}

func (s *source) offset(pos token.Pos) int { return int(pos - s.file.FileStart) }

// An edit replaces a part of the file.
type edit struct {
	from, to int
	text     string
}

// newInner returns the old text of a node with the new text of what is in it.
func (s *source) newInner(n ast.Node) string {
	var edits []edit
	ast.Inspect(n, func(inner ast.Node) bool {
		if inner == nil || inner == n {
			return true
		}
		if _, ok := inner.(*ast.ImportSpec); ok {
			return false
		}
		text, ok := s.rewrite(inner)
		if ok {
			e := edit{s.offset(inner.Pos()), s.offset(inner.End()), text}
			if s.gone[inner] {
				e = s.wholeLines(e)
			}
			edits = append(edits, e)
		}
		return !ok
	})
	return s.splice(s.offset(n.Pos()), s.offset(n.End()), edits)
}

// wholeLines extends an edit that removes a statement to the ends of its lines, unless something else is there.
func (s *source) wholeLines(e edit) edit {
	from, to := e.from, e.to
	for from > 0 && (s.text[from-1] == '\t' || s.text[from-1] == ' ') {
		from--
	}
	if s.text[from-1] == '\n' && s.text[to] == '\n' {
		return edit{from, to + 1, ""}
	}
	return e
}

// splice returns a part of the file with edits, and the comments of lines between them.
func (s *source) splice(from, to int, edits []edit) string {
	for offset, texts := range s.notes {
		if from <= offset && offset < to && !slices.ContainsFunc(edits, func(e edit) bool { return e.from < offset && offset < e.to }) {
			edits = append(edits, edit{offset, offset, "// " + Marker + strings.Join(texts, "\n// "+Marker) + "\n"})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var out strings.Builder
	for _, e := range edits {
		out.Write(s.text[from:e.from])
		out.WriteString(e.text)
		from = e.to
	}
	out.Write(s.text[from:to])
	return out.String()
}

// note says what is left to do by hand at a node, above the statement, field or declaration that it is in.
func (s *source) note(n ast.Node, text string) {
	if s.noted != nil {
		s.noted[s.fset.PositionFor(n.Pos(), false).Line] = true
	}
	at := n
	for up := n; up != nil; up = s.parents[up] {
		_, isStmt := up.(ast.Stmt)
		_, isBlock := up.(*ast.BlockStmt)
		_, isDecl := up.(ast.Decl)
		if isStmt && !isBlock || isDecl {
			at = up
			break
		}
	}
	start := s.offset(at.Pos())
	for start > 0 && s.text[start-1] != '\n' {
		start--
	}
	if !slices.Contains(s.notes[start], text) {
		s.notes[start] = append(s.notes[start], text)
	}
}

// lines returns how many lines use another library, and how many of them are left.
func (s *source) lines() (used, left int) {
	lines := make(map[int]bool)
	add := func(pos token.Pos, imported string) {
		if sdkOf(imported) == "" {
			return
		}
		line := s.fset.PositionFor(pos, false).Line
		lines[line] = true
		if !isRewritten(imported) {
			s.noted[line] = true
		}
	}
	for id, obj := range s.info.Uses {
		if id.Pos() >= s.file.FileStart && id.Pos() < s.file.FileEnd && obj.Pkg() != nil {
			add(id.Pos(), obj.Pkg().Path())
		}
	}
	for _, spec := range s.file.Imports {
		add(spec.Pos(), importPath(spec))
	}
	return len(lines), len(s.noted)
}

var placeholder = regexp.MustCompile(`@[a-z]+(/[a-z]+)*|\$([0-9*rc])`)

// expand returns the text of a template of the table. $1 is the first argument, $* all of them, $r the receiver and $c the
// request of the call whose arguments the receiver is. @mcp is a package of the library or, if there is none, of Go.
func (s *source) expand(template string, receiver ast.Expr, args []ast.Expr) (string, bool) {
	ok := true
	text := placeholder.ReplaceAllStringFunc(template, func(p string) string {
		switch {
		case p[0] == '@':
			return s.use(p[1:])
		case p == "$r" && receiver != nil:
			return s.newText(receiver)
		case p == "$c" && receiver != nil:
			name, known := s.requests[s.objectOf(receiver)]
			ok = ok && known
			return name
		case p == "$*":
			texts := make([]string, len(args))
			for i, arg := range args {
				texts[i] = s.newText(arg)
			}
			return strings.Join(texts, ", ")
		}
		if i, err := strconv.Atoi(p[1:]); err == nil && 1 <= i && i <= len(args) {
			return s.newText(args[i-1])
		}
		ok = false
		return ""
	})
	return text, ok
}

// newText returns the new text of a node.
func (s *source) newText(n ast.Node) string {
	if text, ok := s.rewrite(n); ok {
		return text
	}
	return s.newInner(n)
}

// packagesOf are the packages that templates name.
var packagesOf = map[string]string{
	"mcp": library + "/mcp", "server": library + "/server", "stdio": library + "/transport/stdio",
	"streamable": library + "/transport/streamable", "sse": library + "/transport/sse",
	"transport": library + "/transport", "transport/httptransport": library + "/transport/httptransport", "client": library + "/client", "jsonrpc": library + "/jsonrpc",
	"servertest": library + "/server/servertest",
	"json":       "encoding/json", "http": "net/http",
}

// use returns the name of a package in this file, which will import it.
func (s *source) use(name string) string {
	imported, ok := packagesOf[name]
	switch {
	case name == "compat":
		imported = s.program.module + "/internal/compat"
		s.program.needsCompat = true
	case !ok:
		imported = name
	}
	for _, spec := range s.file.Imports {
		if importPath(spec) == imported {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(imported)
		}
	}
	if s.imports == nil {
		return name
	}
	if used, ok := s.imports[imported]; ok {
		return used
	}
	used := path.Base(imported)
	if s.declares(used) {
		used = "mcp" + used
	}
	s.imports[imported] = used
	return used
}

// declares reports whether the file gives a name to something that stays.
func (s *source) declares(name string) bool {
	if s.types.Scope().Lookup(name) != nil {
		return true
	}
	for id, obj := range s.info.Defs {
		if id.Name != name || id.Pos() < s.file.FileStart || id.Pos() >= s.file.FileEnd || obj == nil {
			continue
		}
		if v, ok := obj.(*types.Var); ok && v.IsField() {
			continue
		}
		if f, ok := obj.(*types.Func); ok && f.Signature().Recv() != nil || s.gone[s.statement(id)] {
			continue
		}
		return true
	}
	for id, obj := range s.info.Implicits {
		if name == obj.Name() && id.Pos() >= s.file.FileStart && id.Pos() < s.file.FileEnd {
			if imported, ok := obj.(*types.PkgName); !ok || !isRewritten(imported.Imported().Path()) {
				return true
			}
		}
	}
	return false
}
