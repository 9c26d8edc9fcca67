package policy

import (
	"strings"
	"testing"
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
	long := `{"x":"` + strings.Repeat("a", MaxText) + `"}`
	a, err := compileArgument("a", &Argument{Path: "/x", Glob: []string{"b"}})
	if err != nil || a.holds([]byte(long)) != unknown {
		t.Errorf("a text of any length is compared with patterns: %v", err)
	}
}
