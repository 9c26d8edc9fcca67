package oauth_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

func TestParseChallenges(t *testing.T) {
	type params = map[string]string
	for text, want := range map[string][]oauth.Challenge{
		"":       nil,
		" ,, ":   nil,
		"Bearer": {{Scheme: "Bearer"}},
		`Bearer realm="x", error="invalid_token"`:                          {{Scheme: "Bearer", Params: params{"realm": "x", "error": "invalid_token"}}},
		`bearer Scope = "a b" ,ERROR=x`:                                    {{Scheme: "bearer", Params: params{"scope": "a b", "error": "x"}}},
		`Basic realm="a, Bearer x=\"y\"", Bearer scope="z"`:                {{Scheme: "Basic", Params: params{"realm": `a, Bearer x="y"`}}, {Scheme: "Bearer", Params: params{"scope": "z"}}},
		"Basic, Bearer x=y, DPoP":                                          {{Scheme: "Basic"}, {Scheme: "Bearer", Params: params{"x": "y"}}, {Scheme: "DPoP"}},
		"Negotiate a87421000492aa874209af8bc028==, Bearer x=y":             {{Scheme: "Negotiate", Token: "a87421000492aa874209af8bc028=="}, {Scheme: "Bearer", Params: params{"x": "y"}}},
		"Negotiate abc=, Bearer":                                           {{Scheme: "Negotiate", Token: "abc="}, {Scheme: "Bearer"}},
		`Bearer error="a\b\\c"`:                                            {{Scheme: "Bearer", Params: params{"error": `ab\c`}}},
		`Bearer resource_metadata="https://x.example/.well-known/x?a=b&c"`: {{Scheme: "Bearer", Params: params{"resource_metadata": "https://x.example/.well-known/x?a=b&c"}}},
		`Bearer x="",`: {{Scheme: "Bearer", Params: params{"x": ""}}},
	} {
		got, err := oauth.ParseChallenges([]string{text})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	got, err := oauth.ParseChallenges([]string{"Basic", "", "Bearer x=y"})
	if err != nil || len(got) != 2 || !got[1].Is("bEARER") {
		t.Errorf("several lines: %v, %v", got, err)
	}
}

// What can be read of malformed challenges is kept.
func TestChallengesWithMistakes(t *testing.T) {
	type params = map[string]string
	for text, want := range map[string][]oauth.Challenge{
		`Bearer x=https://a.example/b?c=d&e, y=z`: {{Scheme: "Bearer", Params: params{"x": "https://a.example/b?c=d&e", "y": "z"}}},
		`Bearer x="a" y="b" z=c`:                  {{Scheme: "Bearer", Params: params{"x": "a", "y": "b", "z": "c"}}},
		`Bearer x="a"; y=b; z="c"`:                {{Scheme: "Bearer", Params: params{"x": "a", "y": "b", "z": "c"}}},
		`Bearer x="a", x="b", X="c", y="d"`:       {{Scheme: "Bearer", Params: params{"x": "a", "y": "d"}}},
		`Bearer scope=a b c, x=y`:                 {{Scheme: "Bearer", Params: params{"scope": "a b c", "x": "y"}}},
		`Bearer scope=a b x=y`:                    {{Scheme: "Bearer", Params: params{"scope": "a b", "x": "y"}}},
		`Bearer scope=a,b, x=y`:                   {{Scheme: "Bearer", Params: params{"scope": "a", "x": "y"}}, {Scheme: "b"}},
		`Bearer scope=, x=y`:                      {{Scheme: "Bearer", Params: params{"x": "y"}}},
		`Bearer, x=y`:                             {{Scheme: "Bearer", Params: params{"x": "y"}}},
		`Bearer: x=y`:                             {{Scheme: "Bearer", Params: params{"x": "y"}}},
		`Bearer x='a b', y='c'`:                   {{Scheme: "Bearer", Params: params{"x": "a b", "y": "c"}}},
		`Bearer x="a, y="b`:                       {{Scheme: "Bearer", Params: params{"x": "a, y="}}},
		`Bearer x="a", y="b, z`:                   {{Scheme: "Bearer", Params: params{"x": "a", "y": "b, z"}}},
		`Basic realm="x" Bearer y="z"`:            {{Scheme: "Basic", Params: params{"realm": "x"}}, {Scheme: "Bearer", Params: params{"y": "z"}}},
		`Bearer (a) {b}, x=y`:                     {{Scheme: "Bearer", Params: params{"x": "y"}}},
		`"x", Bearer y=z`:                         {{Scheme: "x"}, {Scheme: "Bearer", Params: params{"y": "z"}}},
		`x=y, Bearer y=z`:                         {{Scheme: "Bearer", Params: params{"y": "z"}}},
	} {
		got, err := oauth.ParseChallenges([]string{text})
		if diff := cmp.Diff(want, got); err == nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

func TestMalformedChallenges(t *testing.T) {
	for _, text := range []string{
		`"x"`, `=`, `Bearer x="y`, `Bearer x="y\`, `Bearer x=y z`, `Bearer x=y x=z`, `Bearer x=y, X=z`, `Bearer a b c`, `(x)`, "Bearer x=\x00", "Bearer \x00",
		"Bearer x=\"" + strings.Repeat("y", 20_000) + `"`, strings.Repeat("x,", 17), "Bearer " + manyParams(33),
	} {
		if got, err := oauth.ParseChallenges([]string{"Basic", text}); err == nil {
			t.Errorf("%.80q: got %v", text, got)
		} else if len(got) == 0 || got[0].Scheme != "Basic" {
			t.Errorf("%.80q: what came before is lost", text)
		}
	}
}

func manyParams(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("p%d=x", i)
	}
	return strings.Join(all, ",")
}

func FuzzParseChallenges(f *testing.F) {
	for _, seed := range []string{
		"Bearer", `Bearer realm="x", error="invalid_token", Basic`, "Negotiate abc==, Bearer x=y", `Bearer x="\"",,`, "a=b", `DPoP algs="ES256", error="use_dpop_nonce"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, _ := oauth.ParseChallenges([]string{text})
		var lines []string
		for i := range first {
			lines = append(lines, string(first[i].Append(nil)))
		}
		if strings.ContainsAny(strings.Join(lines, ""), "\r\n") {
			t.Fatalf("%q is written as %q", text, lines)
		}
		again, err := oauth.ParseChallenges(lines)
		if size := len(strings.Join(lines, "")); err != nil && size <= 16<<10 {
			t.Fatalf("%q is written as %q: %v", text, lines, err)
		} else if err != nil {
			return
		}
		for i := range first { // characters that a quoted string cannot hold become question marks
			if first[i].Scheme != again[i].Scheme || first[i].Token != again[i].Token || len(first[i].Params) != len(again[i].Params) {
				t.Fatalf("%q: %v becomes %v", text, first[i], again[i])
			}
		}
	})
}

func ExampleParseChallenges() {
	challenges, err := oauth.ParseChallenges([]string{`Basic realm="x", Bearer error="insufficient_scope", scope="files:read files:write"`})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, challenge := range challenges {
		fmt.Printf("%s %q\n", challenge.Scheme, challenge.Params["scope"])
	}
	// Output:
	// Basic ""
	// Bearer "files:read files:write"
}
