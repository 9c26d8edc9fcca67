package archtest

import (
	"fmt"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A finding is one place that breaks a rule.
type finding struct {
	path string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// A rule looks at one file.
type rule func(*source) []finding

// exceptions are the files that a rule leaves alone, each with the reason.
type exceptions map[string]string

// enforce applies a rule to every file of the module.
func enforce(t *testing.T, check rule, except exceptions) {
	t.Helper()
	needed := map[string]bool{}
	for _, file := range moduleSources(t) {
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
			t.Errorf("%s needs no exception any more; delete its entry", name)
		}
		if reason == "" {
			t.Errorf("the exception for %s gives no reason", name)
		}
	}
}

var want = regexp.MustCompile("// want (\"[^\"]*\"|`[^`]*`)")

// planted applies a rule to a file in testdata/planted that breaks it, as if the
// file were called name. Each line that must be found says so in a comment.
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
