package resources_test

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/server/resources"
)

func TestPatternsMatch(t *testing.T) {
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
					t.Errorf("%s matches %s, but %s is not entered", pattern, name, dir)
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

// Directories in which nothing can match are not read.
func TestPatternsLead(t *testing.T) {
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

func TestPatternsThatAreRefused(t *testing.T) {
	for _, pattern := range []string{
		"../*", "..", "a/../*", "a/..", "./a", ".", "a/./b", "/a", "/", "//a", "a//b", "a/", "a**", "**a", "a/**b/c", "***",
		`..\*`, `a\b`, `C:\*`, `\\host\x`, "a\x00", "[a\xb90]", "[", "[a", "a/[b-", "[]a]", "{a", "{a/b,c}", "a/{}}/{", strings.Repeat("{a,b}", 5), strings.Repeat("a", resources.MaxPattern+1), "",
	} {
		if _, err := resources.ParsePattern(pattern); err == nil {
			t.Errorf("the pattern %q was taken", pattern)
		} else if len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

// FuzzPattern compares with a matcher that tries everything.
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
		if want := matchesByTrying(elements, names); got != want {
			t.Fatalf("%q matches %q: %t, want %t", text, name, got, want)
		}
		for i := 1; got && i < len(names); i++ {
			if dir := strings.Join(names[:i], "/"); !p.LeadsBelow(dir) {
				t.Fatalf("%q matches %q, but %q is not entered", text, name, dir)
			}
		}
	})
}

func matchesByTrying(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return matchesByTrying(pattern[1:], name) || len(name) > 0 && matchesByTrying(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	ok, err := path.Match(strings.ReplaceAll(pattern[0], "[!", "[^"), name[0])
	return err == nil && ok && matchesByTrying(pattern[1:], name[1:])
}
