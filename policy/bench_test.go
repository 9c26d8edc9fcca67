package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// hundred returns a policy of 100 rules about ten servers, and a call that the last rule allows.
func hundred(t testing.TB) (*policy.Compiled, *policy.Request) {
	p := &policy.Policy{Deny: []string{"*secret*"}}
	for i := range 100 {
		server, tool := fmt.Sprintf("server%d", i/10), fmt.Sprintf("tool_%d_*", i%10)
		r := policy.Rule{Effect: policy.Effect(2 - i%3%2), Match: policy.Match{Servers: []string{server}, Names: []string{tool}}}
		if i%5 == 0 {
			r.Arguments = []policy.Argument{{Path: "/path", Prefix: []string{"/tmp/"}}}
		}
		p.Rules = append(p.Rules, r)
	}
	p.Rules[99].Effect = policy.Allow
	return compile(t, p), &policy.Request{
		Subject:   policy.Subject{Roles: []string{"bot"}, Principal: "ann"},
		Target:    mcp.Target{Name: "server9__tool_9_read", Origin: mcp.Origin{Server: "server9", Name: "tool_9_read"}},
		Arguments: []byte(`{"text":"a line of text","path":"/tmp/\u0061 file of some length in a folder of some length"}`),
	}
}

func TestDecideBudget(t *testing.T) {
	racetest.Skip(t)
	c, q := hundred(t)
	if d := c.Decide(q); d.Rule != "rules[99]" {
		t.Fatalf("it is decided: %v", d)
	}
	asksPath := parsed(t, `{"rules":[{"effect":"allow","unless":[{"arguments":[{"path":"/path","glob":["/etc/*","*[!a-z]x"]},{"path":"/n","max":1}]}]}]}`)
	long := *q
	name := long.Target.Origin.Name + strings.Repeat("-of-any-length", 10)
	long.Target.Origin.Name, long.Target.Name, long.Roles, long.Principal = name, "server9__"+name, []string{name}, name
	byAll := parsed(t, `{"allow":["*-of-*"],"rules":[{"effect":"deny","roles":["*x"],"principals":["*y*z"],"exposed":["a?","*[z]"]}]}`)
	for what, c := range map[string]*policy.Compiled{"100 rules": c, "arguments": asksPath, "long names": byAll} {
		q := q
		if c == byAll {
			q = &long
		}
		if n := testing.AllocsPerRun(100, func() { c.Decide(q) }); n != 0 {
			t.Errorf("a decision by %s allocates %v times", what, n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	c, q := hundred(b)
	b.ReportAllocs()
	for b.Loop() {
		c.Decide(q)
	}
}

func BenchmarkAllows(b *testing.B) {
	p := &policy.Policy{Deny: []string{"*secret*"}}
	for i := range 100 {
		p.Allow = append(p.Allow, fmt.Sprintf("server%d__*", i))
	}
	lists := compile(b, p).Resolve("")
	b.ReportAllocs()
	for b.Loop() {
		lists.Allows("server99__read")
	}
}
