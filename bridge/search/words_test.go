package search

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		" \t…—":                       "",
		"github__create_issue":        "github create issue",
		"kebab-case.and/path":         "kebab case and path",
		"readURL":                     "read url readurl",
		"HTTPServer":                  "http server httpserver",
		"GitHub's":                    "git hub github s",
		"listPullRequests2":           "list pull requests2 listpullrequests2",
		"base64Encode s3 OAuth2":      "base64 encode base64encode s3 o auth2 oauth2",
		"ABC":                         "abc",
		"issues Issue ISSUES":         "issue issue issue",
		"queries query":               "query query",
		"searches search caches box":  "search search cach box",
		"boxes classes class address": "box class class address",
		"status bus as is DNS":        "status bus as is dn",
		"Größe ÄNDERN naïve":          "größe ändern naïve",
		"e\u0301tude":                 "e\u0301tude",
		"ÉcoleÉlémentaire":            "école élémentaire écoleélémentaire",
		"天気api":                       "天 気 api",
		"Ωmega٣":                      "ωmega٣",
		"a\xffb\xf0\x9f":              "a b",
		"a\x00b":                      "a b",
	} {
		var got []string
		for word := range words(text) {
			got = append(got, string(word))
		}
		if joined := strings.Join(got, " "); joined != want {
			t.Errorf("%q is %q, want %q", text, joined, want)
		}
	}
}

func TestWordsStops(t *testing.T) {
	for n := 1; n < 5; n++ {
		var got []string
		for word := range words("oneTwo three") {
			if got = append(got, string(word)); len(got) == n {
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
			if len(word) == 0 || len(word) > maxWord+utf8.UTFMax || !utf8.Valid(word) {
				t.Fatalf("%q has the word %q", text, word)
			}
			for _, r := range string(word) {
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
		var apart, together [][]byte
		for word := range words(text + " — " + text) {
			apart = append(apart, bytes.Clone(word))
		}
		for range 2 {
			for word := range words(text) {
				together = append(together, bytes.Clone(word))
			}
		}
		if !slices.EqualFunc(apart, together, bytes.Equal) {
			t.Fatalf("%q twice is %q, want %q", text, apart, together)
		}
	})
}
