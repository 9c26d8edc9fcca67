package policy_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestTrust: what a server says of its tools allows nothing, unless it is trusted.
func TestTrust(t *testing.T) {
	origins := []mcp.Origin{{}, {Server: "s", Name: "t", Trusted: true}, {Server: "s", Name: "t"}, {Name: "t"}}
	const (
		reader = `{"name":"t","annotations":{"readOnlyHint":true},"_meta":{"fastmcp":{"tags":["safe"]},"_fastmcp":{"tags":["web","safe"]},"io.github.dovetail-go/tags":["own"]}}`
		writer = `{"name":"t","annotations":{"destructiveHint":false,"openWorldHint":false}}`
		silent = `{"name":"t"}`
	)
	const other = `,{"effect":"allow"}`
	for _, c := range []struct {
		rules                                       string
		trustedReader, trustedWriter, trustedSilent policy.Effect
		evilReader, evilWriter, evilSilent          policy.Effect
	}{
		{`{"effect":"allow","annotations":{"readOnlyHint":true}}`, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"ask","annotations":{"destructiveHint":true}}` + other, policy.Allow, policy.Allow, policy.Ask, policy.Ask, policy.Ask, policy.Ask},
		{`{"effect":"deny","annotations":{"openWorldHint":true}}` + other, policy.Deny, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"deny","unless":[{"annotations":{"readOnlyHint":true}}]}` + other, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"allow","tags":["saf?"]}`, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"allow","tags":["own"]}`, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"deny","tags":["web"]}` + other, policy.Deny, policy.Allow, policy.Allow, policy.Deny, policy.Deny, policy.Deny},
	} {
		p, err := policy.Parse([]byte(`{"rules":[` + c.rules + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		compiled := compile(t, p)
		for i, want := range [][]policy.Effect{{c.trustedReader, c.trustedWriter, c.trustedSilent}, {c.evilReader, c.evilWriter, c.evilSilent}} {
			for _, origin := range origins[2*i : 2*i+2] {
				for j, entry := range []string{reader, writer, silent} {
					target := mcp.Target{Name: "t", Origin: origin, Definition: mcp.NewDefinition([]byte(entry))}
					if got := compiled.Decide(&policy.Request{Target: target}); got.Effect != want[j] {
						t.Errorf("%s of %s, from %+v: %v, want %v", c.rules, entry, origin, got, want[j])
					}
				}
			}
		}
	}
	reads := parsed(t, `{"rules":[{"effect":"allow","annotations":{"readOnlyHint":true}},{"effect":"allow","tags":["*"]}]}`)
	for _, entry := range []string{`{`, `[]`, `{"annotations":{"readOnlyHint":"yes"}}`, `{"annotations":{"readOnlyHint":true,"destructiveHint":1}}`, `{"_meta":{"fastmcp":{"tags":[1]}}}`} {
		target := mcp.Target{Name: "t", Definition: mcp.NewDefinition([]byte(entry))}
		if got := reads.Decide(&policy.Request{Target: target}); got.Effect != policy.Deny {
			t.Errorf("%s allows: %v", entry, got)
		}
	}
}
