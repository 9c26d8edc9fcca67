package uritemplate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

func matcher(t testing.TB, text string) *uritemplate.Matcher {
	t.Helper()
	m, err := parse(t, text).Matcher()
	if err != nil {
		t.Fatalf("Matcher of %q: %v", text, err)
	}
	return m
}

type vars = uritemplate.Variables

func one(name, value string) uritemplate.Variable {
	return uritemplate.Variable{Name: name, Value: value}
}

func many(name, value string, list ...string) uritemplate.Variable {
	return uritemplate.Variable{Name: name, Value: value, List: list}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		text, uri string
		want      vars // nil: no match
	}{
		// Literal text.
		{"", "", vars{}},
		{"", "a", nil},
		{"file:///readme", "file:///readme", vars{}},
		{"file:///readme", "file:///readme/", nil},
		{"file:///readme", "file:///READme", nil},
		{"file://Host/a", "FILE://hOST/a", vars{}},
		{"file://Host/a", "FILE://hOST/A", nil},
		{"ftp://User@host/", "FTP://User@host/", vars{}},
		{"ftp://User@host/", "FTP://user@host/", nil},
		{"mail:{who}", "MAIL:Ann", vars{one("who", "Ann")}},
		{"x://a%20b/", "x://a%21b/", nil},
		{"/a:b", "/A:b", nil},
		{"caf\u00e9/{x}", "caf%c3%a9/%E2%82%AC", vars{one("x", "€")}},
		{"caf%C3%A9/{x}", "café/€", vars{one("x", "€")}},
		{"/a~b", "/%61%7eb", vars{}},

		// One segment.
		{"/items/{id}", "/items/42", vars{one("id", "42")}},
		{"/items/{id}", "/items/", nil},
		{"/items/{id}", "/items/4/2", nil},
		{"/items/{id}", "/items/4%2F2", vars{one("id", "4/2")}},
		{"/items/{id}", "/items/%252F", vars{one("id", "%2F")}},
		{"/items/{id}", "/items/a,b;c:d@e", vars{one("id", "a,b;c:d@e")}},
		{"/items/{id}", "/items/42?x=1#y", vars{one("id", "42")}},
		{"/items/{id}", "/items/4%3F2%23", vars{one("id", "4?2#")}},
		{"/items/{id}", "/items/%00", vars{one("id", "\x00")}},
		{"/items/{id}", "/items/..", vars{one("id", "..")}},
		{"{a}/{b}", "1/2", vars{one("a", "1"), one("b", "2")}},
		{"{a}.{b}", "1.2.3", vars{one("a", "1"), one("b", "2.3")}},
		{"{a}--{b}-{c}", "---1-2", vars{one("a", "-"), one("b", "1"), one("c", "2")}},
		{"{a}-{b}x", "1-2-3x", vars{one("a", "1"), one("b", "2-3")}},
		{"{a}-{b}x", "1-x", nil},
		{"{a}2{b}", "%2F2x", vars{one("a", "/"), one("b", "x")}},
		{"{a}{.b}", "readme.md", vars{one("a", "readme"), one("b", "md")}},
		{"/v{.a,b}", "/v.1.2.3", vars{one("a", "1"), one("b", "2.3")}},
		{"{a,b}/{c}", "1,2/3", vars{one("a", "1"), one("b", "2"), one("c", "3")}},
		{"/u{/a,b}/end", "/u/1/2/end", vars{one("a", "1"), one("b", "2")}},
		{"/u{/a,b}/end", "/u/1/end", nil},

		// Across segments.
		{"/f/{+p}", "/f/a/b//c", vars{one("p", "a/b//c")}},
		{"/f/{+p}", "/f/", nil},
		{"/f/{+p}/raw", "/f/raw/raw", vars{one("p", "raw")}},
		{"/f/{+p}/raw", "/f/raw", nil},
		{"{+p}.{ext}", "a/b.tar.gz", vars{one("p", "a/b.tar"), one("ext", "gz")}},
		{"{+p}{/name}", "a/b/c", vars{one("p", "a/b"), one("name", "c")}},
		{"/{r}/{+p}/{x}-{y}", "/1/2/3/4--5", vars{one("r", "1"), one("p", "2/3"), one("x", "4-"), one("y", "5")}},
		{"{a}-{+p}-{b}", "1-2-3-4", vars{one("a", "1"), one("p", "2-3"), one("b", "4")}},
		{"/f/{p*}", "/f/a/b,c", vars{one("p", "a/b,c")}},
		{"/f{/p*}", "/f/a/b%2Fc", vars{many("p", "a/b/c", "a", "b/c")}},
		{"/f{/p*}", "/f", nil},
		{"/f{/p*}{?q}", "/f/a?q=b", vars{many("p", "a", "a"), one("q", "b")}},
		{"/f{/a,p*}", "/f/1/2/3", vars{one("a", "1"), many("p", "2/3", "2", "3")}},

		// The query.
		{"/s{?a,b}", "/s", vars{}},
		{"/s{?a,b}", "/s?", vars{}},
		{"/s{?a,b}", "/s?b=2&a=1", vars{one("a", "1"), one("b", "2")}},
		{"/s{?a,b}", "/s?c=3&b=", vars{one("b", "")}},
		{"/s{?a,b}", "/s?a&A=2", vars{one("a", "")}},
		{"/s{?a}", "/s?a=1&a=2", vars{one("a", "1")}},
		{"/s{?a*}", "/s?a=1&b=x&a=2%262", vars{many("a", "1", "1", "2&2")}},
		{"/s{?a}", "/s?a=b=c/d?e+f%20g", vars{one("a", "b=c/d?e+f g")}},
		{"/s{?a}", "/s?%61=1", vars{one("a", "1")}},
		{"/s{?stra%C3%9Fe}", "/s?straße=1", vars{one("stra%C3%9Fe", "1")}},
		{"/s{?a}{&b}", "/s?b=2", vars{one("b", "2")}},
		{"/s?k=v&x={a}&flag{&b}", "/s?b=2&flag&x=1&k=v", vars{one("a", "1"), one("b", "2")}},
		{"/s?k=v&x={a}", "/s?x=1", nil},
		{"/s?k=v", "/s?k=w", nil},
		{"/s?k=v&k=v", "/s?k=v", vars{}},
		{"/s?k=v&k=w", "/s?k=v&k=v", nil},
		{"/s?ref={+a}", "/s?ref=/x/y", vars{one("a", "/x/y")}},
		{"/s{?a}&k=v", "/s?k=v&a=1", vars{one("a", "1")}},

		// The fragment.
		{"/p{#x}", "/p", vars{}},
		{"/p{#x}", "/p#", vars{one("x", "")}},
		{"/p{#x}", "/p#a/b?c#d%20e", vars{one("x", "a/b?c#d e")}},
		{"/p{?a}{#x}", "/p?a=1#2", vars{one("a", "1"), one("x", "2")}},

		// What is not text.
		{"/{x}", "/%", nil},
		{"/{x}", "/%4", nil},
		{"/{x}", "/%zz", nil},
		{"/{x}", "/\xff", nil},
		{"/{x}", "/%FF", nil},
		{"/{x}", "/%C3", nil},
		{"/{x}", "/%C0%AF", nil},
		{"/{x}", "/%C1%81", nil},
		{"/{x}", "/%ED%A0%80", nil},
		{"/{x}", "/a?b=%FF", nil},
	} {
		got, ok := matcher(t, test.text).Match(test.uri)
		if ok != (test.want != nil) {
			t.Errorf("%s on %q: match %v, %v", test.text, test.uri, ok, got)
		} else if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s on %q (-want +got):\n%s", test.text, test.uri, diff)
		}
	}
}

func TestUnmatchable(t *testing.T) {
	for _, test := range []struct{ text, fault, reason string }{
		{"/{a}{b}", "{b}", "text between"},
		{"/{a}{+b}", "{+b}", "text between"},
		{"/{+a}/{+b}", "{+b}", "both cross"},
		{"/{+a}/{b*}", "{b*}", "both cross"},
		{"/{+a,b}", "{+a,b}", "both cross"},
		{"/{a*}/{b}", "/", "last thing in a path"},
		{"/{a*}{/b}", "{/b}", "last thing in a path"},
		{"/{a*,b}", "{a*,b}", "last thing in a path"},
		{"{/a*}/x?y", "/x?y", "last thing in a path"},
		{"/x{.a*}", "{.a*}", "labels"},
		{"/{a:3}", "{a:3}", "prefix"},
		{"/{a}/{a}", "{a}", "twice"},
		{"/{a,a}", "{a,a}", "twice"},
		{"/x{;a}", "{;a}", "path"},
		{"/x{&a}", "{&a}", "begins it"},
		{"/x?k=v{?a}", "{?a}", "continues it"},
		{"/x?{a}", "{a}", "name={x}"},
		{"/x?=k={a}", "{a}", "name={x}"},
		{"/x?k={a}{b}", "{b}", "name={x}"},
		{"/x?k={a,b}", "{a,b}", "name={x}"},
		{"/x?k={a*}", "{a*}", "name={x}"},
		{"/x?k={.a}", "{.a}", "name={x}"},
		{"/x?k={/a}", "{/a}", "name={x}"},
		{"/x?k={a}b", "b", "whole value"},
		{"/x{?a}b", "b", "whole value"},
		{"/x?b={a}{&b}", "{&b}", "twice"},
		{"/x{?%FF}", "{?%FF}", "UTF-8"},
		{"/x%FF", "/x%FF", "UTF-8"},
		{"/x#top", "/x#top", "fragment"},
		{"/x{#a,b}", "{#a,b}", "whole fragment"},
		{"/x{#a*}", "{#a*}", "whole fragment"},
		{"/x{#a}/y", "/y", "after a fragment"},
		{"/x{#a}{?b}", "{?b}", "after a fragment"},
	} {
		_, err := parse(t, test.text).Matcher()
		var unmatchable *uritemplate.UnmatchableError
		if !errors.As(err, &unmatchable) || unmatchable.Text != test.fault || !strings.Contains(unmatchable.Reason, test.reason) {
			t.Errorf("%s: %v, want an UnmatchableError about %q with %q", test.text, err, test.fault, test.reason)
		}
	}
}

func TestLookup(t *testing.T) {
	found, ok := matcher(t, "/{a}{?b,c}").Match("/1?c=3")
	if !ok {
		t.Fatal("no match")
	}
	if v, ok := found.Lookup("c"); !ok || v.Value != "3" {
		t.Errorf("c = %v, %v", v, ok)
	}
	if v, ok := found.Lookup("b"); ok {
		t.Errorf("b = %v, want none", v)
	}
}

func TestMatchContained(t *testing.T) {
	for _, test := range []struct {
		template, uri string
		matches       bool
	}{
		{"file:///a/{name}", "file:///a/b", true},
		{"file:///a/{name}", "file:///a/b..c", true},
		{"file:///a/{name}", "file:///a/..%2F..%2Fetc%2Fpasswd", false},
		{"file:///a/{name}", "file:///a/%2E%2E%2Fetc", false},
		{"file:///a/{name}", "file:///a/b%2Fc", false},
		{"file:///a/{name}", "file:///a/b%5Cc", false},
		{"file:///a/{name}", "file:///a/..", false},
		{"file:///a/{name}", "file:///a/%2e%2E", false},
		{"file:///a/{name}", "file:///a/.", false},
		{"file:///a/{name}", "file:///a/x%00", false},
		{"file:///a/{name}.txt", "file:///a/...txt", false},
		{"file:///{+path}", "file:///a/b", true},
		{"file:///{+path}", "file:////a", true},
		{"file:///{+path}", "file:///a/../b", false},
		{"file:///{+path}", "file:///a%2F..%2Fb", false},
		{"file:///{+path}", "file:///a%5C..%5Cb", false},
		{"file:///{+path}", "file:///./a", false},
		{"file:///{+path}", "file:///a%00b", false},
		{"file://{/a,b*}", "file:///x/y/z", true},
		{"file://{/a,b*}", "file:///x/y/..", false},
		{"file://{/a,b*}", "file:///x/y%2Fz", false},
		{"file:///{x*}", "file:///a/..", false},
		{"app:/{x}{?q,l*}{#f}", "app:/a?q=../b%2Fc&l=..&l=/#../d", true},
	} {
		if _, ok := matcher(t, test.template).MatchContained(test.uri); ok != test.matches {
			t.Errorf("%s matches %s: %t", test.template, test.uri, ok)
		}
	}
}

func TestMatchLimit(t *testing.T) {
	m := matcher(t, "{+a}")
	if _, ok := m.Match(strings.Repeat("a", uritemplate.MaxURI)); !ok {
		t.Error("the longest URI does not match")
	}
	if _, ok := m.Match(strings.Repeat("a", uritemplate.MaxURI+1)); ok {
		t.Error("a longer URI matches")
	}
}

var matchBudgets = []struct {
	name, text, uri string
	allocs          float64
}{
	{"no match", "file:///logs/{day}", "file:///data/2026", 0},
	{"segment", "file:///logs/{day}", "file:///logs/2026-07-28", 1},
	{"path and query", "/repos/{owner}/{repo}/{+path}{?ref,line}", "/repos/dovetail/go/a/b/c.go?line=7&ref=main", 1},
	{"encoded", "/notes/{title}", "/notes/caf%C3%A9%20menu", 4},
}

func TestMatchAllocations(t *testing.T) {
	for _, b := range matchBudgets {
		m := matcher(t, b.text)
		if got := testing.AllocsPerRun(100, func() { m.Match(b.uri) }); got > b.allocs {
			t.Errorf("%s: %v allocations, budget %v", b.name, got, b.allocs)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, bb := range matchBudgets {
		m := matcher(b, bb.text)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Match(bb.uri)
			}
		})
	}
}

func BenchmarkMatchHard(b *testing.B) {
	for _, h := range hardMatches {
		m, uri := matcher(b, h.template()), h.uri(uritemplate.MaxURI)
		b.Run(h.name, func(b *testing.B) {
			b.SetBytes(int64(len(uri)))
			b.ReportAllocs()
			for b.Loop() {
				m.Match(uri)
			}
		})
	}
}
