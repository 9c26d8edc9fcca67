package search

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		" \t…—":                  "",
		"github__create_issue":   "github create issue",
		"kebab-case.and/path":    "kebab case and path",
		"readURL":                "read url readurl",
		"HTTPServer":             "http server httpserver",
		"GitHub's":               "git hub github s",
		"listPullRequests2":      "list pull requests2 listpullrequests2",
		"base64Encode s3 OAuth2": "base64 encode base64encode s3 o auth2 oauth2",
		"ABC":                    "abc",
		"issues Issue ISSUES":    "issues issue issues",
		"Größe ÄNDERN naïve":     "größe ändern naïve",
		"e\u0301tude":            "e\u0301tude",
		"ÉcoleÉlémentaire":       "école élémentaire écoleélémentaire",
		"天気api":                  "天 気 api",
		"Ωmega٣":                 "ωmega٣",
		"a\xffb\xf0\x9f":         "a b",
		"a\x00b":                 "a b",
	} {
		var got []string
		for word := range words(text) {
			got = append(got, word)
		}
		if joined := strings.Join(got, " "); joined != want {
			t.Errorf("%q is %q, want %q", text, joined, want)
		}
	}
}

func TestStems(t *testing.T) {
	for _, same := range []string{
		"issue issues", "query queries", "search searches searching", "cache caches cached", "box boxes", "class classes",
		"merge merged merges", "assign assigned assigning", "repository repositories", "status", "größe", "s3", "",
	} {
		forms := strings.Split(same, " ")
		for _, form := range forms {
			if got, want := stemOf(form), stemOf(forms[0]); got != want {
				t.Errorf("the stem of %q is %q, want %q", form, got, want)
			}
		}
	}
	for _, different := range [][2]string{{"issue", "issuer"}, {"größe", "größ"}, {"list", "listen"}} {
		if stemOf(different[0]) == stemOf(different[1]) {
			t.Errorf("%q have one stem", different)
		}
	}
}

func TestWordsStops(t *testing.T) {
	for n := 1; n < 5; n++ {
		var got []string
		for word := range words("oneTwo three") {
			if got = append(got, word); len(got) == n {
				break
			}
		}
		if want := []string{"one", "two", "onetwo", "three"}[:n]; !slices.Equal(got, want) {
			t.Errorf("words are %q, want %q", got, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, seed := range []string{"github__create_issue", "HTTPServer", "天気api", "queries", "a\xffb", strings.Repeat("x", 200), strings.Repeat("Ⱥ", 40), "İSTANBULses"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		count := 0
		for word := range words(text) {
			count++
			if stemOf(word) == "" {
				t.Fatalf("%q has no stem", word)
			}
			if len(word) == 0 || len(word) > 2*maxWord || !utf8.ValidString(word) {
				t.Fatalf("%q has the word %q", text, word)
			}
			for _, r := range word {
				if !isWordRune(r) {
					t.Fatalf("%q has the word %q", text, word)
				}
			}
		}
		if count > 2*utf8.RuneCountInString(text) {
			t.Fatalf("%q has %d words", text, count)
		}
		if strings.ContainsFunc(text, isWordRune) != (count > 0) {
			t.Fatalf("%q has %d words", text, count)
		}
		// Separators do not affect words.
		var apart, together []string
		for word := range words(text + " — " + text) {
			apart = append(apart, word)
		}
		for range 2 {
			for word := range words(text) {
				together = append(together, word)
			}
		}
		if !slices.Equal(apart, together) {
			t.Fatalf("%q twice is %q, want %q", text, apart, together)
		}
	})
}
