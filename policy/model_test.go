package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// reference is a simple implementation of [policy.Compiled.Decide].
func reference(p *policy.Policy, q *policy.Request) policy.Effect {
	if some(p.Deny, q.Target.Name) || some(p.Deny, q.Target.Origin.Name) || len(p.Allow) > 0 && !some(p.Allow, q.Target.Name) {
		return policy.Deny
	}
	strictest, allowed := policy.Allow, len(p.Allow) > 0 || len(p.Rules) == 0
	for _, r := range p.Rules {
		if !about(r.Match, q) || slices.ContainsFunc(r.Unless, func(m policy.Match) bool { return about(m, q) }) {
			continue
		}
		strictest, allowed = min(strictest, r.Effect), true
	}
	if !allowed {
		return policy.Deny
	}
	return strictest
}

func about(m policy.Match, q *policy.Request) bool {
	return (m.Servers == nil || some(m.Servers, q.Target.Origin.Server)) && (m.Names == nil || some(m.Names, q.Target.Origin.Name)) &&
		(m.Exposed == nil || some(m.Exposed, q.Target.Name)) && (m.Roles == nil || someOf(m.Roles, q.Roles)) &&
		!slices.ContainsFunc(m.Arguments, func(a policy.Argument) bool {
			return string(q.Arguments) != `{"x":`+string(a.Equals)+`}`
		})
}

func someOf(patterns, names []string) bool {
	if len(names) == 0 {
		names = []string{""}
	}
	return slices.ContainsFunc(names, func(name string) bool { return some(patterns, name) })
}

func some(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(p, name) })
}

// like matches patterns with * and ?.
func like(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return like(pattern[1:], name) || name != "" && like(pattern, name[1:])
	}
	return name != "" && (pattern[0] == '?' || pattern[0] == name[0]) && like(pattern[1:], name[1:])
}

// patterns returns all patterns of up to two characters of a small alphabet.
func patterns() []string {
	all := []string{""}
	for _, a := range "ab*?" {
		all = append(all, string(a))
		for _, b := range "ab*?" {
			all = append(all, string(a)+string(b))
		}
	}
	return all
}

// requests returns requests for three servers with three tools each. The exposed names are
// ambiguous.
func requests() []policy.Request {
	var all []policy.Request
	for _, server := range []string{"a", "b", "ab"} {
		for _, tool := range []string{"a", "b", "ba"} {
			all = append(all, policy.Request{Target: mcp.Target{Name: server + tool, Origin: mcp.Origin{Server: server, Name: tool}}})
		}
	}
	return all
}

func oneOrNone(pattern string, ok bool) []string {
	if !ok {
		return nil
	}
	return []string{pattern}
}

func compile(t testing.TB, p *policy.Policy) *policy.Compiled {
	t.Helper()
	c, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDecideIsTheReference compares all allow and deny lists of at most one pattern, and all
// rules about a server and a name.
func TestDecideIsTheReference(t *testing.T) {
	all, asked := append([]string{"none"}, patterns()...), requests()
	decisions := 0
	var rules [][]policy.Rule
	rules = append(rules, nil)
	for _, effect := range []policy.Effect{policy.Deny, policy.Ask, policy.Allow} {
		for _, server := range []string{"a", "?", "a*"} {
			for _, name := range []string{"a", "b", "*", "?", "b*", "??"} {
				rules = append(rules, []policy.Rule{{Effect: effect, Match: policy.Match{Servers: []string{server}, Names: []string{name}}}})
			}
		}
	}
	for i, allow := range all {
		for j, deny := range all {
			for _, rules := range rules {
				p := &policy.Policy{Allow: oneOrNone(allow, i > 0), Deny: oneOrNone(deny, j > 0), Rules: rules}
				decisions += compare(t, p, asked)
			}
		}
	}
	t.Logf("%d decisions", decisions)
}

// compare returns the number of compared decisions.
func compare(t *testing.T, p *policy.Policy, asked []policy.Request) int {
	t.Helper()
	c := compile(t, p)
	for i := range asked {
		got, want := c.Decide(&asked[i]), reference(p, &asked[i])
		if got.Effect != want {
			text, _ := json.Marshal(p)
			t.Fatalf("%s: %+v is decided %v, want %v", text, asked[i], got, want)
		}
	}
	return len(asked)
}

// TestRulesAreTheReference compares all pairs of rules, with exceptions, roles and arguments,
// and checks that an entry is listed if some call of it is allowed.
func TestRulesAreTheReference(t *testing.T) {
	one, two := policy.Argument{Path: "/x", Equals: json.RawMessage("1")}, policy.Argument{Path: "/x", Equals: json.RawMessage("2")}
	matches := []policy.Match{
		{}, {Names: []string{"a"}}, {Servers: []string{"a*"}}, {Exposed: []string{"?a"}}, {Roles: []string{"r"}},
		{Arguments: []policy.Argument{one}}, {Arguments: []policy.Argument{one, two}}, {Names: []string{"b*"}, Arguments: []policy.Argument{two}},
	}
	var rules []policy.Rule
	for _, effect := range []policy.Effect{policy.Deny, policy.Ask, policy.Allow} {
		for _, m := range matches {
			rules = append(rules, policy.Rule{Effect: effect, Match: m})
			for _, exception := range matches {
				rules = append(rules, policy.Rule{Effect: effect, Match: m, Unless: []policy.Match{exception}})
			}
		}
	}
	var asked []policy.Request
	for _, q := range requests() {
		for _, roles := range [][]string{nil, {"r"}, {"q", "r"}} {
			for _, arguments := range []string{`{"x":1}`, `{"x":2}`, `{"x":3}`} {
				q.Roles, q.Arguments = roles, json.RawMessage(arguments)
				asked = append(asked, q)
			}
		}
	}
	decisions := 0
	for i := range rules {
		for j := range rules[:i+1] {
			p := &policy.Policy{Rules: []policy.Rule{rules[i], rules[j]}}
			if (i+j)%2 == 0 {
				p.Allow = []string{"*a"}
			}
			decisions += compare(t, p, asked)
			c := compile(t, p)
			for k := range asked {
				entry := asked[k]
				entry.Arguments, entry.Listed = nil, true
				if inList, inCall := c.Decide(&entry), c.Decide(&asked[k]); inList.Effect < inCall.Effect {
					t.Fatalf("%+v: a call of %+v is decided %v, and listed as %v", p.Rules, asked[k], inCall, inList)
				}
			}
		}
	}
	t.Logf("%d decisions", decisions)
}

// TestListedIsExact: with one rule about arguments, every listed entry can be called.
func TestListedIsExact(t *testing.T) {
	for rules, want := range map[string]policy.Effect{
		`{"effect":"allow","arguments":[{"path":"/x","max":9}]}`:                                                              policy.Allow,
		`{"effect":"ask","arguments":[{"path":"/x","max":9}]}`:                                                                policy.Ask,
		`{"effect":"deny","arguments":[{"path":"/x","max":9}]}`:                                                               policy.Deny,
		`{"effect":"deny","arguments":[{"path":"/x","max":9}]},{"effect":"allow"}`:                                            policy.Allow,
		`{"effect":"ask","arguments":[{"path":"/x","max":9}]},{"effect":"allow"}`:                                             policy.Allow,
		`{"effect":"deny","unless":[{"arguments":[{"path":"/x","max":9}]}]},{"effect":"allow"}`:                               policy.Allow,
		`{"effect":"deny","unless":[{"names":["b"],"arguments":[{"path":"/x","max":9}]}]},{"effect":"allow"}`:                 policy.Deny,
		`{"effect":"allow","unless":[{"arguments":[{"path":"/x","max":9}]}]}`:                                                 policy.Allow,
		`{"effect":"allow","arguments":[{"path":"/x","max":9}]},{"effect":"ask","arguments":[{"path":"/x","present":false}]}`: policy.Allow,
	} {
		p, err := policy.Parse(fmt.Appendf(nil, `{"rules":[%s]}`, rules))
		if err != nil {
			t.Fatal(err)
		}
		q := &policy.Request{Target: mcp.Target{Name: "a"}, Listed: true}
		if got := compile(t, p).Decide(q); got.Effect != want {
			t.Errorf("%s: listed as %v, want %v", rules, got, want)
		}
	}
}
