package resources_test

import (
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/server/resources"
)

// noNames are paths that must lead nowhere, on any system.
var noNames = []string{
	"", ".", "..", "../a", "a/..", "a/../b", "a/../../b", "./a", "a/./b", "/", "/a", "/etc/passwd", "//host/share", "a//b", "a/", "a/b/",
	`..\a`, `a\..\b`, `\a`, `C:\a`, `\\host\share`, `\\?\C:\a`, `a\b`, "a\x00", "\x00", "a\x00/../b", "\xff", "a/\xc3\x28",
	strings.Repeat("a", resources.MaxElement+1), strings.Repeat("a/", resources.MaxDepth) + "a",
}

func TestNames(t *testing.T) {
	for _, name := range noNames {
		if resources.IsName(name) {
			t.Errorf("%.80q is a name", name)
		}
	}
	for _, name := range []string{
		"a", "a/b", "...", "..a", "a..", "a b", "ä/ö", ".a", "a/.b", "-a", "%2e%2e", "a;b", "a?b#c", strings.Repeat("a", resources.MaxElement),
		strings.Repeat("a/", resources.MaxDepth-1) + "a", "a'b\"c", "\u202e",
	} {
		if runtime.GOOS != "windows" && !resources.IsName(name) {
			t.Errorf("%.80q is no name", name)
		}
	}
}

func TestHiddenNames(t *testing.T) {
	for name, want := range map[string]bool{
		".a": true, "a/.b": true, ".a/b": true, "a/.b/c": true, "...": true, "..a": true, "a": false, "a.b": false, "a/b.c": false, "a./b": false, "a/b.": false,
	} {
		if resources.IsHidden(name) != want {
			t.Errorf("%s is hidden: %t, want %t", name, !want, want)
		}
	}
}

func TestWindowsAliases(t *testing.T) {
	for element, want := range map[string]bool{
		"a.txt::$DATA": true, "C:": true, "a:b": true, "GIT~1": true, "a~2.txt": true, "a.": true, "a ": true, "a*": true, "a?": true, "a|b": true, "<": true, `"`: true,
		"a": false, "a.txt": false, "a~": false, "a~b": false, " a": false, ".a": false,
	} {
		if resources.IsWindowsAlias(element) != want {
			t.Errorf("%q: %t, want %t", element, !want, want)
		}
	}
}

// A name that is allowed comes back out of its URI as it was, whatever is in it.
func FuzzName(f *testing.F) {
	for _, name := range append(noNames, "a", "a/b", "a b", "ä/ö", "a?b#c", "%2e%2e/%2f", "a%zz", "a+b&c=d", "{a}", "..a") {
		f.Add(name)
	}
	const base = "file:///docs/"
	template, err := uritemplate.Parse(base + "{+path}")
	if err != nil {
		f.Fatal(err)
	}
	matcher, err := template.Matcher()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !resources.IsName(name) {
			return
		}
		if path.Clean(name) != name || path.IsAbs(name) || strings.HasPrefix(name, "../") || name == ".." || strings.ContainsAny(name, "\\\x00") {
			t.Fatalf("%q is a name", name)
		}
		values, ok := matcher.Match(resources.URIOf(base, name))
		if found, _ := values.Lookup("path"); !ok || found.Value != name {
			t.Fatalf("%q has the URI %q, which stands for %q", name, resources.URIOf(base, name), found.Value)
		}
	})
}
