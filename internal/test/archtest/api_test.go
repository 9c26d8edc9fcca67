package archtest

import (
	"flag"
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/api.txt")

// TestAPI compares the exported API with the reviewed one in testdata/api.txt. After an
// intended change, update the file, which is reviewed too:
//
//	go test ./internal/test/archtest -run TestAPI -update
func TestAPI(t *testing.T) {
	golden := filepath.Join("testdata", "api.txt")
	lines := moduleAPI(t)
	for _, line := range lines {
		if strings.Contains(line, "/internal/") {
			t.Error("the exported API has a type of an internal package, which users cannot name: " + line)
		}
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	reviewed, now := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	t.Error("the exported API has changed; if that is intended, run the test with -update")
	logMissing(t, "-", reviewed, now)
	logMissing(t, "+", now, reviewed)
}

// isInternal reports whether a package cannot be imported by other modules.
func isInternal(path string) bool { return strings.Contains("/"+path+"/", "/internal/") }

// logMissing logs the lines that are not in others.
func logMissing(t *testing.T, mark string, lines, others []string) {
	t.Helper()
	for _, line := range lines {
		if !slices.Contains(others, line) {
			t.Log(mark, line)
		}
	}
}

// moduleAPI describes the public packages, one line for each exported name.
func moduleAPI(t *testing.T) []string {
	t.Helper()
	packages := moduleBuild(t)
	imp := compiled(packages)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		folder, ours := strings.CutPrefix(name, modulePath+"/")
		if !ours || packages[name].Name == "main" || isInternal(name) || strings.HasPrefix(folder, "docs/") {
			continue
		}
		pkg, err := imp.Import(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range api(pkg) {
			lines = append(lines, folder+": "+line)
		}
	}
	return lines
}

// api describes the exported names of a package, sorted by name. Fields and methods follow
// their type.
func api(pkg *types.Package) []string {
	qualifier := func(other *types.Package) string {
		switch {
		case other == pkg:
			return ""
		case isInternal(other.Path()):
			return other.Path()
		}
		return other.Name()
	}
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, withoutResultNames(fmt.Sprintf(format, args...)))
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			add("const %s %s = %s", name, types.TypeString(object.Type(), qualifier), object.Val())
		case *types.TypeName:
			describeType(object, qualifier, add)
		default:
			add("%s", types.ObjectString(object, qualifier))
		}
	}
	return lines
}

func describeType(object *types.TypeName, qualifier types.Qualifier, add func(string, ...any)) {
	named, ok := object.Type().(*types.Named)
	if !ok || object.IsAlias() {
		add("%s", types.ObjectString(object, qualifier))
		return
	}
	name := types.TypeString(named, qualifier)
	switch under := named.Underlying().(type) {
	case *types.Struct:
		add("type %s struct", name)
		for field := range under.Fields() {
			if field.Exported() {
				tag := ""
				if field.Embedded() {
					tag = " (embedded)"
				}
				add("type %s struct, %s %s%s", name, field.Name(), types.TypeString(field.Type(), qualifier), tag)
			}
		}
	case *types.Interface:
		add("type %s interface", name)
		for method := range under.Methods() {
			if method.Exported() {
				add("type %s interface, %s%s", name, method.Name(), signature(method, qualifier))
			}
		}
	default:
		add("type %s %s", name, types.TypeString(under, qualifier))
	}
	methods := slices.SortedFunc(named.Methods(), func(a, b *types.Func) int {
		return strings.Compare(a.Name(), b.Name())
	})
	for _, method := range methods {
		if method.Exported() {
			receiver := types.TypeString(method.Signature().Recv().Type(), qualifier)
			add("method (%s) %s%s", receiver, method.Name(), signature(method, qualifier))
		}
	}
}

func signature(f *types.Func, qualifier types.Qualifier) string {
	return strings.TrimPrefix(types.TypeString(f.Signature(), qualifier), "func")
}

var resultName = regexp.MustCompile(`#rv\d+ `)

// withoutResultNames removes the names that the compiler gives to unnamed results of functions
// that it can inline, and the parentheses around a single one.
func withoutResultNames(line string) string {
	if i := strings.LastIndex(line, "(#rv1 "); i >= 0 && !strings.Contains(line, "#rv2 ") {
		line = line[:i] + strings.TrimSuffix(line[i+1:], ")")
	}
	return resultName.ReplaceAllString(line, "")
}

func TestWithoutResultNames(t *testing.T) {
	for line, want := range map[string]string{
		"func F() (#rv1 []byte)":            "func F() []byte",
		"func F() (#rv1 func(int) bool)":    "func F() func(int) bool",
		"func F() (#rv1 int, #rv2 error)":   "func F() (int, error)",
		"func F(a int) (n int, err error)":  "func F(a int) (n int, err error)",
		"method (*T) Get(name string) bool": "method (*T) Get(name string) bool",
	} {
		if got := withoutResultNames(line); got != want {
			t.Errorf("withoutResultNames(%q) = %q, want %q", line, got, want)
		}
	}
}
