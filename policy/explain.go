package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An Explanation is a decision with the result of every list and rule.
type Explanation struct {
	Decision Decision
	// Steps holds the exemptions, the two lists, and the rules in the order of the policy.
	Steps []Step
}

// A Step is the result of one list or rule of an [Explanation].
type Step struct {
	// Rule is the name of the rule, or "exempt", "deny" or "allow".
	Rule   string `json:"rule"`
	Effect Effect `json:"effect"`
	// Matched reports whether it matched. A stricter rule may have decided nevertheless.
	Matched bool `json:"matched"`
	// Why names the part that matched or did not.
	Why string `json:"why"`
}

// String returns a line for the decision and for each step.
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

// Explain decides as [Compiled.Decide] does, and reports for every list and rule whether it
// matches. It enforces nothing; it is for trying out a policy.
func (c *Compiled) Explain(q *Request) *Explanation {
	named := q.named()
	return c.explain(&named)
}

func (c *Compiled) explain(q *namedRequest) *Explanation {
	e := &Explanation{Decision: c.decide(q)}
	if d, decided := c.decideByName(q); decided {
		e.Steps = []Step{{Rule: cmp.Or(d.Rule, "name"), Effect: d.Effect, Matched: true, Why: d.Reason}}
		return e
	}
	lists, _ := c.decideByLists(q)
	e.Steps = lists.explain(q)
	rules := slices.SortedFunc(slices.Values(c.rules), func(a, b compiledRule) int { return cmp.Compare(a.position, b.position) })
	for i := range rules {
		e.Steps = append(e.Steps, rules[i].explain(q))
	}
	return e
}

func (r *Resolved) explain(q *namedRequest) []Step {
	denied := Step{Rule: "deny", Effect: Deny, Why: missed(denyList)}
	if d := r.decide(q.exposed, q.name); d.Rule == "deny" {
		denied.Matched, denied.Why = true, d.Reason
	}
	allowed := Step{Rule: "allow", Effect: Allow, Why: "there is no allow list"}
	if len(r.allow) > 0 {
		d := r.decideAllow(q.exposed)
		allowed.Matched, allowed.Why = d.Effect == Allow, d.Reason
	}
	return []Step{denied, allowed}
}

func (r *compiledRule) explain(q *namedRequest) Step {
	assumed := yes
	if r.decision.Effect == Deny {
		assumed = no
	}
	t, failed := r.holds(q, assumed)
	s := Step{Rule: r.decision.Rule, Effect: r.decision.Effect, Matched: r.applies(q, assumed)}
	switch t {
	case yes:
		s.Why = "all parts match"
	case unknown:
		s.Why = "unknown because of " + failed
	default:
		s.Why = failed + " does not match"
	}
	return s
}

// Warnings reports probable mistakes in a valid policy: an override that replaces the lists
// by nothing, unknown roles, and patterns that are empty, repeated, or have no effect because
// another pattern matches everything that they match. roles lists the roles that exist; if it
// is empty, every role may exist. A policy that [Compile] refuses has no warnings.
func (p *Policy) Warnings(roles ...string) []string {
	if _, err := Compile(p); err != nil || p == nil {
		return nil
	}
	w := &warnings{roles: roles}
	w.lists("", p.Allow, p.Deny, p.Deny)
	if p.Strict && len(p.Roles) == 0 {
		w.add("strict", "there are no role_overrides, so everything is denied")
	}
	for _, role := range slices.Sorted(maps.Keys(p.Roles)) {
		o, path := p.Roles[role], fmt.Sprintf("role_overrides[%q]", role)
		if !w.isRole(role) {
			w.add(path, "there is no such role")
		}
		denied := slices.Concat(p.Deny, o.Deny)
		if o.Mode == modeReplace {
			denied = o.Deny
			if len(o.Allow)+len(o.Deny) == 0 {
				w.add(path, "it replaces the lists by empty ones, which allow everything, including what the policy denies")
			}
		}
		w.lists(path+".", o.Allow, o.Deny, denied)
	}
	denied := compiled(p.Deny)
	for i := range p.Rules {
		w.rule(fmt.Sprintf("rules[%d]", i), denied, &p.Rules[i])
	}
	return w.list
}

type warnings struct {
	roles []string
	list  []string
}

func (w *warnings) add(path, format string, args ...any) {
	w.list = append(w.list, path+": "+fmt.Sprintf(format, args...))
}

func (w *warnings) isRole(role string) bool {
	return len(w.roles) == 0 || slices.Contains(w.roles, role)
}

// lists checks the two lists of a policy or override. denied holds the patterns that are
// denied there.
func (w *warnings) lists(path string, allow, deny, denied []string) {
	w.patterns(path+"allow", allow)
	w.patterns(path+"deny", deny)
	w.redundant(path+"allow", allow)
	w.redundant(path+"deny", deny)
	covers := compiled(denied)
	for i, pattern := range allow {
		if by, ok := covering(covers, pattern); ok {
			w.add(fmt.Sprintf("%sallow[%d]", path, i), "%q has no effect, because %q is denied", pattern, by)
		}
	}
}

// patterns checks the patterns of a list one by one.
func (w *warnings) patterns(path string, patterns []string) {
	first := make(map[string]int)
	for i, pattern := range patterns {
		path := fmt.Sprintf("%s[%d]", path, i)
		earlier, repeated := first[pattern]
		g := compileGlob(pattern)
		switch {
		case repeated:
			w.add(path, "%q repeats the pattern at index %d", pattern, earlier)
			continue
		case pattern == "":
			w.add(path, "an empty pattern matches only the empty name")
		case g.isVoid():
			w.add(path, "%q cannot match anything", pattern)
		}
		first[pattern] = i
	}
}

// redundant reports patterns of a list that another pattern of it covers.
func (w *warnings) redundant(path string, patterns []string) {
	if len(patterns) > maxTerms {
		return // the time is quadratic
	}
	all := compiled(patterns)
	for i, pattern := range patterns {
		others := slices.DeleteFunc(slices.Clone(all), func(other glob) bool { return other.pattern == pattern })
		if by, ok := covering(others, pattern); ok {
			w.add(fmt.Sprintf("%s[%d]", path, i), "%q is redundant because of %q", pattern, by)
		}
	}
}

// covering returns the first of the patterns that covers the other one.
func covering(patterns []glob, other string) (by string, ok bool) {
	inner := compileGlob(other)
	for i := range patterns {
		if patterns[i].covers(&inner) {
			return patterns[i].pattern, true
		}
	}
	return "", false
}

func compiled(patterns []string) []glob {
	all := make([]glob, len(patterns))
	for i, pattern := range patterns {
		all[i] = compileGlob(pattern)
	}
	return all
}

func (w *warnings) rule(path string, denied []glob, r *Rule) {
	for _, names := range [][]string{r.Names, r.Exposed} {
		allowed := func(name string) bool {
			_, covered := covering(denied, name)
			return !covered
		}
		if r.Effect != Deny && len(names) > 0 && !slices.ContainsFunc(names, allowed) {
			w.add(path, "it has no effect, because the deny list has all of its names")
		}
	}
	for _, m := range append([]Match{r.Match}, r.Unless...) {
		for _, list := range [][]string{m.Servers, m.Names, m.Exposed, m.Tags, m.Roles, m.Principals} {
			w.patterns(path, list)
		}
		for _, role := range m.Roles {
			if role != "" && !strings.ContainsAny(role, "*?[") && !w.isRole(role) {
				w.add(path, "there is no role %q", role)
			}
		}
	}
}
