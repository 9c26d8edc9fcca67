package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

var policyCommand = &command{
	name: "policy", args: "[FLAGS] test FILE CALL…, or policy [FLAGS] -journal JOURNAL explain FILE", short: "what a policy would decide about calls",
	long: `test prints the decision about each call, and what each list and rule says about it. A CALL is the name of a
tool, ALIAS__TOOL, and after it may be its arguments, a JSON object. With -expect, the exit status is 2 unless every call
is decided so. explain counts what the policy would decide about the calls in a journal of dovetail serve, which are those
that a person was asked about, and prints each that it would decide otherwise. The journal has no arguments: of a
rule about arguments, the decision that it makes in the best case counts.

Rules about annotations and tags need the definitions of the tools, from the servers of -config. Without it they are
unknown: such a rule applies if it denies or asks.`,
	run: runPolicy,
}

// policyRun has the flags of dovetail policy.
type policyRun struct {
	config, trust, journal, expect string
	subject                        policy.Subject
	asJSON                         bool
	timeout                        time.Duration
	rules                          *policy.Compiled
	catalog                        *server.Catalog // nil without -config
}

func runPolicy(ctx context.Context, env *environment, sub *command, line []string) error {
	p := &policyRun{}
	flags := newFlags(sub, env.stderr)
	flags.StringVar(&p.config, "config", "", "the configuration `file` with the servers of the tools")
	flags.StringVar(&p.trust, "trust", "", "the `aliases`, separated by commas, of servers that are trusted to annotate their tools; * for all")
	flags.StringVar(&p.journal, "journal", "", "the journal `file` of explain")
	flags.StringVar(&p.subject.Principal, "principal", "", "the `name` of the caller")
	flags.Func("role", "a `role` of the caller; repeatable", func(role string) error {
		p.subject.Roles = append(p.subject.Roles, role)
		return nil
	})
	flags.StringVar(&p.expect, "expect", "", "the `effect` that every call of test must have: allow, ask or deny")
	flags.BoolVar(&p.asJSON, "json", false, "print JSON")
	flags.DurationVar(&p.timeout, "timeout", time.Minute, "bound on the command")
	args, command, err := flags.parse(line)
	switch {
	case err != nil:
		return err
	case command != nil || len(args) < 2 || args[0] != "test" && args[0] != "explain":
		return flags.usage()
	case (args[0] == "explain") != (p.journal != ""), args[0] == "explain" && len(args) > 2, args[0] == "test" && len(args) < 3:
		return flags.usage()
	case p.expect != "" && (args[0] != "test" || !slices.Contains([]string{"allow", "ask", "deny"}, p.expect)):
		return misuse("-expect is for test: expected allow, ask or deny")
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	inForce, err := readPolicy(args[1], false, slog.New(slog.NewTextHandler(env.stderr, nil)))
	if err != nil {
		return err
	}
	p.rules = inForce.Compiled
	if p.config != "" {
		all, _, stop, err := startServers(ctx, env, p.config, p.trust, p.timeout)
		if err != nil {
			return err
		}
		defer stop()
		p.catalog = all.Catalog()
	}
	if args[0] == "test" {
		return p.test(env, args[2:])
	}
	return p.explain(env)
}

// target returns the tool with a name, or one without a definition if it is not known.
func (p *policyRun) target(name string) (*mcp.Target, error) {
	if p.catalog != nil {
		if e := p.catalog.Lookup(mcp.KindTool, name); e != nil {
			return &e.Target, nil
		}
		return nil, fmt.Errorf("the servers of %s have no tool %.256q", p.config, name)
	}
	alias, tool, ok := strings.Cut(name, "__")
	if !ok {
		return nil, misuse("a call is the name ALIAS__TOOL, found %.256q", name)
	}
	return &mcp.Target{Kind: mcp.KindTool, Name: name, Origin: mcp.Origin{Server: alias, Name: tool}}, nil
}

// A decided call is a line of the output of dovetail policy.
type decidedCall struct {
	Call      string          `json:"call"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Effect    policy.Effect   `json:"effect"`
	Reason    string          `json:"reason"`
	Steps     []policy.Step   `json:"steps"`
}

func (p *policyRun) decide(q *policy.Request) decidedCall {
	e := p.rules.Explain(q)
	return decidedCall{q.Target.Name, q.Arguments, e.Decision.Effect, e.Decision.Reason, e.Steps}
}

// test prints the decisions about calls.
func (p *policyRun) test(env *environment, words []string) error {
	var calls []decidedCall
	for len(words) > 0 {
		target, err := p.target(words[0])
		if err != nil {
			return err
		}
		q := &policy.Request{Subject: p.subject, Target: *target, Arguments: json.RawMessage("{}")}
		if words = words[1:]; len(words) > 0 && strings.HasPrefix(words[0], "{") {
			if q.Arguments = json.RawMessage(words[0]); !json.Valid(q.Arguments) {
				return misuse("the arguments of %.256q are not JSON: %.256s", target.Name, words[0])
			}
			words = words[1:]
		}
		calls = append(calls, p.decide(q))
	}
	if err := p.print(env, calls); err != nil {
		return err
	}
	if p.expect != "" && slices.ContainsFunc(calls, func(c decidedCall) bool { return c.Effect.String() != p.expect }) {
		return checkFailed
	}
	return nil
}

// print prints the decisions with their reasons.
func (p *policyRun) print(env *environment, calls []decidedCall) error {
	if p.asJSON {
		text, err := json.MarshalIndent(calls, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.stdout, "%s\n", text)
		return err
	}
	for _, c := range calls {
		fmt.Fprintf(env.stdout, "%-6s %s %s\n", c.Effect, peertext.Escape(c.Call), peertext.EscapeJSON(c.Arguments))
		fmt.Fprintf(env.stdout, "       %s\n", peertext.Escape(c.Reason))
		for _, s := range c.Steps {
			mark := "-"
			if s.Matched {
				mark = "+"
			}
			fmt.Fprintf(env.stdout, "       %s %s %s: %s\n", mark, s.Effect, peertext.Escape(s.Rule), peertext.Escape(s.Why))
		}
	}
	return nil
}

// explain prints what the policy would decide about the calls of the journal.
func (p *policyRun) explain(env *environment) error {
	if _, err := approval.Verify(p.journal); err != nil {
		return err
	}
	file, err := os.Open(p.journal)
	if err != nil {
		return err
	}
	defer file.Close()
	counts, unknown := make(map[policy.Effect]int), 0
	var otherwise []decidedCall
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil { // an incomplete last line is none
			break
		}
		var e approval.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s: %w", p.journal, err)
		}
		if e.Event != "asked" {
			continue
		}
		target, err := p.target(e.Server + "__" + e.Tool)
		if err != nil {
			unknown++
			continue
		}
		q := &policy.Request{Subject: p.subject, Target: *target, Listed: e.Arguments == "", Arguments: json.RawMessage(e.Arguments)}
		q.Principal = cmp.Or(q.Principal, e.Caller)
		c := p.decide(q)
		counts[c.Effect]++
		if c.Effect != policy.Ask && !slices.ContainsFunc(otherwise, func(o decidedCall) bool { return o.Call == c.Call && o.Effect == c.Effect && o.Reason == c.Reason }) {
			otherwise = append(otherwise, c)
		}
	}
	if err := p.print(env, otherwise); err != nil {
		return err
	}
	for _, effect := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(env.stderr, "%-6s %s\n", effect, count(counts[effect], "call"))
	}
	if unknown > 0 {
		fmt.Fprintf(env.stderr, "unknown %s, of tools that the servers do not have\n", count(unknown, "call"))
	}
	return nil
}
