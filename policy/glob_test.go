package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// globNames are the names that each pattern of the golden table is matched with.
var globNames = []string{"a", "b", "ab", "A", "a/b", "a.b", "a-b", "a_b", "[a]", "]", "!", "^", "-", `a\b`, "é", "a\n", "", "*", "?"}

// TestGlobGolden compares with the results of fnmatch.fnmatchcase of Python 3.11.
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

// asRegexp translates a pattern into a regular expression.
func asRegexp(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for rest := pattern; rest != ""; {
		var s part
		if s, rest = nextPart(rest); s.kind == literal { // by whole characters
			_, size := utf8.DecodeRuneInString(pattern[len(pattern)-len(rest)-1:])
			s.literal, rest = append(s.literal, rest[:size-1]...), rest[size-1:]
		}
		switch s.kind {
		case anyText:
			b.WriteString(".*")
		case anyChar:
			b.WriteString(".")
		case literal:
			b.WriteString(regexp.QuoteMeta(string(s.literal)))
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

// TestGlobTakesLinearTime uses a pattern that takes a naive matcher exponential time.
func TestGlobTakesLinearTime(t *testing.T) {
	g := compileGlob(strings.Repeat("a*", 200) + "b")
	if g.match([]byte(strings.Repeat("a", maxName))) {
		t.Error("it matches")
	}
}

// TestGlobCovers: a pattern covers another only if it matches all names that the other matches.
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

// allTexts returns all texts of these characters, up to a length.
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

// matchReference matches by trying everything. It reads the pattern itself.
func matchReference(pattern, text []rune) bool {
	if len(pattern) == 0 {
		return len(text) == 0
	}
	rest := pattern[1:]
	one := len(text) > 0 && pattern[0] == text[0]
	switch pattern[0] {
	case '*':
		return matchReference(rest, text) || len(text) > 0 && matchReference(pattern, text[1:])
	case '?':
		one = len(text) > 0
	case '[':
		first := 1 // of the characters that may close the set
		if len(rest) > 0 && rest[0] == '!' {
			first = 2
		}
		if end := slices.Index(rest[min(first, len(rest)):], ']'); end >= 0 {
			set := rest[:first+end]
			rest = rest[first+end+1:]
			one = len(text) > 0 && inReference(set[first-1:], text[0]) != (first == 2)
		}
	}
	return one && matchReference(rest, text[1:])
}

// inReference reports whether a set of characters and ranges has c.
func inReference(set []rune, c rune) bool {
	switch {
	case len(set) == 0:
		return false
	case len(set) >= 3 && set[1] == '-':
		return set[0] <= c && c <= set[2] || inReference(set[3:], c)
	}
	return set[0] == c || inReference(set[1:], c)
}

func compareGlob(t *testing.T, pattern, name string) {
	t.Helper()
	g := compileGlob(pattern)
	got, want := g.match([]byte(name)), matchReference([]rune(pattern), []rune(name))
	if got != want {
		t.Errorf("%q matches %q is %t, want %t", pattern, name, got, want)
	}
	if got && g.isVoid() {
		t.Errorf("%q is said to match nothing, and matches %q", pattern, name)
	}
}

// TestGlobReference compares all short patterns of some characters with all short names.
func TestGlobReference(t *testing.T) {
	for _, of := range []struct {
		patterns, names string
		pattern, name   int
	}{{"ab*?", "ab", 6, 5}, {"ab[]!-*", "ab]-", 5, 2}, {"é*?[]", "éè", 5, 3}} {
		names := allTexts(of.names, of.name)
		for _, pattern := range allTexts(of.patterns, of.pattern) {
			for _, name := range names {
				compareGlob(t, pattern, name)
			}
		}
	}
}

func FuzzGlobReference(f *testing.F) {
	for _, pattern := range []string{"*a*b?c", "[!a-z]*", "a*é?", "**[]x]**", "[a", "*?*?*", "[a-", "[!]-a]", "[--a]*"} {
		f.Add(pattern, "aébcx")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		// The reference takes time exponential in the number of stars.
		if utf8.ValidString(pattern) && utf8.ValidString(name) && len(name) <= 50 && strings.Count(pattern, "*") <= 5 {
			compareGlob(t, pattern, name)
		}
	})
}
