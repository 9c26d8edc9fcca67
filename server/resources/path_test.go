package resources_test

import (
	"mime"
	"path"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/test/globtest"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/server/resources"
)

// invalidNames are rejected on every system.
var invalidNames = []string{
	"", ".", "..", "../a", "a/..", "a/../b", "a/../../b", "./a", "a/./b", "/", "/a", "/etc/passwd", "//host/share", "a//b", "a/", "a/b/",
	`..\a`, `a\..\b`, `\a`, `C:\a`, `\\host\share`, `\\?\C:\a`, `a\b`, "a\x00", "\x00", "a\x00/../b", "\xff", "a/\xc3\x28",
	strings.Repeat("a", resources.MaxElement+1), strings.Repeat("a/", resources.MaxDepth) + "a",
}

func TestIsName(t *testing.T) {
	for _, name := range invalidNames {
		if resources.IsName(name) {
			t.Errorf("%.80q is accepted", name)
		}
	}
	for _, name := range []string{
		"a", "a/b", "...", "..a", "a..", "a b", "ä/ö", ".a", "a/.b", "-a", "%2e%2e", "a;b", "a?b#c", strings.Repeat("a", resources.MaxElement),
		strings.Repeat("a/", resources.MaxDepth-1) + "a", "a'b\"c", "\u202e",
	} {
		if runtime.GOOS != "windows" && !resources.IsName(name) {
			t.Errorf("%.80q is rejected", name)
		}
	}
}

func TestIsHidden(t *testing.T) {
	for name, want := range map[string]bool{
		".a": true, "a/.b": true, ".a/b": true, "a/.b/c": true, "...": true, "..a": true, "a": false, "a.b": false, "a/b.c": false, "a./b": false, "a/b.": false,
	} {
		if resources.IsHidden(name) != want {
			t.Errorf("%s is hidden: %t, want %t", name, !want, want)
		}
	}
}

func TestIsWindowsAlias(t *testing.T) {
	for element, want := range map[string]bool{
		"a.txt::$DATA": true, "C:": true, "a:b": true, "GIT~1": true, "a~2.txt": true, "a.": true, "a ": true, "a*": true, "a?": true, "a|b": true, "<": true, `"`: true,
		"a": false, "a.txt": false, "a~": false, "a~b": false, " a": false, ".a": false,
	} {
		if resources.IsWindowsAlias(element) != want {
			t.Errorf("%q: %t, want %t", element, !want, want)
		}
	}
}

// The URI of every valid name decodes to that name.
func FuzzName(f *testing.F) {
	for _, name := range append(invalidNames, "a", "a/b", "a b", "ä/ö", "a?b#c", "%2e%2e/%2f", "a%zz", "a+b&c=d", "{a}", "..a") {
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
			t.Fatalf("%q has the URI %q, which decodes to %q", name, resources.URIOf(base, name), found.Value)
		}
	})
}

func TestPattern(t *testing.T) {
	for pattern, names := range map[string]struct{ yes, no []string }{
		"*":              {[]string{"a", "a.b", ".a", "ä"}, []string{"a/b"}},
		"**":             {[]string{"a", "a/b", "a/b/c"}, nil},
		"*.md":           {[]string{"a.md", ".md"}, []string{"a.txt", "a/b.md", "a.mdx"}},
		"**/*.md":        {[]string{"a.md", "x/a.md", "x/y/a.md"}, []string{"a.txt", "a.md/b"}},
		"docs/**":        {[]string{"docs/a", "docs/a/b"}, []string{"doc/a", "x/docs/a"}},
		"docs/**/*.md":   {[]string{"docs/a.md", "docs/x/a.md"}, []string{"a.md", "docs/x/a.txt", "x/docs/a.md"}},
		"**/test/**":     {[]string{"test/a", "x/test/a", "x/y/test/z/a"}, []string{"a", "tests/a"}},
		"**/a/**/b":      {[]string{"a/b", "x/a/b", "a/x/y/b", "a/a/b"}, []string{"a", "b", "a/b/c"}},
		"**/**":          {[]string{"a", "a/b"}, nil},
		"a/**/**/**/b/c": {[]string{"a/b/c", "a/x/b/c", "a/b/b/c"}, []string{"a/b", "a/c"}},
		"a?c":            {[]string{"abc", "aäc"}, []string{"ac", "a/c"}},
		"[a-c].txt":      {[]string{"a.txt", "c.txt"}, []string{"d.txt"}},
		"[^a]*":          {[]string{"b", "bc"}, []string{"a", "ab"}},
		"a/*/c":          {[]string{"a/b/c"}, []string{"a/c", "a/b/b/c"}},
		"[.][.]/*":       {nil, []string{"a", "a/b"}},
		"{a,b}":          {[]string{"a", "b"}, []string{"{a,b}", "ab"}},
		"**/*.{ts,tsx}":  {[]string{"a.ts", "x/a.tsx"}, []string{"a.js", "a.tsxx"}},
		"[ab].ts":        {[]string{"a.ts", "b.ts"}, []string{"c.ts"}},
	} {
		p, err := resources.ParsePattern(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		for _, name := range names.yes {
			if !p.Matches(name) {
				t.Errorf("%s does not match %s", pattern, name)
			}
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if !p.LeadsBelow(dir) {
					t.Errorf("%s matches %s, but not below %s", pattern, name, dir)
				}
			}
		}
		for _, name := range names.no {
			if p.Matches(name) {
				t.Errorf("%s matches %s", pattern, name)
			}
		}
	}
}

// Directories in which no file can match are skipped.
func TestPatternLeadsBelow(t *testing.T) {
	for pattern, dirs := range map[string]struct{ into, past []string }{
		"*":       {nil, []string{"a", "a/b"}},
		"a/*":     {[]string{"a"}, []string{"b", "a/b"}},
		"a/**":    {[]string{"a", "a/b", "a/b/c"}, []string{"b"}},
		"a/*/c/*": {[]string{"a", "a/b", "a/x/c"}, []string{"a/b/d", "a/b/c/d"}},
	} {
		p, err := resources.ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs.into {
			if !p.LeadsBelow(dir) {
				t.Errorf("%s does not lead into %s", pattern, dir)
			}
		}
		for _, dir := range dirs.past {
			if p.LeadsBelow(dir) {
				t.Errorf("%s leads into %s", pattern, dir)
			}
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for _, pattern := range []string{
		"../*", "..", "a/../*", "a/..", "./a", ".", "a/./b", "/a", "/", "//a", "a//b", "a/", "a**", "**a", "a/**b/c", "***",
		`..\*`, `a\b`, `C:\*`, `\\host\x`, "a\x00", "[a\xb90]", "[", "[a", "a/[b-", "[]a]", "{a", "{a/b,c}", "a/{}}/{", strings.Repeat("{a,b}", 5), strings.Repeat("a", resources.MaxPattern+1), "",
	} {
		if _, err := resources.ParsePattern(pattern); err == nil {
			t.Errorf("the pattern %q is accepted", pattern)
		} else if len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

// FuzzPattern compares with an exhaustive matcher.
func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{"*", "**", "**/*.md", "a/**/b", "**/**/a", "[a-c]?", "../*", `a\*`, "a/[.][.]/b", "**/a/**/b/**"} {
		for _, name := range []string{"a", "a/b", "x/a.md", "a/b/a/b", "../a", "a/x/y/b"} {
			f.Add(pattern, name)
		}
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := resources.ParsePattern(text)
		if err != nil {
			return
		}
		elements, names := strings.Split(text, "/"), strings.Split(name, "/")
		if strings.ContainsAny(text, "{}[]") || !utf8.ValidString(name) { // path.Match has no alternatives and fewer classes
			return
		}
		if len(elements) > 8 || len(names) > 12 {
			return
		}
		got := p.Matches(name)
		if want := matchesExhaustively(elements, names); got != want {
			t.Fatalf("%q matches %q: %t, want %t", text, name, got, want)
		}
		for i := 1; got && i < len(names); i++ {
			if dir := strings.Join(names[:i], "/"); !p.LeadsBelow(dir) {
				t.Fatalf("%q matches %q, but %q is not entered", text, name, dir)
			}
		}
	})
}

func matchesExhaustively(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return matchesExhaustively(pattern[1:], name) || len(name) > 0 && matchesExhaustively(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	ok, err := path.Match(strings.ReplaceAll(pattern[0], "[!", "[^"), name[0])
	return err == nil && ok && matchesExhaustively(pattern[1:], name[1:])
}

func TestTypeOf(t *testing.T) {
	for name, want := range map[string]string{
		"a.json": "application/json", "A.JSON": "application/json", "a.tar.gz": "application/gzip", "dir.md/a": "", "a": "", ".gitignore": "",
		"a.yaml": "application/yaml", "a.yml": "application/yaml", "a.toml": "application/toml", "a.svg": "image/svg+xml", "a.ts": "text/x-typescript",
		"a.go": "text/x-go", "a.unheard-of": "", "a.": "", "README.md": "text/markdown",
	} {
		if got := resources.TypeOf(name); got != want {
			t.Errorf("the type of %s is %q, want %q", name, got, want)
		}
	}
	for extension, mimeType := range resources.Types {
		media, _, err := mime.ParseMediaType(mimeType)
		if err != nil || media != mimeType || extension != strings.ToLower(extension) || extension[0] != '.' {
			t.Errorf("%s is %s: %v", extension, mimeType, err)
		}
	}
}

func TestIsText(t *testing.T) {
	for _, mimeType := range []string{
		"text/plain", "TEXT/HTML", "text/html; charset=utf-8", "text/html; charset=UTF-8", "text/plain; charset=us-ascii", "application/json", "application/xml",
		"application/ld+json", "image/svg+xml", "application/yaml", "application/openapi+yaml", "application/toml", "text/javascript", "application/javascript",
		"application/x-yaml", "application/vnd.api+json; version=1",
	} {
		if !resources.IsText(mimeType) {
			t.Errorf("%s is not text", mimeType)
		}
	}
	for _, mimeType := range []string{
		"", "image/png", "application/octet-stream", "application/zip", "application/json+zip", "text", "texts/plain", "text/plain; charset=utf-16",
		"text/html; charset=iso-8859-1", "application/epub+zip", "a/b/c", "application/+",
	} {
		if resources.IsText(mimeType) {
			t.Errorf("%s is text", mimeType)
		}
	}
}

func TestResponseType(t *testing.T) {
	for contentType, want := range map[string]string{
		"": "", "text/plain": "text/plain", "Text/HTML; charset=UTF-8": "text/html", "application/json;charset=utf-8": "application/json",
		"text/html; charset=iso-8859-1": "text/html; charset=iso-8859-1", "multipart/mixed; boundary=x": "multipart/mixed", "nonsense": "", ";": "", "text/": "",
	} {
		if got := resources.ResponseType(contentType); got != want {
			t.Errorf("%q has the type %q, want %q", contentType, got, want)
		}
	}
}

// comparePattern compares with a matcher that tries everything.
func comparePattern(t *testing.T, pattern, name string) {
	t.Helper()
	p, err := resources.ParsePattern(pattern)
	if err != nil || strings.Contains(pattern, "{") && strings.Contains(pattern, "[") {
		return
	}
	want := globtest.Match(pattern, name)
	if got := p.Matches(name); got != want && !(want && globtest.MayMiss(strings.ReplaceAll(pattern, "**/", ""))) {
		t.Errorf("%q matches %q is %t, want %t", pattern, name, got, want)
	}
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
			if _, err := resources.ParsePattern(pattern); err != nil {
				continue
			}
			for _, name := range names {
				comparePattern(t, pattern, name)
			}
		}
	}
}

func FuzzPatternReference(f *testing.F) {
	for _, pattern := range []string{"*", "**/*.go", "a/**/b", "{a,b}/*", "[a-c]?", "**/{x.ts,x}", "a/*/**/c", "[!-a]*", "**/**"} {
		f.Add(pattern, "a/b/c.go")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.Count(pattern, "*") <= 6 && len(name) <= 30 && len(pattern) <= 60 &&
			utf8.ValidString(name) && path.Clean(name) == name && !strings.HasPrefix(name, "/") && name != "." {
			comparePattern(t, pattern, name)
		}
	})
}
