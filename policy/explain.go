package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Explanation is a decision with all that was looked at.
type Explanation struct {
	Decision Decision
	// Steps are the exemptions, the two lists, and the rules in the order of the policy.
	Steps []Step
}

// A Step is one list or rule of an [Explanation].
type Step struct {
	// Rule is the rule's name, or "exempt", "deny" or "allow".
	Rule   string
	Effect Effect
	// Matched says whether it matched. A rule that did was not followed if another is
	// stricter.
	Matched bool
	// Why says what matched, or what did not.
	Why string
}

// String has a line for the decision and each step.
func (e *Explanation) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, e.Decision)
	for _, s := range e.Steps {
		mark := "-"
		if s.Matched {
			mark = "+"
		}
		fmt.Fprintf(&b, "%s %v %s: %s\n", mark, s.Effect, s.Rule, s.Why)
	}
	return b.String()
}

// Explain decides as [Compiled.Decide] does, and says of every list and rule whether it
// matches. Nothing comes of it: it is for trying a policy out.
func (c *Compiled) Explain(q *Request) *Explanation {
	e := &Explanation{Decision: c.Decide(q)}
	if first, decided := c.first(q); decided {
		e.Steps = []Step{{Rule: cmp.Or(first.Rule, "name"), Effect: first.Effect, Matched: true, Why: first.Reason}}
		return e
	}
	e.Steps = c.Resolve(q.Role).explain(q)
	rules := slices.SortedFunc(slices.Values(c.rules), func(a, b ruling) int { return cmp.Compare(a.place, b.place) })
	for i := range rules {
		e.Steps = append(e.Steps, rules[i].explain(q))
	}
	return e
}

func (e *Effective) explain(q *Request) []Step {
	d := e.decide(q.exposed(), q.name())
	denied := Step{Rule: "deny", Effect: Deny, Why: e.deny.miss}
	if d.Rule == "deny" {
		denied.Matched, denied.Why = true, d.Reason
	}
	allowed := Step{Rule: "allow", Effect: Allow, Why: "there is no allow list"}
	if len(e.allow) > 0 {
		only := &Effective{allow: e.allow} // as if nothing were denied
		d := only.decide(q.exposed(), q.name())
		allowed.Matched, allowed.Why = d.Effect == Allow, d.Reason
	}
	return []Step{denied, allowed}
}

func (r *ruling) explain(q *Request) Step {
	assumed := yes
	if r.decision.Effect == Deny {
		assumed = no
	}
	t, because := r.holds(q, assumed)
	s := Step{Rule: r.decision.Rule, Effect: r.decision.Effect, Matched: r.applies(q, assumed)}
	switch t {
	case yes:
		s.Why = "all of it matches"
	case unknown:
		s.Why = "it cannot be told about its " + because
	default:
		s.Why = "not matched by its " + because
	}
	return s
}
