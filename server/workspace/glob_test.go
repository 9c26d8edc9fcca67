package workspace

import (
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/test/globtest"
)

// comparePattern compares the patterns of Find with a matcher that tries everything.
func comparePattern(t *testing.T, pattern, name string) {
	t.Helper()
	want := globtest.Match(strings.TrimPrefix(pattern, "./"), name)
	if !strings.Contains(pattern, "/") {
		want = globtest.Match(pattern, path.Base(name))
	}
	if got := matches(pattern, name); pattern != "" && got != want && !(want && globtest.MayMiss(pattern)) {
		t.Errorf("%q matches %q is %t, want %t", pattern, name, got, want)
	}
}

// isComparable reports whether the reference reads a pattern as Find does: it has no escapes, no empty
// elements, no sets with a slash, and not both braces and sets.
func isComparable(pattern string) bool {
	if strings.Contains(pattern, "[") && slices.ContainsFunc(strings.Split(pattern, "/"), func(element string) bool { return checkPattern(element) != nil }) {
		return false
	}
	elements := "/" + strings.NewReplacer("{", "/", ",", "/", "}", "/").Replace(pattern) + "/"
	if !strings.Contains(pattern, "{") {
		elements = "/" + pattern + "/"
	}
	return checkPattern(pattern) == nil && !strings.Contains(pattern, `\`) && !strings.Contains(elements, "//") &&
		!(strings.Contains(pattern, "{") && strings.Contains(pattern, "["))
}

func TestPatternReference(t *testing.T) {
	for _, of := range []struct {
		patterns, names string
		pattern, name   int
	}{{"ab/*?", "ab/", 5, 4}, {"a*/{,}", "a/", 6, 4}, {"ab[]!-*", "ab-", 5, 2}} {
		var names []string
		for _, name := range globtest.Texts(of.names, of.name) {
			if path.Clean(name) == name && !strings.HasPrefix(name, "/") && name != "." {
				names = append(names, name)
			}
		}
		for _, pattern := range globtest.Texts(of.patterns, of.pattern) {
			if !isComparable(pattern) {
				continue
			}
			for _, name := range names {
				comparePattern(t, pattern, name)
			}
		}
	}
}

func FuzzPatternReference(f *testing.F) {
	for _, pattern := range []string{"*", "**/*.go", "a/**/b", "{a,b}/*", "[a-c]?", "**/{*.ts,x}", "a/{b,**}/c", "./a*", "[!-a]*", "**a/**", "***"} {
		f.Add(pattern, "a/b/c.go")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if isComparable(pattern) && strings.Count(pattern, "*") <= 6 && len(name) <= 30 && len(pattern) <= 60 &&
			utf8.ValidString(name) && path.Clean(name) == name && !strings.HasPrefix(name, "/") && name != "." {
			comparePattern(t, pattern, name)
		}
	})
}
