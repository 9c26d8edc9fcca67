package uritemplate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func parse(t testing.TB, text string) *uritemplate.Template {
	t.Helper()
	template, err := uritemplate.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return template
}

func TestParse(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "file:///readme": nil, "{+a}": {"a"},
		"x://h/{a,b*}{/c:3}/{a}{?d.e,%41}": {"a", "b", "c", "d.e", "%41"},
	} {
		if got := parse(t, text).Names(); !slices.Equal(got, want) {
			t.Errorf("%q: names %q, want %q", text, got, want)
		}
	}
}

func TestParseNamesTheFault(t *testing.T) {
	for _, test := range []struct{ text, fault string }{
		{"/a/{ok}/{not ok}/b", "{not ok}"},
		{"/a/{ok}/{open", "{open"},
		{"/a/{ok}b}c", "b}c"},
		{"a b/{ok}", "a b/"},
		{"{ok}{}", "{}"},
	} {
		_, err := uritemplate.Parse(test.text)
		var syntax *uritemplate.SyntaxError
		if !errors.As(err, &syntax) || syntax.Text != test.fault {
			t.Errorf("Parse(%q): %v, want a SyntaxError about %q", test.text, err, test.fault)
		}
	}
}

func TestParseLimits(t *testing.T) {
	const expression = "{a}"
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"longest", strings.Repeat("a", uritemplate.MaxTemplate), true},
		{"too long", strings.Repeat("a", uritemplate.MaxTemplate+1), false},
		{"most expressions", strings.Repeat(expression, uritemplate.MaxExpressions), true},
		{"too many expressions", strings.Repeat(expression, uritemplate.MaxExpressions+1), false},
	} {
		_, err := uritemplate.Parse(test.text)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
