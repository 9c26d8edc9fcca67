package uritemplate_test

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

// FuzzParse wants every template that is accepted to expand, and every one that can
// be matched to match what it expands to.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "/a/{b}", "{+a}.{b}{?c,d*}{#e}", "x://h{/a,b*}", "/x?k=v&a={a}{&b}", "{.a:3,%41.b}{;c}",
		"{a", "a}", "{}", "{!a}", "%", "%FF", "é\x00", "{a:10000}", "{{a}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template, err := uritemplate.Parse(text)
		if err != nil {
			return
		}
		if template.String() != text {
			t.Fatalf("%q became %q", text, template)
		}
		values := make(map[string]uritemplate.Value)
		for _, name := range template.Names() {
			values[name] = uritemplate.String("é€")
		}
		uri, err := template.Expand(values)
		if err != nil {
			return // too long
		}
		m, err := template.Matcher()
		if err != nil {
			return
		}
		if _, ok := m.Match(uri); !ok {
			t.Fatalf("%q does not match its own expansion %q", text, uri)
		}
	})
}

// FuzzMatch wants any match to consist of known variables with valid text.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"/a/{b}", "/a/b"},
		{"{+a}.{b}{?c,d*}{#e}", "x/y.z?d=1&d=%32&c#%C3%A9"},
		{"X://h{/a,b*}", "x://H/%2F/b/c"},
		{"/x?k=v&a={a}{&b}", "/x?b&a=1&k=v"},
		{"{a}%20{b}", "%2520%20%"},
		{"{a}/{b}", "%C0%AF/%ff"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, uri string) {
		template, err := uritemplate.Parse(text)
		if err != nil {
			return
		}
		m, err := template.Matcher()
		if err != nil {
			return
		}
		found, _ := m.Match(uri)
		names := template.Names()
		for _, v := range found {
			at := slices.Index(names, v.Name)
			if at < 0 {
				t.Fatalf("%q on %q: %q is unknown or out of order", text, uri, v.Name)
			}
			names = names[at+1:]
			for _, value := range append(v.List, v.Value) {
				if !utf8.ValidString(value) {
					t.Fatalf("%q on %q: %s = %q", text, uri, v.Name, value)
				}
			}
		}
	})
}
