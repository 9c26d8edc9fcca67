package uritemplate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

func TestMain(m *testing.M) { leak.Main(m) }

func parse(t testing.TB, text string) *uritemplate.Template {
	t.Helper()
	template, err := uritemplate.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return template
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		text   string
		names  []string
		prefix string
	}{
		{"", nil, ""},
		{"file:///readme", nil, "file:///readme"},
		{"{+a}", []string{"a"}, ""},
		{"x://h/{a,b*}{/c:3}/{a}{?d.e,%41}", []string{"a", "b", "c", "d.e", "%41"}, "x://h/"},
	} {
		template := parse(t, test.text)
		if got := template.Names(); !slices.Equal(got, test.names) {
			t.Errorf("%q: names %q, want %q", test.text, got, test.names)
		}
		if got := template.Prefix(); got != test.prefix {
			t.Errorf("%q: prefix %q, want %q", test.text, got, test.prefix)
		}
		if got := template.String(); got != test.text {
			t.Errorf("%q: text %q", test.text, got)
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

func TestExpandRefuses(t *testing.T) {
	long := strings.Repeat("a", uritemplate.MaxURI)
	for _, test := range []struct {
		text, fault string
		value       uritemplate.Value
	}{
		{"{v}", "v", uritemplate.String("\xff")},
		{"{?v*}", "v", uritemplate.List("a", "\xc0\xaf")},
		{"{v}", "v", uritemplate.Map(map[string]string{"\xff": "a"})},
		{"{v:1}", "v", uritemplate.List("a")},
		{"{v:1}", "v", uritemplate.Map(map[string]string{"a": "b"})},
		{"{v}", "v", uritemplate.String(long + "a")},
		{"/{v}", "", uritemplate.String(long)},
		{"{v}/", "", uritemplate.String(long)},
	} {
		uri, err := parse(t, test.text).Expand(map[string]uritemplate.Value{"v": test.value})
		var bad *uritemplate.ValueError
		if !errors.As(err, &bad) || bad.Name != test.fault || uri != "" {
			t.Errorf("%s: %d bytes, %v, want a ValueError about %q", test.text, len(uri), err, test.fault)
		}
	}
}

func TestExpandEscapesKeys(t *testing.T) {
	values := map[string]uritemplate.Value{"m": uritemplate.Map(map[string]string{"a=1&b": "c"})}
	got, err := parse(t, "{?m*}").Expand(values)
	if want := "?a%3D1%26b=c"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestExpandCopiesLists(t *testing.T) {
	items := []string{"a", "b"}
	value := uritemplate.List(items...)
	items[0] = "changed"
	got, err := parse(t, "{v}").Expand(map[string]uritemplate.Value{"v": value})
	if got != "a,b" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
