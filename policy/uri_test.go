package policy_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// TestSpellingsOfURIs: no spelling of a URI escapes a pattern that denies or asks, and an allowed URI is allowed in each
// spelling, for resources that are listed in any spelling and for those that a template matches.
func TestSpellingsOfURIs(t *testing.T) {
	secret := []string{
		"app://shop/a~secret%2F1", "APP://shop/a~secret%2F1", "app://SHOP/a~secret%2F1", "app://shop/%61~secret%2F1",
		"app://shop/a%7Esecret%2F1", "app://shop/a%7esecret%2f1", "App://Shop/a~%73ecre%74%2f1",
	}
	other := []string{"app://shop/other", "APP://Shop/%6Fther"}
	hidden := func(policy string) policyCase { return policyCase{policy, false, true} }
	shown := func(policy string) policyCase { return policyCase{policy, true, false} }
	var cases []policyCase
	for _, pattern := range append(slices.Clone(secret), "app://shop/a~secret*", "APP://Shop/%61~secret*", "*a~secret*", "app://shop/[a]~s?cret*") {
		cases = append(cases,
			hidden(fmt.Sprintf(`{"deny":[%q]}`, pattern)),
			hidden(fmt.Sprintf(`{"rules":[{"effect":"allow"},{"effect":"deny","names":[%q]}]}`, pattern)),
			hidden(fmt.Sprintf(`{"rules":[{"effect":"allow"},{"effect":"ask","exposed":[%q]}]}`, pattern)),
			hidden(fmt.Sprintf(`{"rules":[{"effect":"allow","unless":[{"names":[%q]}]}]}`, pattern)),
			shown(fmt.Sprintf(`{"allow":[%q]}`, pattern)),
			shown(fmt.Sprintf(`{"rules":[{"effect":"allow","names":[%q]}]}`, pattern)),
			shown(fmt.Sprintf(`{"rules":[{"effect":"allow"},{"effect":"deny","unless":[{"names":[%q]}]}]}`, pattern)),
		)
	}
	for at, uri := range append([]string{""}, secret...) { // the listed spelling; "" for a template
		current, where := new(policy.Compiled), cmp.Or(uri, "a template")
		guard := mcp.Guard{Name: "policy", Check: func(ctx context.Context, call *mcp.Call) error {
			return policy.Guard(current, nil).Check(ctx, call)
		}}
		s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, &server.Options{Guards: []mcp.Guard{guard}})
		server.AddTemplate(s, server.Template{URITemplate: "app://shop/{+name}"}, func(context.Context, *server.Request, map[string]string) (string, error) {
			return "read", nil
		})
		if at > 0 {
			server.AddResource(s, server.Resource{URI: uri}, func(context.Context, *server.Request) (string, error) { return "read", nil })
		}
		session := connect(t, s, client.Modern)
		for _, c := range cases {
			current = parsed(t, c.policy)
			for uris, want := range map[*[]string]bool{&secret: c.secret, &other: c.other} {
				for _, uri := range *uris {
					if _, err := session.ReadResource(t.Context(), uri, nil); (err == nil) != want || err != nil && !client.IsForbidden(err) {
						t.Errorf("%s, by %s: reading %s: %v, allowed is %t", c.policy, where, uri, err, want)
					}
				}
			}
		}
	}
}

// A policyCase says whether a policy allows the secret resource and another one.
type policyCase struct {
	policy        string
	secret, other bool
}

// TestIgnoredParts: a query and a fragment, which a template may ignore, escape no pattern that denies.
func TestIgnoredParts(t *testing.T) {
	for _, test := range []struct {
		uri  string
		want policy.Effect
	}{
		{"app:///secret", policy.Deny},
		{"app:///secret#", policy.Deny},
		{"APP:///%73ecret#x", policy.Deny},
		{"app:///secret?", policy.Deny},
		{"app:///secret?x=1#y?z", policy.Deny},
		{"app:///find?x=%31#y", policy.Deny},
		{"app:///find?x=2", policy.Allow},
		{"app:///find", policy.Allow},
		{"app:///secret%23", policy.Allow},
		{"app:///other?x#y", policy.Allow},
	} {
		for _, text := range []string{`{"deny":["app:///secret","app:///find[?]x=1"]}`, `{"rules":[{"effect":"allow"},{"effect":"deny","names":["APP:///secret","app:///find?x=1"]}]}`} {
			q := &policy.Request{Target: mcp.Target{Kind: mcp.KindResourceTemplate, Name: "app:///{name}"}, URI: test.uri}
			if d := parsed(t, text).Decide(q); d.Effect != test.want {
				t.Errorf("%s: %s: %v, want %v", text, test.uri, d, test.want)
			}
		}
	}
	q := &policy.Request{Target: mcp.Target{Kind: mcp.KindResourceTemplate, Name: "app:///{name}"}, URI: "app:///public?x"}
	if d := parsed(t, `{"allow":["app:///public"]}`).Decide(q); d.Effect != policy.Deny {
		t.Errorf("a URI with a query that no pattern allows is decided: %v", d)
	}
	q.Target.Kind, q.Target.Name = mcp.KindResource, q.URI
	if d := parsed(t, `{"deny":["app:///public"]}`).Decide(q); d.Effect != policy.Allow {
		t.Errorf("a listed URI with a query is decided: %v", d)
	}
}

// TestOtherSpellings: spellings of URIs that are not equivalent, and names that are no URIs, are different names.
func TestOtherSpellings(t *testing.T) {
	c := parsed(t, `{"deny":["app:///a%2Fb","App:x","%41"]}`)
	for _, test := range []struct {
		kind mcp.Kind
		name string
		want policy.Effect
	}{
		{mcp.KindResource, "app:///a%2fb", policy.Deny},
		{mcp.KindResource, "app:///a/b", policy.Allow},
		{mcp.KindResource, "app:///A%2Fb", policy.Allow},
		{mcp.KindResource, "app:x", policy.Deny},
		{mcp.KindResourceTemplate, "APP:x", policy.Deny},
		{mcp.KindSkill, "APP:x", policy.Deny},
		{mcp.KindTool, "App:x", policy.Deny},
		{mcp.KindTool, "app:x", policy.Allow},
		{mcp.KindPrompt, "app:x", policy.Allow},
		{mcp.KindTool, "A", policy.Allow},
		{mcp.KindTool, "%41", policy.Deny},
	} {
		for _, listed := range []bool{true, false} {
			if d := c.Decide(&policy.Request{Target: mcp.Target{Kind: test.kind, Name: test.name}, Listed: listed}); d.Effect != test.want {
				t.Errorf("%v %s: %v, want %v", test.kind, test.name, d, test.want)
			}
		}
	}
}

// TestExplainSpelling: an explanation says that a rule applies because of the spelling of the caller.
func TestExplainSpelling(t *testing.T) {
	c := parsed(t, `{"rules":[{"effect":"allow"},{"effect":"deny","names":["*%61*"]}]}`)
	q := &policy.Request{Target: mcp.Target{Kind: mcp.KindResourceTemplate, Name: "app:{x}"}, URI: "app:%61"}
	if e := c.Explain(q); e.Decision.Effect != policy.Deny || e.Steps[3].Why != "all parts match" {
		t.Errorf("it is explained: %v", e)
	}
	q.URI = "app:%612"
	c = parsed(t, `{"rules":[{"effect":"allow"},{"effect":"deny","names":["app:%612"],"unless":[{"names":["APP:*"]}]},{"effect":"deny","names":["app:[%]*"]}]}`)
	if e := c.Explain(q); e.Decision.Rule != "rules[2]" || e.Steps[4].Why != "unknown because of names" {
		t.Errorf("it is explained: %v", e)
	}
}
