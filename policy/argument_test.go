package policy

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func TestArgument(t *testing.T) {
	const truths = "-?+" // no, unknown, yes
	for predicate, values := range map[string]map[string]string{
		`"present":true`:                              {`{"x":null}`: "+", `{}`: "-", `{"x":1,"X":1}`: "?"},
		`"present":false`:                             {`{"x":null}`: "-", `{}`: "+", ``: "+"},
		`"equals":"a\"b"`:                             {`{"x":"a\u0022b"}`: "+", `{"x":"a"}`: "-", `{"x":1}`: "?", `{}`: "-"},
		`"equals":1e2`:                                {`{"x":100}`: "+", `{"x":100.0}`: "+", `{"x":"100"}`: "?", `{"x":1e999999999999999999999}`: "?"},
		`"equals":true`:                               {`{"x":true}`: "+", `{"x":false}`: "-", `{"x":null}`: "?"},
		`"equals":null`:                               {`{"x":null}`: "+", `{}`: "-"},
		`"glob":["/tmp/*","b"]`:                       {`{"x":"/tmp/a/b"}`: "+", `{"x":"b"}`: "+", `{"x":"/etc"}`: "-", `{"x":["b"]}`: "?"},
		`"prefix":["/etc","~"]`:                       {`{"x":"/etc/passwd"}`: "+", `{"x":"~/x"}`: "+", `{"x":"/et"}`: "-", `{"x":{}}`: "?"},
		`"min":9007199254740993`:                      {`{"x":9007199254740993}`: "+", `{"x":9007199254740992}`: "-", `{"x":1e300}`: "+", `{"x":"9e99"}`: "?"},
		`"min":-1,"max":0.5`:                          {`{"x":0.5}`: "+", `{"x":-1}`: "+", `{"x":0.50000000000000000001}`: "-", `{"x":-1.1}`: "-", `{}`: "-"},
		`"prefix":["a"],"glob":["*b"],"present":true`: {`{"x":"ab"}`: "+", `{"x":"a"}`: "-", `{"x":"b"}`: "-"},
	} {
		p, err := Parse([]byte(`{"rules":[{"effect":"deny","arguments":[{"path":"/x",` + predicate + `}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		for arguments, want := range values {
			if got := c.rules[0].match.arguments[0].holds([]byte(arguments)); string(truths[got]) != want {
				t.Errorf("%s of %s is %c, want %s", predicate, arguments, truths[got], want)
			}
		}
	}
	long := `{"x":"` + strings.Repeat("a", maxText) + `"}`
	a, err := compileArgument("a", &Argument{Path: "/x", Glob: []string{"b"}})
	if err != nil || a.holds([]byte(long)) != unknown {
		t.Errorf("a text of any length is compared with patterns: %v", err)
	}
}

func TestPointer(t *testing.T) {
	const text = `{"a":1,"b":{"c/d":[10,{"e~":"x"}]},"":{"":2},"n":null,"dup":{"x":1,"x":2},"case":{"Path":1,"path":2},"esc\u0061pe":3,"s":"{}"}`
	for path, want := range map[string]string{
		"": text, "/a": "1", "/b/c~1d/0": "10", "/b/c~1d/1/e~0": `"x"`, "//": "2", "/n": "null", "/escape": "3",
		"/z": "-", "/b/c~1d/2": "-", "/n/x": "-", "/a/x": "?", "/b/c~1d/x": "?", "/b/c~1d/00": "?", "/dup/x": "?", "/case/path": "?",
		"/case/PATH": "?", "/A": "?", "/s/x": "?", "/b/c~1d/-1": "?",
	} {
		tokens, err := jsonscan.ParsePointer(path)
		if err != nil {
			t.Fatal(err)
		}
		value, found := pointer(tokens).find([]byte(text))
		got := map[tristate]string{yes: string(value), no: "-", unknown: "?"}[found]
		if got != want {
			t.Errorf("%q leads to %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{"a", "/~", "/~2", "/a~"} {
		if _, err := jsonscan.ParsePointer(path); err == nil {
			t.Errorf("%q is a path", path)
		}
	}
	if _, found := (pointer{"a"}).find(nil); found != no {
		t.Error("there is something in no arguments")
	}
	if _, found := (pointer{"a"}).find([]byte(`{"a":1,`)); found != unknown {
		t.Error("something can be told about broken arguments")
	}
}

func FuzzPointer(f *testing.F) {
	f.Add("/a/0/b~1", `{"a":[{"b/":1}]}`)
	f.Add("//~0", `{"":{"~":null}}`)
	f.Fuzz(func(t *testing.T, path, text string) {
		p, err := jsonscan.ParsePointer(path)
		if err != nil {
			return
		}
		again := ""
		for _, token := range p {
			again += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		}
		if again != path {
			t.Errorf("%q was read as %q", path, again)
		}
		if value, found := pointer(p).find([]byte(text)); found == yes && !strings.Contains(text, string(value)) {
			t.Errorf("%q leads to %q in %q", path, value, text)
		}
	})
}

func FuzzNumber(f *testing.F) {
	for _, pair := range [][2]string{
		{"1", "1.0"}, {"9007199254740993", "9007199254740992"}, {"0.10", "1e-1"}, {"-0", "0"}, {"1e400", "1E+400"},
		{"-12.5", "-12.50001"}, {"0.001", "1e-3"}, {"100", "1e2"}, {"10.01", "1.001e1"}, {"99", "100"}, {"-1", "1"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, ok := rational(a)
		y, fine := rational(b)
		if !ok || !fine {
			return
		}
		m, ok := readNumber([]byte(a))
		n, fine := readNumber([]byte(b))
		if !ok || !fine {
			t.Fatalf("%q or %q is not read", a, b)
		}
		if got, want := m.compare(n), x.Cmp(y); got != want {
			t.Errorf("%s compared with %s is %d, want %d", a, b, got, want)
		}
	})
}

func rational(text string) (*big.Rat, bool) {
	var n json.Number
	if len(text) > 40 || json.Unmarshal([]byte(text), &n) != nil || string(n) != text || text[0] == '"' {
		return nil, false
	}
	m, ok := readNumber([]byte(text))
	if !ok || m.magnitude > 1000 || m.magnitude < -1000 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// TestNumberBeyondBounds checks that a number that is too large is not read as another number.
func TestNumberBeyondBounds(t *testing.T) {
	for text, want := range map[string]bool{
		"1e99999999999999999": true, "1e100000000000000000": false, "1e-100000000000000000": false,
		"0e100000000000000000": true, "1e000000000000000000000000001": true,
	} {
		if _, ok := readNumber([]byte(text)); ok != want {
			t.Errorf("%s is read: %t, want %t", text, ok, want)
		}
	}
}

// Text that is escaped in the JSON of a call is the same for every condition as text that is not.
func TestEscapedArguments(t *testing.T) {
	for predicate, values := range map[string]map[string]tristate{
		`"equals":"/etc"`:     {`{"x":"\/etc"}`: yes, `{"x":"\u002fetc"}`: yes, `{"x":"\u002ftmp"}`: no},
		`"prefix":["/etc"]`:   {`{"x":"\/etc/passwd"}`: yes, `{"x":"\u002fetc\u002fpasswd"}`: yes, `{"x":"\u002ftmp"}`: no},
		`"glob":["/etc/*"]`:   {`{"x":"\/etc\/passwd"}`: yes, `{"x":"/\u0065tc/passwd"}`: yes, `{"x":"\u002ftmp/x"}`: no},
		`"glob":["/tmp/*\n"]`: {`{"x":"/tmp/a\n"}`: yes, `{"x":"/tmp/a\\n"}`: no},
	} {
		p, err := Parse([]byte(`{"rules":[{"effect":"deny","arguments":[{"path":"/x",` + predicate + `}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		for arguments, want := range values {
			if got := c.rules[0].match.arguments[0].holds([]byte(arguments)); got != want {
				t.Errorf("%s of %s: got %v, want %v", predicate, arguments, got, want)
			}
		}
	}
}
