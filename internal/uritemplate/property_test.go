package uritemplate_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

// TestMatchReversesExpand expands templates with random values and wants them back.
func TestMatchReversesExpand(t *testing.T) {
	const anything = "aZ09-._~ %/?#&=+,;:@'\"\\{}\x00\x7fé€𝄞\u0301"
	// Reserved expansion leaves these as they are, so they come back as delimiters.
	const reserved = "aZ09-._~ /&=+,;:@'\"\\{}\x00\x7fé€𝄞\u0301"
	random := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct{ text, alphabet string }{
		{"{a}", anything},
		{"x://h/{a}/{b}:{c}", anything},
		{"/{a,b,c}{/d}/end", anything},
		{"/x{/a,b}{?c,d}{#e}", reserved},
		{"/x?k=v&a={a}&b={b}{&c,d}", anything},
		{"/{a}{?b}{&c}", anything},
		{"/{+a}", reserved},
		{"/é%20/{a}/{+b}{?c}", reserved},
		{"/x{#a}", reserved},
	} {
		template, m := parse(t, test.text), matcher(t, test.text)
		for range 500 {
			values := make(map[string]uritemplate.Value)
			want := make(map[string]string)
			for _, name := range template.Names() {
				want[name] = randomText(random, test.alphabet)
				values[name] = uritemplate.String(want[name])
			}
			uri, err := template.Expand(values)
			if err != nil {
				t.Fatalf("%s with %q: %v", test.text, want, err)
			}
			found, ok := m.Match(uri)
			if !ok || len(found) != len(want) {
				t.Fatalf("%s on %q: %v, %q, want %q", test.text, uri, ok, found, want)
			}
			for _, v := range found {
				if v.Value != want[v.Name] {
					t.Fatalf("%s on %q: %s = %q, want %q", test.text, uri, v.Name, v.Value, want[v.Name])
				}
			}
		}
	}
}

func TestMatchReversesExpandOfLists(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, text := range []string{"/x{/a*}", "/x{?a*}", "/x?k=v{&a*}"} {
		template, m := parse(t, text), matcher(t, text)
		for range 500 {
			want := make([]string, 1+random.IntN(5))
			for i := range want {
				want[i] = randomText(random, "ab/%,&= é€")
			}
			uri, err := template.Expand(map[string]uritemplate.Value{"a": uritemplate.List(want...)})
			if err != nil {
				t.Fatal(err)
			}
			found, ok := m.Match(uri)
			if !ok || len(found) != 1 || strings.Join(found[0].List, "|") != strings.Join(want, "|") {
				t.Fatalf("%s on %q: %v, %q, want %q", text, uri, ok, found, want)
			}
		}
	}
}

func randomText(random *rand.Rand, alphabet string) string {
	runes := []rune(alphabet)
	text := make([]rune, 1+random.IntN(6))
	for i := range text {
		text[i] = runes[random.IntN(len(runes))]
	}
	return string(text)
}

// TestMatchMissesNothing compares the single pass with a regular expression that tries
// every split, on all short URIs.
func TestMatchMissesNothing(t *testing.T) {
	const segment, any = "([^/]+)", "(.+)"
	var uris []string
	eachText("a-/", 7, func(uri string) { uris = append(uris, uri) })
	for text, expression := range map[string]string{
		"{a}":                   segment,
		"a{a}":                  "a" + segment,
		"{a}-":                  segment + "-",
		"{a}-{b}":               segment + "-" + segment,
		"{a}a-{b}-a":            segment + "a-" + segment + "-a",
		"{a}-{b}/{c}":           segment + "-" + segment + "/" + segment,
		"{a}-/-{b}":             segment + "-/-" + segment,
		"{a}--{b}-{c}":          segment + "--" + segment + "-" + segment,
		"{+a}":                  any,
		"{+a}-{b}":              any + "-" + segment,
		"{a}-{+b}":              segment + "-" + any,
		"{a}-{b}/{+c}":          segment + "-" + segment + "/" + any,
		"{+a}-a{b}-{c}":         any + "-a" + segment + "-" + segment,
		"{a}-{+b}-{c}":          segment + "-" + any + "-" + segment,
		"{a}-a-{+b}-a-{c}":      segment + "-a-" + any + "-a-" + segment,
		"a{a}/{+b}/{c}a":        "a" + segment + "/" + any + "/" + segment + "a",
		"{a}-{b}{/c*}":          segment + "-" + segment + "/" + any,
		"{a}/-/{b}-{+c}/-{d}/a": segment + "/-/" + segment + "-" + any + "/-" + segment + "/a",
	} {
		m, oracle := matcher(t, text), regexp.MustCompile("^(?:"+expression+")$")
		for _, uri := range uris {
			_, got := m.Match(uri)
			if want := oracle.MatchString(uri); got != want {
				t.Fatalf("%s on %q: match %v, want %v", text, uri, got, want)
			}
		}
	}
}

// eachText calls yield with every text of up to n characters.
func eachText(alphabet string, n int, yield func(string)) {
	level := []string{""}
	for range n + 1 {
		var next []string
		for _, text := range level {
			yield(text)
			for _, c := range alphabet {
				next = append(next, text+string(c))
			}
		}
		level = next
	}
}

// hardMatches are templates and URIs on which a matcher that goes back would
// take quadratic time or worse.
var hardMatches = []hardMatch{
	{"many variables", strings.Repeat("{@}a", 60) + "b", "", "a"},
	{"late failure", "{@}aaab{@}aaac{+@}aaad{@}", "", "a"},
	{"from the right", "{+@}baaa{@}caaa{@}", "", "a"},
	{"near triplets", "{+@}20%20%20%20%20{@}%2020{@}", "", "%20"},
	{"long literal", "{@}" + strings.Repeat("a", 4000) + "b{@}", "", "a"},
	{"segments", "{+@}/a/{@}/b{/@}", "", "/a"},
	{"list", "/x{/@*}", "/x", "/%41"},
	{"parameters", "/x?k=v&a={@}{&b*}", "/x?", "&b=1"},
	{"constants", "/x?" + strings.Repeat("&k=v&l=w&m", 100), "/x?", "&k=v"},
}

type hardMatch struct {
	name  string
	text  string // of the template; "@" stands for a new name
	start string // of the URI,
	unit  string // and what it repeats
}

func (h hardMatch) template() string {
	var text strings.Builder
	for i, piece := range strings.Split(h.text, "@") {
		if i > 0 {
			text.WriteString("v" + strconv.Itoa(i))
		}
		text.WriteString(piece)
	}
	return text.String()
}

func (h hardMatch) uri(size int) string {
	return h.start + strings.Repeat(h.unit, (size-len(h.start))/len(h.unit))
}

// The longest URI takes a millisecond or a few. Going back over it would take a second or more:
// what lies between is so wide that a busy machine does not decide.
func TestMatchDoesNotGoBack(t *testing.T) {
	for _, h := range hardMatches {
		m, uri := matcher(t, h.template()), h.uri(uritemplate.MaxURI)
		fastest := time.Hour
		for range 10 {
			start := time.Now()
			m.Match(uri)
			fastest = min(fastest, time.Since(start))
		}
		if fastest > 100*time.Millisecond {
			t.Errorf("%s: it takes %v", h.name, fastest)
		}
	}
}
