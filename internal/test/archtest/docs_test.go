package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestExportedNamesAreDocumented(t *testing.T) { enforce(t, undocumented, nil) }

func TestDocumentationRule(t *testing.T) {
	planted(t, "undocumented.go", "server/planted.go", undocumented)
	planted(t, "clean.go", "server/planted.go", undocumented)
}

// The package comment is in doc.go, for a command in main.go. An internal package may have it
// in the file with the package's name.
func TestPackagesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range moduleSources(t) {
		if file.isTest() {
			continue
		}
		allowed := []string{"doc.go"}
		switch {
		case file.isMain():
			allowed = []string{"main.go"}
		case file.isInternal():
			allowed = append(allowed, file.syntax.Name.Name+".go")
		}
		has := strings.TrimSpace(file.syntax.Doc.Text()) != ""
		if has && !slices.Contains(allowed, path.Base(file.path)) {
			t.Errorf("%s: the package comment must be in %s", file.path, allowed[0])
		}
		documented[file.folder()] = documented[file.folder()] || has
	}
	for folder, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", folder)
		}
	}
}

// selfEvident lists methods of well-known interfaces, which need no comment.
var selfEvident = []string{
	"Error", "Unwrap", "String",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "MarshalJSONTo", "UnmarshalJSONFrom",
}

// undocumented finds exported functions, methods, types, constants and variables without a
// comment. A comment on a group of constants or variables documents all of them.
func undocumented(file *source) []finding {
	if file.isTest() || file.isMain() {
		return nil
	}
	var found []finding
	missing := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if doc.Text() != "" {
				return
			}
		}
		if name.IsExported() {
			found = append(found, file.at(name.Pos(), "%s has no comment", name.Name))
		}
	}
	for _, decl := range file.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			isMethod := decl.Recv != nil
			if isMethod && (!ast.IsExported(receiver(decl)) || slices.Contains(selfEvident, decl.Name.Name)) {
				break
			}
			missing(decl.Name, decl.Doc)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					missing(spec.Name, spec.Doc, decl.Doc)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						missing(name, spec.Doc, spec.Comment, decl.Doc)
					}
				}
			}
		}
	}
	return found
}

// receiver returns the name of a method's receiver type.
func receiver(method *ast.FuncDecl) string {
	expr := method.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// requirement matches a direct requirement in go.mod.
var requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// CONTRIBUTING.md says why the main module requires each module.
func TestRequirementsHaveReasons(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for _, match := range requirement.FindAllSubmatch(mod, -1) {
		required[string(match[1])] = true
	}
	reasons := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \| [^|]+ \| [^|]+ \|$`).FindAllSubmatch(page, -1) {
		reasons[string(match[1])] = true
	}
	if !maps.Equal(required, reasons) {
		t.Errorf("go.mod requires %v, and CONTRIBUTING.md has %v", slices.Sorted(maps.Keys(required)), slices.Sorted(maps.Keys(reasons)))
	}
}

// A requirement, also an indirect one, raises the version in each program that imports the library. Pseudo-versions and
// release candidates are for nobody else.
func TestRequirementsAreReleases(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{
		"github.com/go-json-experiment/json": "has no releases",
		"gopkg.in/check.v1":                  "has no releases; only tests of dependencies use it",
	}
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) (v[0-9.]+)(-\S+)?( // indirect)?$`).FindAllSubmatch(mod, -1) {
		module, isRelease := string(match[1]), match[3] == nil
		if reason, ok := reasons[module]; ok == isRelease {
			t.Errorf("go.mod requires %s %s%s; the exception is %q", module, match[2], match[3], reason)
		}
		delete(reasons, module)
	}
	for module := range reasons {
		t.Errorf("%s is not required; delete the exception", module)
	}
}

// textOf returns the text of a file of the repository.
func textOf(t *testing.T, name string) string {
	t.Helper()
	text, err := fileText(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// README.md compares sizes as the page of the benchmarks has them, and attacks as SECURITY.md has them.
func TestReadmeComparesAsMeasured(t *testing.T) {
	var rows []string
	for _, over := range []string{"stdio", "HTTP"} {
		measured := regexp.MustCompile(`(?m)^\| hello over ` + over + ` \| [^|]* · ([^|]*) \| [^|]* · ([^|]*) \| [^|]* · ([^|]*) \|`).FindStringSubmatch(textOf(t, "internal/lab/rivals/bench/README.md"))
		if measured == nil {
			t.Fatalf("the page of the benchmarks has no size over %s", over)
		}
		rows = append(rows, fmt.Sprintf("| a small server over %s, stripped | %s |", over, strings.Join(measured[1:], " | ")))
	}
	counts := make(map[string]int)
	for _, row := range regexp.MustCompile("(?m) \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\| `TestMatrix/[^|]*\\|$").FindAllStringSubmatch(textOf(t, "SECURITY.md"), -1) {
		for library, result := range row[1:] {
			counts[fmt.Sprint(result, library)]++
		}
	}
	attacks := "| attacks that are published: safe, unsafe |"
	for library := range 3 {
		attacks += fmt.Sprintf(" %d, %d |", counts[fmt.Sprint("safe", library)], counts[fmt.Sprint("unsafe", library)])
	}
	for _, row := range append(rows, attacks) {
		if !strings.Contains(textOf(t, "README.md"), row+"\n") {
			t.Errorf("README.md does not have the row %s", row)
		}
	}
}

// README.md quotes three goals as the page of the benchmarks has them, and they are met.
func TestReadmeQuotesGoals(t *testing.T) {
	goals := strings.Split(textOf(t, "internal/lab/rivals/bench/GOALS.md"), "\n")
	_, rest, _ := strings.Cut(textOf(t, "README.md"), "\n## Speed\n")
	section, _, _ := strings.Cut(rest, "\n#")
	var quoted int
	for line := range strings.Lines(section) {
		row := strings.TrimSpace(line)
		if !strings.HasPrefix(row, "| ") {
			continue
		}
		if !slices.Contains(goals, row) {
			t.Errorf("the goals do not have the row %s", row)
		}
		if strings.HasSuffix(row, "| met |") {
			quoted++
		}
	}
	if quoted != 3 {
		t.Errorf("README.md quotes %d goals that are met, want 3", quoted)
	}
}
