package policy

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// globNames are what each pattern of the golden table is tried on.
var globNames = []string{"a", "b", "ab", "A", "a/b", "a.b", "a-b", "a_b", "[a]", "]", "!", "^", "-", `a\b`, "é", "a\n", "", "*", "?"}

// TestGlobGolden: what fnmatch.fnmatchcase of Python 3.11 says of them.
func TestGlobGolden(t *testing.T) {
	all := globNames
	for pattern, matched := range map[string][]string{
		"*": all, "**": all,
		"?":    {"a", "b", "A", "]", "!", "^", "-", "é", "*", "?"},
		"a*":   {"a", "ab", "a/b", "a.b", "a-b", "a_b", `a\b`, "a\n"},
		"[ab]": {"a", "b"}, "[!ab]": {"A", "]", "!", "^", "-", "é", "*", "?"},
		"[^a]": {"a", "^"}, "[]]": {"]"}, "[!]]": {"a", "b", "A", "!", "^", "-", "é", "*", "?"},
		"[a-]": {"a", "-"}, "[-a]": {"a", "-"}, "[b-a]": nil, "[!b-a]": {"a", "b", "A", "]", "!", "^", "-", "é", "*", "?"},
		"[": nil, "[]": nil, "[!]": nil, "[!": nil, "a[": nil,
		"[[]a]": {"[a]"}, `\*`: nil, `a\b`: {`a\b`}, "a?b": {"a/b", "a.b", "a-b", "a_b", `a\b`},
		"[a-z]": {"a", "b"}, "[A-Z]": {"A"}, "[a-c-e]": {"a", "b", "-"}, "[--/]": {"-"}, "[*]": {"*"}, "[?]": {"?"},
		"": {""}, "a": {"a"}, "*b": {"b", "ab", "a/b", "a.b", "a-b", "a_b", `a\b`}, "*\n": {"a\n"},
	} {
		g := compileGlob(pattern)
		want := map[string]bool{}
		for _, name := range matched {
			want[name] = true
		}
		for _, name := range all {
			if got := g.match([]byte(name)); got != want[name] {
				t.Errorf("%q matches %q is %t, want %t", pattern, name, got, want[name])
			}
		}
	}
	for pattern, names := range map[string]string{
		"[": "[", "[]": "[]", "[!]": "[!]", "[!": "[!", "a[": "a[", `\*`: `\x \`, "[a-c-e]": "a b c - e", "[--/]": "- . /",
	} {
		g := compileGlob(pattern)
		for name := range strings.FieldsSeq(names) {
			if !g.match([]byte(name)) {
				t.Errorf("%q does not match %q", pattern, name)
			}
		}
	}
}

// asRegexp is another way to match.
func asRegexp(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for rest := pattern; rest != ""; {
		var s step
		if s, rest = nextStep(rest); s.kind == run { // by whole characters
			_, size := utf8.DecodeRuneInString(pattern[len(pattern)-len(rest)-1:])
			s.run, rest = append(s.run, rest[:size-1]...), rest[size-1:]
		}
		switch s.kind {
		case anyText:
			b.WriteString(".*")
		case anyChar:
			b.WriteString(".")
		case run:
			b.WriteString(regexp.QuoteMeta(string(s.run)))
		case ofSet:
			class := ""
			for _, r := range s.set.ranges {
				class += regexp.QuoteMeta(string(r.low)) + "-" + regexp.QuoteMeta(string(r.high))
			}
			class = strings.NewReplacer("--", `\x2d-`, "-]", `-\]`).Replace(class)
			switch {
			case class == "" && s.set.negated:
				b.WriteString(".")
			case class == "":
				b.WriteString(`[^\x{0}-\x{10FFFF}]`)
			case s.set.negated:
				b.WriteString("[^" + class + "]")
			default:
				b.WriteString("[" + class + "]")
			}
		}
	}
	re, err := regexp.Compile(b.String() + `\z`)
	if err != nil {
		return nil
	}
	return re
}

func FuzzGlob(f *testing.F) {
	for _, pattern := range []string{"*a*b?c", "[!a-z]*", "a*é?", "**[]x]**", "[a", "*?*?*"} {
		f.Add(pattern, "aébcx")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) || len(pattern) > 100 || strings.ContainsRune(pattern, '\\') {
			return
		}
		g := compileGlob(pattern)
		got := g.match([]byte(name))
		if re := asRegexp(pattern); re != nil && re.MatchString(name) != got {
			t.Errorf("%q matches %q is %t, and as %v it is not", pattern, name, got, re)
		}
		other := compileGlob(name)
		if g.covers(&other) && len(other.rest) == 0 && !got {
			t.Errorf("%q covers %q, and does not match it", pattern, name)
		}
	})
}

// TestGlobTakesLinearTime: the texts and patterns that make naive matchers take ages.
func TestGlobTakesLinearTime(t *testing.T) {
	g := compileGlob(strings.Repeat("a*", 200) + "b")
	if g.match([]byte(strings.Repeat("a", MaxName))) {
		t.Error("it matches")
	}
}

// TestGlobCovers: only if all names that the one matches are matched by the other.
func TestGlobCovers(t *testing.T) {
	patterns := allTexts("ab*?", 3)
	names := allTexts("abc", 4)
	for _, outer := range patterns {
		o := compileGlob(outer)
		for _, inner := range patterns {
			if i := compileGlob(inner); o.covers(&i) {
				for _, name := range names {
					if i.match([]byte(name)) && !o.match([]byte(name)) {
						t.Fatalf("%q covers %q, and does not match %q", outer, inner, name)
					}
				}
			}
		}
	}
}

// allTexts are all texts of those characters, up to a length.
func allTexts(alphabet string, most int) []string {
	texts, last := []string{""}, []string{""}
	for range most {
		var next []string
		for _, text := range last {
			for _, c := range alphabet {
				next = append(next, text+string(c))
			}
		}
		texts, last = append(texts, next...), next
	}
	return texts
}
