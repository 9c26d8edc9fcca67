package uritemplate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

// suiteSize is the number of cases in github.com/uri-templates/uritemplate-test
// (July 2026): 234 expansions and 36 errors.
const suiteSize = 270

// failsOnExpansion lists the templates of the suite that are valid, and fail only when they are
// expanded with the values of the suite.
var failsOnExpansion = []string{"{list:1}", "{map:1}", "{keys:1}", "{+keys:1}"}

// suiteGroup is a group of cases; a case is a template and what it expands to:
// a text, one of several texts, or false for an error.
type suiteGroup struct {
	Variables map[string]any
	Testcases [][2]any
}

// TestSuite runs the official suite if it is there, and always our own sample.
func TestSuite(t *testing.T) {
	runSuite(t, filepath.Join("testdata", "suite"))
	dir, ok := testsuites.Dir(t, "uritemplate")
	if !ok {
		return
	}
	if n := runSuite(t, dir); n != suiteSize {
		t.Errorf("the suite has %d cases, want %d", n, suiteSize)
	}
}

// runSuite checks that templates are valid where they have an expansion, and that a template that
// can be matched matches its expansion.
func runSuite(t *testing.T, dir string) (cases int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no suite in %s: %v", dir, err)
	}
	for _, file := range files {
		for _, group := range readSuite(t, file) {
			for _, c := range group.Testcases {
				cases++
				text := c[0].(string)
				template, err := uritemplate.Parse(text)
				if valid := c[1] != false || slices.Contains(failsOnExpansion, text); valid != (err == nil) {
					t.Errorf("%s: Parse(%q): %v", filepath.Base(file), text, err)
				}
				if err == nil && c[1] != false {
					checkExpansion(t, template, text, c[1], group.Variables)
				}
			}
		}
	}
	return cases
}

// checkExpansion matches an expansion if the template has an inverse and all variables have
// values.
func checkExpansion(t *testing.T, template *uritemplate.Template, text string, expansion any, variables map[string]any) {
	m, err := template.Matcher()
	uri, ok := expansion.(string)
	if err != nil || !ok {
		return
	}
	found, ok := m.Match(uri)
	if !ok {
		for _, name := range template.Names() {
			if slices.Contains([]string{"<nil>", "", "[]", "map[]"}, fmt.Sprint(variables[name])) {
				return
			}
		}
		t.Errorf("%q does not match its expansion %q", text, uri)
	}
	for _, v := range found {
		want, ok := variables[v.Name].(string)
		if ok && v.Value != want && !strings.Contains(want, "%") { // {+x} does not encode "%41"
			t.Errorf("%q on %q: %s is %q, want %q", text, uri, v.Name, v.Value, want)
		}
	}
}

func readSuite(t *testing.T, file string) map[string]suiteGroup {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var groups map[string]suiteGroup
	if err := json.Unmarshal(data, &groups); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return groups
}
