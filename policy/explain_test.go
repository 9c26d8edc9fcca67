package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

func TestExplain(t *testing.T) {
	c := parsed(t, `{"allow":["fs__*"],"deny":["*delete*"],"exempt":[{"server":"own","tool":"help"}],"rules":[
		{"effect":"allow","names":["read_*"]},
		{"name":"writes","effect":"ask","names":["write_*"],"unless":[{"arguments":[{"path":"/path","prefix":["/tmp/"]}]}]},
		{"effect":"deny","annotations":{"openWorldHint":true},"roles":["bot"]}]}`)
	for _, e := range []struct {
		q    policy.Request
		want string
	}{
		{policy.Request{Target: mcp.Target{Name: "fs__write_file", Origin: mcp.Origin{Server: "fs", Name: "write_file"}}, Arguments: []byte(`{"path":"/etc/x"}`)},
			"ask: the rule \"writes\" matches\n" +
				"- deny deny: no pattern of the deny list matches\n" +
				"+ allow allow: the allow list has the pattern \"fs__*\"\n" +
				"- allow rules[0]: names does not match\n" +
				"+ ask writes: all parts match\n" +
				"- deny rules[2]: roles does not match\n"},
		{policy.Request{Target: mcp.Target{Name: "fs__write_file", Origin: mcp.Origin{Server: "fs", Name: "write_file"}}, Arguments: []byte(`{"path":"/tmp/x"}`), Subject: policy.Subject{Roles: []string{"bot"}}},
			"deny: the rule \"rules[2]\" matches\n" +
				"- deny deny: no pattern of the deny list matches\n" +
				"+ allow allow: the allow list has the pattern \"fs__*\"\n" +
				"- allow rules[0]: names does not match\n" +
				"- ask writes: unless[0] does not match\n" +
				"+ deny rules[2]: unknown because of annotations\n"},
		{policy.Request{Target: mcp.Target{Name: "delete"}},
			"deny: the deny list has the pattern \"*delete*\"\n" +
				"+ deny deny: the deny list has the pattern \"*delete*\"\n" +
				"- allow allow: no pattern of the allow list matches\n" +
				"- allow rules[0]: names does not match\n" +
				"- ask writes: names does not match\n" +
				"- deny rules[2]: roles does not match\n"},
		{policy.Request{Target: mcp.Target{Name: "help", Origin: mcp.Origin{Server: "own"}}}, "allow: the tool is exempt\n+ allow exempt: the tool is exempt\n"},
	} {
		if diff := cmp.Diff(e.want, c.Explain(&e.q).String()); diff != "" {
			t.Errorf("%+v: %s", e.q, diff)
		}
	}
	if d := parsed(t, `{"rules":[{"effect":"ask","names":["a"]}]}`).Decide(&policy.Request{}); d.String() != "deny: nothing allows it" {
		t.Errorf("without a rule that matches: %v", d)
	}
}

func TestWarnings(t *testing.T) {
	for text, want := range map[string][]string{
		`{"allow":["a","b*"],"deny":["c"],"rules":[{"effect":"allow","roles":["bot"]}],"role_overrides":{"bot":{"deny":["x"]}}}`: nil,
		`{"role_overrides":{"owner":{"mode":"replace"}}}`:                                                                        {`role_overrides["owner"]: it replaces the lists by empty ones, which allow everything, including what the policy denies`},
		`{"role_overrides":{"onwer":{"deny":["x"]}}}`:                                                                            {`role_overrides["onwer"]: there is no such role`},
		`{"strict":true}`:                    {"strict: there are no role_overrides, so everything is denied"},
		`{"allow":["","a"]}`:                 {"allow[0]: an empty pattern matches only the empty name"},
		`{"allow":["a","a"]}`:                {`allow[1]: "a" repeats the pattern at index 0`},
		`{"deny":["[b-a]x"]}`:                {`deny[0]: "[b-a]x" cannot match anything`},
		`{"deny":["a*","ab*"]}`:              {`deny[1]: "ab*" is redundant because of "a*"`},
		`{"allow":["ab","x"],"deny":["a*"]}`: {`allow[0]: "ab" has no effect, because "a*" is denied`},
		`{"deny":["a*"],"role_overrides":{"bot":{"allow":["ab"]},"owner":{"mode":"replace","allow":["ab"]}}}`: {`role_overrides["bot"].allow[0]: "ab" has no effect, because "a*" is denied`},
		`{"deny":["a*"],"rules":[{"effect":"ask","names":["ab","ac*"]},{"effect":"deny","names":["ab"]}]}`:    {"rules[0]: it has no effect, because the deny list has all of its names"},
		`{"rules":[{"effect":"deny","roles":["bto","b*"],"unless":[{"roles":["x"]}]}]}`:                       {`rules[0]: there is no role "bto"`, `rules[0]: there is no role "x"`},
	} {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Warnings("owner", "bot"); !slices.Equal(got, want) {
			t.Errorf("%s: the warnings are %q, want %q", text, got, want)
		}
	}
}
