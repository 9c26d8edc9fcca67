package policy_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/policy"
)

// TestTrust: what a server says of its tools allows nothing, unless it is trusted.
func TestTrust(t *testing.T) {
	describe := func(entry string, trusted bool) policy.Target {
		target := policy.Target{Name: "t", Trusted: trusted}
		if err := target.Describe([]byte(entry)); err != nil {
			t.Fatal(err)
		}
		return target
	}
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
		want := []policy.Effect{c.trustedReader, c.trustedWriter, c.trustedSilent, c.evilReader, c.evilWriter, c.evilSilent}
		for i, entry := range []string{reader, writer, silent, reader, writer, silent} {
			got := compiled.Decide(&policy.Request{Target: describe(entry, i < 3)})
			if got.Effect != want[i] {
				t.Errorf("%s of %s, trusted %t: %v, want %v", c.rules, entry, i < 3, got, want[i])
			}
		}
	}
	for _, entry := range []string{`{`, `[]`, `{"annotations":{"readOnlyHint":"yes"}}`, `{"_meta":{"fastmcp":{"tags":[1]}}}`} {
		if err := new(policy.Target).Describe([]byte(entry)); err == nil {
			t.Errorf("%s describes something", entry)
		}
	}
}
