package policy_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/policy"
)

const everyMember = `{
	"allow": ["fs__*"], "deny": ["*delete*"], "strict": true,
	"role_overrides": {"bot": {"allow": ["fs__read*"], "deny": ["x"], "mode": "restrict"}, "owner": {"mode": "replace"}},
	"exempt": [{"server": "own", "tool": "help"}],
	"rules": [{
		"name": "writes", "effect": "ask", "reason": "A person decides.",
		"kinds": ["tool", "resource template"], "servers": ["fs"], "names": ["write_*"], "exposed": ["fs__*"],
		"tags": ["disk"], "roles": ["bot"], "principals": ["?*"],
		"annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true},
		"arguments": [{"path": "/path", "present": true, "equals": "x", "glob": ["/etc/*"], "prefix": ["/etc/"]}, {"path": "/n", "min": 9007199254740993, "max": 1e400}],
		"unless": [{"names": ["write_tmp"]}, {"arguments": [{"path": "/dry", "equals": true}]}]
	}]
}`

// TestParseReadsAll: every field can be set, and survives a round trip.
func TestParseReadsAll(t *testing.T) {
	p, err := policy.Parse([]byte(everyMember))
	if err != nil {
		t.Fatal(err)
	}
	compile(t, p)
	allSet(t, "policy", reflect.ValueOf(*p))
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := policy.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("it was written as %s: %s", text, diff)
	}
}

// allSet checks that every field is set; of a slice it checks the first element.
func allSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			if v.Field(i).IsZero() && name != "policy.Rules.Arguments.Min" && name != "policy.Rules.Match.Arguments.Min" && !strings.Contains(name, "Arguments.M") && !strings.Contains(name, "Unless.") {
				t.Errorf("%s is not set", name)
			}
			allSet(t, name, v.Field(i))
		}
	case reflect.Slice:
		if v.Len() > 0 && !strings.HasSuffix(path, "Unless") {
			allSet(t, path, v.Index(0))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "line 1, column 1: expected an object",
		"{\n \"alow\": []}":                `line 2, column 2: unknown member "alow": expected one of allow, deny, exempt, role_overrides, rules, strict`,
		"{\n\n\"Allow\": []}":              `line 3, column 1: unknown member "Allow"`,
		`{"allow":[],"allow":[]}`:          `line 1, column 13: duplicate member "allow"`,
		"{\"allow\":[\"a\",\n1]}":          "line 2, column 1: expected a string",
		`{"allow":null}`:                   "line 1, column 10: expected an array",
		`{"strict":1}`:                     "line 1, column 11: expected true or false",
		`{"strict":true} x`:                "line 1, column 17: expected the end of the text",
		`{"role_overrides":{"a":{"x":1}}}`: `line 1, column 25: unknown member "x": expected one of allow, deny, mode`,
		`{"role_overrides":{"a":{},"\u0061":{}}}`:                           `line 1, column 27: duplicate member "a"`,
		`{"rules":[{"names":["a"]}]}`:                                       "line 1, column 11: expected an effect: allow, deny or ask",
		`{"rules":[{"effect":"deny","kinds":["tools"]}]}`:                   `line 1, column 37: expected tool, prompt, resource, resource template or skill, found "tools"`,
		`{"rules":[{"effect":"Allow"}]}`:                                    `line 1, column 21: expected allow, deny or ask, found "Allow"`,
		`{"rules":[{"effect":"deny","annotations":{"readonly":true}}]}`:     `unknown member "readonly"`,
		`{"rules":[{"effect":"deny","arguments":[{"min":1}]}]}`:             "line 1, column 41: expected a path",
		`{"rules":[{"effect":"deny","arguments":[{"path":"","min":"1"}]}]}`: "expected a number",
		strings.Repeat(" ", 1<<20+1):                                        "expected at most 1048576 bytes, found 1048577",
	} {
		_, err := policy.Parse([]byte(text))
		if _, ok := errors.AsType[*policy.ParseError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: the error is %v, want %s", text, err, want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"role_overrides":{"a":{"mode":"Replace"}}}`:                                                                                      `role_overrides["a"].mode: expected restrict or replace, found "Replace"`,
		`{"role_overrides":{"":{}}}`:                                                                                                       `role_overrides[""]: expected the name of a role`,
		`{"exempt":[{"server":"a"}]}`:                                                                                                      "exempt[0].tool: expected the name of a tool",
		`{"rules":[{"effect":"deny","names":[]}]}`:                                                                                         "rules[0].names: an empty list matches nothing",
		`{"rules":[{"effect":"deny","kinds":[]}]}`:                                                                                         "rules[0].kinds: an empty list",
		`{"rules":[{"effect":"deny","unless":[{"names":[]}]}]}`:                                                                            "rules[0].unless[0].names: an empty list",
		`{"rules":[{"effect":"deny","arguments":[{"path":"a","present":true}]}]}`:                                                          `rules[0].arguments[0].path: a JSON Pointer begins with "/"`,
		`{"rules":[{"effect":"deny","arguments":[{"path":"/a"}]}]}`:                                                                        "rules[0].arguments[0]: expected present, equals",
		`{"rules":[{"effect":"deny","arguments":[{"path":"/a","equals":[]}]}]}`:                                                            "rules[0].arguments[0].equals: expected a string, a number, a boolean or null, found an array",
		`{"rules":[{"effect":"deny","arguments":[{"path":"/a","glob":[]}]}]}`:                                                              "rules[0].arguments[0].glob: an empty list",
		`{"rules":[{"effect":"deny","arguments":[{"path":"/a","prefix":[]}]}]}`:                                                            "rules[0].arguments[0].prefix: an empty list",
		`{"rules":[{"effect":"deny","arguments":[{"path":"/a","min":1e999999999999999999999}]}]}`:                                          "rules[0].arguments[0].min: the exponent",
		`{"rules":[{"effect":"deny","arguments":[{"path":"/a","present":false,"min":1}]}]}`:                                                "rules[0].arguments[0].present: a missing argument",
		`{"deny":["` + strings.Repeat("a", 1025) + `"]}`:                                                                                   "deny[0]: expected at most 1024 bytes, found 1025",
		`{"deny":[` + strings.Repeat(`"",`, 10_000) + `""]}`:                                                                               "deny: expected at most 10000, found 10001",
		`{"rules":[` + strings.Repeat(`{"effect":"deny"},`, 1000) + `{"effect":"ask"}]}`:                                                   "rules: expected at most 1000, found 1001",
		`{"rules":[{"effect":"deny","names":[` + strings.Repeat(`"",`, 256) + `""]}]}`:                                                     "rules[0].names: expected at most 256, found 257",
		`{"rules":[{"effect":"deny","unless":[` + strings.Repeat(`{},`, 256) + `{}]}]}`:                                                    "rules[0].unless: expected at most 256, found 257",
		`{"rules":[{"effect":"deny","arguments":[` + strings.Repeat(`{"path":"","present":true},`, 256) + `{"path":"","present":true}]}]}`: "rules[0].arguments: expected at most 256, found 257",
	} {
		type unchecked policy.Policy
		p := new(policy.Policy)
		if err := json.Unmarshal([]byte(text), (*unchecked)(p)); err != nil {
			t.Fatal(err)
		}
		_, err := policy.Compile(p)
		if _, ok := errors.AsType[*policy.CompileError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: the error is %v, want %s", text, err, want)
		}
		if p.Warnings() != nil {
			t.Errorf("%.90s has warnings", text)
		}
		_, err = policy.Parse([]byte(text))
		if _, ok := errors.AsType[*policy.ParseError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: Parse returns %v, want %s", text, err, want)
		}
	}
	for _, p := range []*policy.Policy{
		{Allow: []string{"\xff"}}, {Rules: []policy.Rule{{Effect: 3}}}, {Rules: []policy.Rule{{Reason: strings.Repeat("a", 2000)}}},
		{Rules: []policy.Rule{{Match: policy.Match{Arguments: []policy.Argument{{Path: "/a", Equals: json.RawMessage(`{`)}}}}}},
		{Rules: []policy.Rule{{Match: policy.Match{Arguments: []policy.Argument{{Path: "/a", Max: "one"}}}}}},
	} {
		if _, err := policy.Compile(p); err == nil {
			t.Errorf("%+v is compiled", p)
		}
	}
}

// TestParseFindsWhatCompileRefuses: the error of Parse has the position of the value, or of what should contain it.
func TestParseFindsWhatCompileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"deny":["a","` + strings.Repeat("b", 1025) + `"]}`:                                            "line 1, column 14: deny[1]: expected",
		"{\n\"rules\": [\n  {\"effect\":\"deny\"},\n  {\"effect\":\"ask\", \"names\": []}]}":            "line 4, column 29: rules[1].names: an empty list",
		"{\"rules\":[{\"effect\":\"ask\",\"unless\":[{},\n{\"tags\": []}]}]}":                           "line 2, column 10: rules[0].unless[1].tags: ",
		"{\"rules\":[{\"effect\":\"ask\",\"\\u0061rguments\":[\n {\"path\":\"a\",\"present\":true}]}]}": "line 2, column 10: rules[0].arguments[0].path: ",
		"{\"role_overrides\":{\"b\":{},\n\"a.b[\\\"c\\u00e9\\\"]\":{\"allow\":[],\n\"mode\":\"x\"}}}":   "line 3, column 8: role_overrides[",
		"{\"exempt\":[\n\n {\"server\":\"a\"}]}":                                                        "line 3, column 2: exempt[0].tool: expected",
		"{\"role_overrides\":{\n\"\":{}}}":                                                              `line 2, column 4: role_overrides[""]: `,
		"{\"deny\":\n[" + strings.Repeat(`"",`, 10_000) + `""]}`:                                        "line 2, column 1: deny: expected at most 10000",
	} {
		if _, err := policy.Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "policy: "+want) {
			t.Errorf("%.90s: the error is %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(everyMember))
	f.Add([]byte(`{"rules":[{"effect":"allow","arguments":[{"path":"/a/0","equals":-0.0}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.Parse(text)
		if err != nil {
			if _, ok := errors.AsType[*policy.ParseError](err); !ok {
				t.Errorf("the error is %v", err)
			}
			return
		}
		c := compile(t, p)
		p.Warnings("bot")
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := policy.Parse(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		same := compile(t, again)
		for _, q := range sampleRequests() {
			got, want := same.Decide(&q), c.Decide(&q)
			if got != want {
				t.Errorf("%s decides %v, and as %s %v", text, want, written, got)
			}
			if e := c.Explain(&q); e.Decision != want {
				t.Errorf("%s decides %v, and explains %v", text, want, e)
			}
		}
	})
}

// sampleRequests returns requests with arguments.
func sampleRequests() []policy.Request {
	all := requests()
	for i := range all {
		all[i].Arguments = json.RawMessage(`{"a":[1,{"b":"c"}],"path":"/etc/passwd"}`)
		all[i].Target.Origin.Trusted, all[i].Roles = i%2 == 0, []string{"bot"}
	}
	return append(all, policy.Request{Listed: true})
}
