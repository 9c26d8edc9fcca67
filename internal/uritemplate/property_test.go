package uritemplate_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	rfc6570 "github.com/yosida95/uritemplate/v3"

	"github.com/dovetail-go/dovetail/internal/test/cputest"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

// A match of an expansion returns the values that were expanded. yosida95/uritemplate expands the template. It encodes
// only ASCII text correctly.
func TestMatchReversesExpansion(t *testing.T) {
	const anything = "aZ09-._~ %/?#&=+,;:@'\"\\{}\x7f"
	// Reserved expansion does not encode delimiters, so a match finds them as delimiters.
	const reserved = "aZ09-._~ /&=+,;:@'\"\\{}\x7f"
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
		{"/x{/l*}", anything},
		{"/x{?l*}", anything},
		{"/x?k=v{&l*}", anything},
	} {
		template, m := parse(t, test.text), matcher(t, test.text)
		for range 500 {
			values, want := rfc6570.Values{}, uritemplate.Variables{}
			for _, name := range template.Names() {
				v := uritemplate.Variable{Name: name, Value: randomText(random, test.alphabet)}
				values[name] = rfc6570.String(v.Value)
				if name == "l" {
					for range 1 + random.IntN(5) {
						v.List = append(v.List, randomText(random, test.alphabet))
					}
					v.Value, values[name] = v.List[0], rfc6570.List(v.List...)
				}
				want = append(want, v)
			}
			uri, err := rfc6570.MustNew(test.text).Expand(values)
			if err != nil {
				t.Fatalf("%s with %q: %v", test.text, want, err)
			}
			found, ok := m.Match(uri)
			if strings.Contains(test.text, "{/l*}") && ok {
				found[0].Value = found[0].List[0] // of a path it is the whole text
			}
			if diff := cmp.Diff(want, found); !ok || diff != "" {
				t.Fatalf("%s on %q: %v (-want +got):\n%s", test.text, uri, ok, diff)
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

// The time of a match is linear in the length of the URI. Going back over it would take quadratic
// time or more.
func TestMatchDoesNotGoBack(t *testing.T) {
	for _, h := range hardMatches {
		m := matcher(t, h.template())
		uris := map[int]string{}
		for _, size := range []int{uritemplate.MaxURI / 4, uritemplate.MaxURI} {
			uris[size] = h.uri(size)
		}
		cputest.WantLinear(t, h.name, uritemplate.MaxURI/4, func(size int) {
			for range 20 {
				m.Match(uris[size])
			}
		})
	}
}

// A match consists of variables of the template, in its order, with values that are valid UTF-8.
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
