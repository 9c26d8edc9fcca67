package frontmatter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/frontmatter"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestJSON(t *testing.T) {
	for yaml, want := range map[string]string{
		"name: a\ndescription: b":                                        `{"name":"a","description":"b"}`,
		"d: >\n  two\n  lines\nl: |\n  as\n  is\n":                       `{"d":"two lines\n","l":"as\nis\n"}`,
		"q: \"1\"\ns: 'true'\nt: !!str 5":                                `{"q":"1","s":"true","t":"5"}`,
		"i: 1\nn: -2\nf: 1.10\ne: 1e3\nh: 0x1F\no: 0o17\nz: 012":         `{"i":1,"n":-2,"f":1.10,"e":1e3,"h":31,"o":15,"z":12}`,
		"p: +3\nd: .5\nx: 1.\nbig: 123456789012345678901234567890":       `{"p":3,"d":0.5,"x":1,"big":123456789012345678901234567890}`,
		"a: yes\nb: on\nc: 2024-01-02\nd: 1_000\ne: 12:30\nf: 0b1\ng: .": `{"a":"yes","b":"on","c":"2024-01-02","d":"1_000","e":"12:30","f":"0b1","g":"."}`,
		"a: true\nb: FALSE\nc: null\nd: ~\ne:":                           `{"a":true,"b":false,"c":null,"d":null,"e":null}`,
		"m: {a: [1, {b: c}]}\nl:\n- x\n- y":                              `{"m":{"a":[1,{"b":"c"}]},"l":["x","y"]}`,
		"1: one\ntrue: two\n<<: three":                                   `{"1":"one","true":"two","<<":"three"}`,
		"a: &x [1]\nb: *x":                                               `{"a":[1],"b":[1]}`,
		"u: \"\\u00e4 \\\"\"\n# a comment\nv: ä":                         `{"u":"ä \"","v":"ä"}`,
	} {
		for _, file := range []string{"---\n" + yaml + "\n---\nbody", "\ufeff---\r\n" + strings.ReplaceAll(yaml, "\n", "\r\n") + "\r\n--- \t\r\n", "---\n" + yaml + "\n---"} {
			got, err := frontmatter.JSON([]byte(file))
			if err != nil || string(got) != want {
				t.Errorf("%q:\n%s, %v\nwant\n%s", file, got, err, want)
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]"
	for file, want := range map[string]string{
		"":                            "does not begin with",
		"name: a":                     "does not begin with",
		" ---\na: b\n---\n":           "does not begin with",
		"---\na: b\n":                 "does not begin with",
		"---\n---\n":                  "not a mapping",
		"---\n- a\n---\n":             "not a mapping",
		"---\na: b\n...\nc: d\n---\n": "more than one YAML document",
		"---\na: b\na: c\n---\n":      `"a" is duplicated`,
		"---\n? [a]\n: b\n---\n":      "a key is not a scalar",
		"---\na: !!int 3\n---\n":      "tag",
		"---\na: !x 3\n---\n":         "tag",
		"---\na: .inf\n---\n":         "JSON has no number",
		"---\na: .NaN\n---\n":         "JSON has no number",
		"---\na: .5e999\n---\n":       "too large",
		"---\na: [\n---\n":            "front matter",
		"---\na: *" + strings.Repeat("x", 60_000) + "\n---\n":                      "unknown anchor",
		"---\na: !" + strings.Repeat("x", 60_000) + " b\n---\n":                    "tag",
		"---\n" + strings.Repeat(strings.Repeat("k", 900)+": v\n", 2) + "---\n":    "is duplicated",
		"---\na: " + strings.Repeat("{", 60_000) + "\n---\n":                       "exceeded max depth",
		"---\na: \"" + strings.Repeat("x", 60_000) + "\n---\n":                     "unexpected end",
		"---\n? a\n: &a\n  ? *a\n  : b\n---\n":                                     "a key is not a scalar",
		"---\n\xff\xfea\x00\n---\n":                                                "not UTF-8",
		"---\na: " + deep + "\n---\n":                                              "nests more than",
		"---\n" + bomb + "\n---\n":                                                 "more than 10000 values",
		"---\na: &x [*x]\n---\n":                                                   "nests more than",
		"---\na: " + strings.Repeat("9", 401) + "\n---\n":                          "more than 400 characters",
		"---\n" + strings.Repeat("# "+strings.Repeat("x", 98)+"\n", 700) + "---\n": "more than 65536 bytes",
	} {
		if got, err := frontmatter.JSON([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %.60s, %.600v, want an error with %q", file, got, err, want)
		} else if len(err.Error()) > 600 {
			t.Errorf("%.60q: the error has %d bytes", file, len(err.Error()))
		}
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct{ a, b, field string }{
		{`{"name":"a","n":1}`, `{"n":1.0,"name":"\u0061"}`, ""},
		{`{"m":{"x":[1,null]}}`, `{"m":{"x":[1e0,null]}}`, ""},
		{`{"a":1,"b":2}`, `{"a":1,"b":3}`, "b"},
		{`{"a":1}`, `{}`, "a"}, {`{}`, `{"a":null}`, "a"}, {`{"a":null}`, `{}`, "a"},
		{`{"a":"1"}`, `{"a":1}`, "a"}, {`{"a":true}`, `{"a":"true"}`, "a"}, {`{"a":[1,2]}`, `{"a":[2,1]}`, "a"}, {`{"a":{"b":1}}`, `{"a":{"b":1,"c":1}}`, "a"},
		{`{"z":1,"a":1}`, `{"z":2,"a":2}`, "a"}, {`{"a":1e999}`, `{"a":2e999}`, "a"},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			got, err := frontmatter.Compare(json.RawMessage(pair[0]), json.RawMessage(pair[1]))
			if err != nil || (got == nil) != (c.field == "") || got != nil && got.Field != c.field {
				t.Errorf("%s and %s: %+v, %v, want %q", pair[0], pair[1], got, err, c.field)
			}
		}
	}
	if _, err := frontmatter.Compare(json.RawMessage(`[]`), json.RawMessage(`{}`)); err == nil {
		t.Error("an array is no front matter")
	}
}

func TestCanonical(t *testing.T) {
	got, err := frontmatter.Canonical([]byte(`{"b": {"d":1.10, "c":[2,1]}, "a":"\u0062"}`))
	if want := `{"a":"b","b":{"c":[2,1],"d":1.10}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := frontmatter.Canonical([]byte(`[]`)); err == nil {
		t.Error("an array is a front matter")
	}
}

// The result is valid JSON within the limits, and equal to itself.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"---\nname: a\ndescription: b\n---\n", "---\na: &x [1, 0x1F, .5, 2024-01-02]\nb: *x\n---", "\ufeff---\r\na: >\r\n  b\r\n---\r\n", "---\na: !!str {b: c}\n...\n---\n",
		"---\n? a\n: b\n---\n", "---\n\"\\ud800\": 'x'\n---\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := frontmatter.JSON(file)
		if err != nil {
			return
		}
		if jsonscan.KindOf(got) != jsonscan.Object || jsonscan.Valid(got) != nil {
			t.Fatalf("%q: %s", file, got)
		}
		if difference, err := frontmatter.Compare(got, got); err != nil || difference != nil {
			t.Fatalf("%q: %s: %+v, %v", file, got, difference, err)
		}
	})
}
