package jsonscan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func TestParsePointer(t *testing.T) {
	for pointer, want := range map[string][]string{
		"": nil, "/": {""}, "/a/0": {"a", "0"}, "/a~1b/~0": {"a/b", "~"}, "/~01": {"~1"}, "//": {"", ""}, "/é": {"é"},
	} {
		got, err := jsonscan.ParsePointer(pointer)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", pointer, got, err, want)
		}
		if again := jsonscan.FormatPointer(got...); again != pointer {
			t.Errorf("%q is written %q", pointer, again)
		}
	}
	for _, pointer := range []string{"a", "/~", "/~2", "/a~", "#/a"} {
		if got, err := jsonscan.ParsePointer(pointer); err == nil {
			t.Errorf("%q is read as %q", pointer, got)
		}
	}
}

func TestFindPointer(t *testing.T) {
	const text = `{"a":1,"l":[10,[20]],"":{"":2},"esc\u0061pe":3,"b":{"c/d":[{"e~":"x"}]}}`
	for pointer, want := range map[string]string{
		"": text, "/a": "1", "/l/0": "10", "/l/1/0": "20", "//": "2", "/escape": "3", "/b/c~1d/0/e~0": `"x"`,
		"/z": "", "/a/x": "", "/l/2": "", "/l/01": "", "/l/-1": "", "/l/+1": "", "/l/x": "", "/l/99999999999": "",
	} {
		tokens, err := jsonscan.ParsePointer(pointer)
		if err != nil {
			t.Fatal(err)
		}
		got, err := jsonscan.FindPointer([]byte(text), tokens...)
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v, want %s", pointer, got, err, want)
		}
	}
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":`, `[1,}`} {
		if _, err := jsonscan.Child([]byte(text), "1"); err == nil {
			t.Errorf("something is found in %s", text)
		}
	}
}

func FuzzParsePointer(f *testing.F) {
	f.Add("/a/0/b~1", `{"a":[{"b/":1}]}`)
	f.Add("//~0", `{"":{"~":null}}`)
	f.Fuzz(func(t *testing.T, pointer, text string) {
		tokens, err := jsonscan.ParsePointer(pointer)
		if err != nil {
			return
		}
		if again := jsonscan.FormatPointer(tokens...); again != pointer {
			t.Errorf("%q was read as %q", pointer, again)
		}
		if value, err := jsonscan.FindPointer([]byte(text), tokens...); err == nil && !strings.Contains(text, string(value)) {
			t.Errorf("%q leads to %q in %q", pointer, value, text)
		}
	})
}
