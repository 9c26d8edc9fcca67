package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// allowed returns the names that the lists allow, in their order.
func allowed(lists *policy.Resolved, names []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !lists.Allows(name) }), " ")
}

func TestLists(t *testing.T) {
	names := strings.Fields("read write delete admin")
	for _, c := range []struct{ name, policy, role, want string }{
		{"empty lists allow everything", `{}`, "", "read write delete admin"},
		{"what is denied", `{"deny":["d*"]}`, "", "read write admin"},
		{"deny beats allow", `{"allow":["*"],"deny":["d*"]}`, "", "read write admin"},
		{"not in the allow list", `{"allow":["read","w*"]}`, "", "read write"},
		{"the empty pattern", `{"allow":[""]}`, "", ""},
		{"exact case", `{"allow":["READ"]}`, "", ""},
		{"no override for the role", `{"deny":["d*"],"role_overrides":{"bot":{"deny":["*"]}}}`, "owner", "read write admin"},
		{"restrict unites deny", `{"deny":["d*"],"role_overrides":{"bot":{"deny":["admin"]}}}`, "bot", "read write"},
		{"restrict intersects allow", `{"allow":["read","write"],"role_overrides":{"bot":{"allow":["w*","a*"],"mode":"restrict"}}}`, "bot", "write"},
		{"restrict with an empty allow adds nothing", `{"allow":["read","write"],"role_overrides":{"bot":{}}}`, "bot", "read write"},
		{"restrict of an empty allow", `{"role_overrides":{"bot":{"allow":["read"]}}}`, "bot", "read"},
		{"replace", `{"allow":["read"],"deny":["w*"],"role_overrides":{"owner":{"mode":"replace","deny":["read"]}}}`, "owner", "write delete admin"},
		{"replace by nothing", `{"allow":["read"],"deny":["*"],"role_overrides":{"owner":{"mode":"replace"}}}`, "owner", "read write delete admin"},
		{"strict with an unknown role", `{"strict":true,"role_overrides":{"owner":{}}}`, "onwer", ""},
		{"strict without a role", `{"strict":true,"role_overrides":{"owner":{}}}`, "", ""},
		{"strict with a role", `{"strict":true,"deny":["d*"],"role_overrides":{"owner":{}}}`, "owner", "read write admin"},
	} {
		p, err := policy.Parse([]byte(c.policy))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		restored := new(policy.Policy)
		if err := json.Unmarshal(text, restored); err != nil {
			t.Fatal(err)
		}
		for how, p := range map[string]*policy.Policy{"parsed": p, "restored": restored} {
			resolved := compile(t, p).Resolve(c.role)
			if got := allowed(resolved, names); got != c.want {
				t.Errorf("%s, %s: allowed is %q, want %q", c.name, how, got, c.want)
			}
			text, err := json.Marshal(resolved)
			if err != nil {
				t.Fatal(err)
			}
			again := new(policy.Resolved)
			if err := json.Unmarshal(text, again); err != nil {
				t.Fatal(err)
			}
			if got := allowed(again, names); got != c.want {
				t.Errorf("%s: restored from %s, allowed is %q, want %q", c.name, text, got, c.want)
			}
		}
	}
}

func TestResolveIsTheSame(t *testing.T) {
	c := compile(t, &policy.Policy{Deny: []string{"a"}, Roles: map[string]policy.RoleOverride{"bot": {Deny: []string{"a", "b"}}}})
	bot := c.Resolve("bot")
	if c.Resolve("") != c.Resolve("nobody") || c.Resolve("") == bot || c.Resolve("bot") != bot {
		t.Error("roles without an override have other lists")
	}
	text, err := json.Marshal(c.Resolve("bot"))
	if want := `{"allow":[],"deny":["a","b"]}`; err != nil || string(text) != want {
		t.Errorf("the lists are %s, want %s: %v", text, want, err)
	}
	all := compile(t, nil)
	if !all.Resolve("x").Allows("anything") || all.Decide(&policy.Request{}).Effect != policy.Allow {
		t.Error("no policy does not allow everything")
	}
}

// TestListsRestrictIsMonotonic: a restricting override allows nothing that the policy denies.
func TestListsRestrictIsMonotonic(t *testing.T) {
	choices := [][]string{nil, {"a"}, {"?"}, {"*b"}, {"a*", "b"}}
	for _, allow := range choices {
		for _, deny := range choices {
			for _, more := range choices {
				for _, denied := range choices {
					c := compile(t, &policy.Policy{Allow: allow, Deny: deny, Roles: map[string]policy.RoleOverride{
						"restricted": {Allow: more, Deny: denied}, "replaced": {Allow: more, Deny: denied, Mode: "replace"},
					}})
					for _, name := range []string{"", "a", "b", "ab", "ba", "bb"} {
						base, own := c.Resolve("").Allows(name), c.Resolve("replaced").Allows(name)
						if c.Resolve("restricted").Allows(name) != (base && own) {
							t.Fatalf("%q: %q %q and %q %q", name, allow, deny, more, denied)
						}
					}
				}
			}
		}
	}
}

// TestListsOfSeveralRoles: what the lists of one of a caller's roles deny is denied, and otherwise one that allows is enough.
func TestListsOfSeveralRoles(t *testing.T) {
	overrides := map[string]policy.RoleOverride{
		"reads": {Allow: []string{"a"}}, "writes": {Allow: []string{"b"}}, "guest": {Deny: []string{"b"}}, "root": {Allow: []string{"*"}, Mode: "replace"}, "open": {Mode: "replace"},
	}
	allows := []policy.Rule{{Effect: policy.Allow, Match: policy.Match{Names: []string{"c"}}}}
	for _, test := range []struct {
		roles       string
		base, ruled string // the names that are allowed, without rules and with a rule that allows c
	}{
		{"", "abc", "c"}, {"none", "abc", "c"}, {"reads", "a", "a"}, {"writes", "b", "b"}, {"reads writes", "ab", "ab"}, {"writes reads", "ab", "ab"},
		{"reads none", "a", "a"}, {"guest", "ac", "c"}, {"writes guest", "ac", "c"}, {"reads guest", "ac", "ac"}, {"root", "abcd", "abcd"}, {"root guest", "ac", "ac"},
		{"guest root", "ac", "ac"}, {"open", "abcd", "c"}, {"open reads", "abc", "ac"}, {"reads open", "abc", "ac"},
	} {
		for _, ruled := range []bool{false, true} {
			p, want := &policy.Policy{Deny: []string{"d"}, Roles: overrides}, test.base
			if ruled {
				p.Rules, want = allows, test.ruled
			}
			c, got := compile(t, p), ""
			for _, name := range []string{"a", "b", "c", "d"} {
				q := &policy.Request{Subject: policy.Subject{Roles: strings.Fields(test.roles)}, Target: mcp.Target{Name: name}}
				d := c.Decide(q)
				if d.Effect == policy.Allow {
					got += name
				}
				if e := c.Explain(q); e.Decision != d || d.Effect == policy.Allow && d.Rule == "allow" && !e.Steps[1].Matched {
					t.Errorf("%q: %s is decided %v, and explained as %v", test.roles, name, d, e)
				}
			}
			if got != want {
				t.Errorf("%q: allowed is %q with rules %t, want %q", test.roles, got, ruled, want)
			}
		}
	}
	strict := compile(t, &policy.Policy{Strict: true, Roles: overrides})
	for roles, want := range map[string]policy.Effect{"": policy.Deny, "none": policy.Deny, "none reads": policy.Allow} {
		if d := strict.Decide(&policy.Request{Subject: policy.Subject{Roles: strings.Fields(roles)}, Target: mcp.Target{Name: "a"}}); d.Effect != want {
			t.Errorf("%q: %v", roles, d)
		}
	}
	many := make([]string, 1001)
	if d := compile(t, nil).Decide(&policy.Request{Subject: policy.Subject{Roles: many}}); d.Effect != policy.Deny || d.Reason != "the caller has too many roles" {
		t.Errorf("with %d roles: %v", len(many), d)
	}
}

// TestCompileKeepsNothing: changes of the policy do not affect the compiled one.
func TestCompileKeepsNothing(t *testing.T) {
	hint := true
	p := &policy.Policy{
		Deny:   []string{"a"},
		Rules:  []policy.Rule{{Effect: policy.Allow, Match: policy.Match{Kinds: []mcp.Kind{mcp.KindTool}, Annotations: &policy.Annotations{ReadOnly: &hint}}}},
		Exempt: []policy.Exemption{{Server: "s", Tool: "x"}},
	}
	c := compile(t, p)
	requests := []policy.Request{{Target: mcp.Target{Name: "a"}}, {Target: mcp.Target{Name: "b"}}, {Target: mcp.Target{Name: "x", Origin: mcp.Origin{Server: "s"}}}}
	decide := func() (all []string) {
		for i := range requests {
			all = append(all, c.Decide(&requests[i]).String())
		}
		return all
	}
	before := decide()
	p.Deny[0], p.Rules[0].Kinds[0], hint, p.Exempt[0].Tool = "z", mcp.KindPrompt, false, "z"
	if diff := cmp.Diff(before, decide()); diff != "" {
		t.Errorf("the compiled lists have changed: %s", diff)
	}
}

// TestNamesOfBothSides: deny lists match the upstream and the exposed name, allow lists only
// the exposed name.
func TestNamesOfBothSides(t *testing.T) {
	q := &policy.Request{Target: mcp.Target{Name: "evil__read_all", Origin: mcp.Origin{Server: "evil", Name: "read_all"}}}
	for text, want := range map[string]policy.Effect{
		`{"deny":["read_*"]}`: policy.Deny, `{"deny":["evil__*"]}`: policy.Deny,
		`{"allow":["read_*"]}`: policy.Deny, `{"allow":["evil__read_*"]}`: policy.Allow,
		`{"deny":["*"],"exempt":[{"server":"evil","tool":"read_all"}]}`: policy.Allow,
		`{"deny":["*"],"exempt":[{"server":"","tool":"read_all"}]}`:     policy.Deny,
		`{"deny":["*"],"exempt":[{"server":"evil","tool":"read_"}]}`:    policy.Deny,
		`{"deny":["*"],"exempt":[{"server":"evil","tool":"read_*"}]}`:   policy.Deny,
	} {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := compile(t, p).Decide(q); got.Effect != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// A name with more than 8192 bytes is denied, whether callers see it or the server has it.
func TestLongNamesAreDenied(t *testing.T) {
	longest := strings.Repeat("a", 8192)
	for name, test := range map[string]struct {
		target mcp.Target
		want   policy.Effect
	}{
		"exposed, at the limit":           {mcp.Target{Name: longest, Origin: mcp.Origin{Server: "s", Name: "a"}}, policy.Allow},
		"exposed, beyond the limit":       {mcp.Target{Name: longest + "a", Origin: mcp.Origin{Server: "s", Name: "a"}}, policy.Deny},
		"on the server, at the limit":     {mcp.Target{Name: "a", Origin: mcp.Origin{Server: "s", Name: longest}}, policy.Allow},
		"on the server, beyond the limit": {mcp.Target{Name: "a", Origin: mcp.Origin{Server: "s", Name: longest + "a"}}, policy.Deny},
		"no server, at the limit":         {mcp.Target{Name: longest}, policy.Allow},
		"no server, beyond the limit":     {mcp.Target{Name: longest + "a"}, policy.Deny},
	} {
		q := &policy.Request{Target: test.target}
		tool := test.target.Origin.Name
		if tool == "" {
			tool = test.target.Name
		}
		exempt := &policy.Policy{Exempt: []policy.Exemption{{Server: test.target.Origin.Server, Tool: tool}}}
		for _, p := range []*policy.Policy{nil, {Rules: []policy.Rule{{Effect: policy.Allow}}}, exempt} {
			if got := compile(t, p).Decide(q); got.Effect != test.want {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
		}
	}
	if lists := compile(t, nil).Resolve(""); !lists.Allows(longest) || lists.Allows(longest+"a") {
		t.Error("lists do not have the same limit")
	}
}

// TestOrderDoesNotMatter: the order of rules has no effect.
func TestOrderDoesNotMatter(t *testing.T) {
	rules := []policy.Rule{
		{Effect: policy.Allow}, {Effect: policy.Ask, Match: policy.Match{Names: []string{"w*"}}}, {Effect: policy.Deny, Match: policy.Match{Names: []string{"*x"}}},
	}
	for name, want := range map[string]policy.Effect{"r": policy.Allow, "w": policy.Ask, "wx": policy.Deny} {
		for range 6 {
			rules[0], rules[1], rules[2] = rules[1], rules[2], rules[0]
			if got := compile(t, &policy.Policy{Rules: slices.Clone(rules)}).Decide(&policy.Request{Target: mcp.Target{Name: name}}); got.Effect != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			rules[0], rules[1] = rules[1], rules[0]
		}
	}
}
