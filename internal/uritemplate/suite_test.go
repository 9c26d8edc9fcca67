package uritemplate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/suites"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

// suiteSize is the number of cases in github.com/uri-templates/uritemplate-test
// (July 2026): 234 expansions and 36 refusals.
const suiteSize = 270

// suiteExceptions lists the cases of the suite that we do not pass, with the reason.
// An entry that is not needed any more fails the test.
var suiteExceptions = map[string]string{}

// suiteGroup is a group of cases; a case is a template and what it expands to:
// a text, one of several texts, or false for an error.
type suiteGroup struct {
	Variables map[string]any
	Testcases [][2]any
}

// TestSuite runs the official suite if it is there, and always our own sample.
func TestSuite(t *testing.T) {
	runSuite(t, filepath.Join("testdata", "suite"), nil)
	dir, ok := suites.Dir(t, "uritemplate")
	if !ok {
		return
	}
	if n := runSuite(t, dir, suiteExceptions); n != suiteSize {
		t.Errorf("the suite has %d cases, want %d", n, suiteSize)
	}
}

func runSuite(t *testing.T, dir string, exceptions map[string]string) (cases int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no suite in %s: %v", dir, err)
	}
	for _, file := range files {
		for name, group := range readSuite(t, file) {
			for _, c := range group.Testcases {
				cases++
				template := c[0].(string)
				got, err := expand(template, group.Variables)
				passed := accepts(c[1], got, err)
				reason, excepted := exceptions[template]
				switch {
				case !passed && !excepted:
					t.Errorf("%s: %s: %s = %q, %v, want %v", filepath.Base(file), name, template, got, err, c[1])
				case passed && excepted:
					t.Errorf("%s: %s: %s passes, it is no exception any more (%s)", filepath.Base(file), name, template, reason)
				}
			}
		}
	}
	return cases
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

func expand(template string, variables map[string]any) (string, error) {
	parsed, err := uritemplate.Parse(template)
	if err != nil {
		return "", err
	}
	values := make(map[string]uritemplate.Value)
	for name, v := range variables {
		values[name] = suiteValue(v)
	}
	return parsed.Expand(values)
}

func suiteValue(v any) uritemplate.Value {
	switch v := v.(type) {
	case nil:
		return uritemplate.Value{}
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, fmt.Sprint(item))
		}
		return uritemplate.List(items...)
	case map[string]any:
		m := make(map[string]string)
		for key, item := range v {
			m[key] = fmt.Sprint(item)
		}
		return uritemplate.Map(m)
	default:
		return uritemplate.String(fmt.Sprint(v))
	}
}

func accepts(want any, got string, err error) bool {
	switch want := want.(type) {
	case string:
		return err == nil && got == want
	case []any:
		return err == nil && slices.Contains(want, any(got))
	default:
		return want == false && err != nil
	}
}
