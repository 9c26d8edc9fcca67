package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Warnings says what in a policy is lawful, and hardly meant: an override that replaces
// the lists by nothing, roles that nobody has, patterns that are empty, given twice, or
// without effect since others match all that they do. roles are those that there are, if
// they are known. A policy that [Compile] refuses has no warnings.
func (p *Policy) Warnings(roles ...string) []string {
	if _, err := Compile(p); err != nil || p == nil {
		return nil
	}
	w := &warnings{roles: roles}
	base := p.Deny
	w.lists("", p.Allow, p.Deny, p.Deny)
	if p.Strict && len(p.Roles) == 0 {
		w.add("strict", "there are no role_overrides, and so everything is denied")
	}
	for _, role := range slices.Sorted(maps.Keys(p.Roles)) {
		o, where := p.Roles[role], fmt.Sprintf("role_overrides[%q]", role)
		if !w.isRole(role) {
			w.add(where, "there is no such role")
		}
		denied := o.Deny
		if o.Mode == Replace {
			if len(o.Allow)+len(o.Deny) == 0 {
				w.add(where, "it replaces the lists by none, which denies nothing, not even what the policy denies")
			}
		} else {
			denied = slices.Concat(base, o.Deny)
		}
		w.lists(where+".", o.Allow, o.Deny, denied)
	}
	for i := range p.Rules {
		w.rule(fmt.Sprintf("rules[%d]", i), p, &p.Rules[i])
	}
	return w.list
}

type warnings struct {
	roles []string
	list  []string
}

func (w *warnings) add(where, format string, args ...any) {
	w.list = append(w.list, where+": "+fmt.Sprintf(format, args...))
}

func (w *warnings) isRole(role string) bool {
	return len(w.roles) == 0 || slices.Contains(w.roles, role)
}

// lists looks at the two lists that are given in one place, and what is denied there.
func (w *warnings) lists(where string, allow, deny, denied []string) {
	w.patterns(where+"allow", allow)
	w.patterns(where+"deny", deny)
	w.redundant(where+"allow", allow)
	w.redundant(where+"deny", deny)
	for i, pattern := range allow {
		if by, ok := covering(denied, pattern); ok {
			w.add(fmt.Sprintf("%sallow[%d]", where, i), "%q is never reached, since %q is denied", pattern, by)
		}
	}
}

// patterns looks at one list.
func (w *warnings) patterns(where string, patterns []string) {
	first := make(map[string]int)
	for i, pattern := range patterns {
		where := fmt.Sprintf("%s[%d]", where, i)
		earlier, twice := first[pattern]
		g := compileGlob(pattern)
		switch {
		case twice:
			w.add(where, "%q is given twice, at %d too", pattern, earlier)
			continue
		case pattern == "":
			w.add(where, "an empty pattern matches the empty name only")
		case g.isVoid():
			w.add(where, "%q cannot match anything", pattern)
		}
		first[pattern] = i
	}
}

// redundant looks for patterns of one list that another makes needless.
func (w *warnings) redundant(where string, patterns []string) {
	if len(patterns) > MaxTerms {
		return // it takes time quadratic in their number
	}
	for i, pattern := range patterns {
		others := slices.DeleteFunc(slices.Clone(patterns), func(other string) bool { return other == pattern })
		if by, ok := covering(others, pattern); ok {
			w.add(fmt.Sprintf("%s[%d]", where, i), "%q adds nothing to %q", pattern, by)
		}
	}
}

// covering returns the first of the patterns that matches all that the other does.
func covering(patterns []string, other string) (by string, ok bool) {
	inner := compileGlob(other)
	for _, pattern := range patterns {
		if outer := compileGlob(pattern); outer.covers(&inner) {
			return pattern, true
		}
	}
	return "", false
}

func (w *warnings) rule(where string, p *Policy, r *Rule) {
	if r.Effect != Deny {
		for _, names := range [][]string{r.Names, r.Exposed} {
			reached := len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
				_, denied := covering(p.Deny, name)
				return !denied
			})
			if !reached {
				w.add(where, "it is never reached, since deny has all of its names")
			}
		}
	}
	for _, m := range append([]Match{r.Match}, r.Unless...) {
		for _, list := range [][]string{m.Servers, m.Names, m.Exposed, m.Tags, m.Roles, m.Principals} {
			w.patterns(where, list)
		}
		for _, role := range m.Roles {
			if role != "" && !strings.ContainsAny(role, "*?[") && !w.isRole(role) {
				w.add(where, "there is no role %q", role)
			}
		}
	}
}
