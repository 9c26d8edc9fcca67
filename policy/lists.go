package policy

import (
	"encoding/json"
	"fmt"
	"slices"
)

// A Resolved holds the lists that apply to one role; see [Compiled.Resolve]. Its JSON is
// {"allow":[[…],…],"deny":[…]}: a pattern of each allow list must match, and no pattern of
// the deny list. It does not change, except by UnmarshalJSON, and may be used concurrently.
type Resolved struct {
	allow []list
	deny  list
}

// A list is one list of patterns, with the reasons of decisions by it.
type list struct {
	globs   globs
	matched []string // the reason for each pattern
	missed  string
}

func newList(name string, g globs) list {
	l := list{globs: g, missed: "no pattern of " + name + " matches"}
	for i := range g {
		l.matched = append(l.matched, fmt.Sprintf("%s has the pattern %q", name, g[i].pattern))
	}
	return l
}

// newResolved returns the lists of an override, restricted by the lists of base. base may be nil.
func newResolved(path string, o RoleOverride, base *Resolved) (*Resolved, error) {
	allow, err := compileGlobs(path+"allow", o.Allow, maxPatterns)
	if err != nil {
		return nil, err
	}
	deny, err := compileGlobs(path+"deny", o.Deny, maxPatterns)
	if err != nil {
		return nil, err
	}
	r := new(Resolved)
	if base != nil {
		r.allow = slices.Clone(base.allow)
		added := slices.DeleteFunc(deny, func(g glob) bool {
			return slices.ContainsFunc(base.deny.globs, func(b glob) bool { return b.pattern == g.pattern })
		})
		deny = slices.Concat(base.deny.globs, added)
	}
	name := "the allow list"
	if path != "" {
		name += " of the role"
	}
	if len(allow) > 0 {
		r.allow = append(r.allow, newList(name, allow))
	}
	r.deny = newList("the deny list", deny)
	return r, nil
}

// allows reports whether the lists allow a name.
func (r *Resolved) allows(name string) bool {
	given := spellings{given: name, canonical: name}
	return len(name) <= maxName && r.decide(given, given).Effect == Allow
}

// Filter returns the allowed names, in the given order. It compares URIs in the given spelling only.
func (r *Resolved) Filter(names []string) []string {
	allowed := make([]string, 0, len(names))
	for _, name := range names {
		if r.allows(name) {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// decide returns the decision of the lists. It has no Rule if there is no allow list and no
// deny pattern matches.
func (r *Resolved) decide(exposed, name spellings) Decision {
	i, _ := r.deny.globs.findName(exposed)
	if i < 0 && name != exposed {
		i, _ = r.deny.globs.findName(name)
	}
	if i >= 0 {
		return Decision{Effect: Deny, Rule: "deny", Reason: r.deny.matched[i]}
	}
	return r.decideAllow(exposed)
}

// decideAllow returns the decision of the allow lists alone.
func (r *Resolved) decideAllow(exposed spellings) Decision {
	d := Decision{Effect: Allow, Reason: "nothing denies it"}
	for i := range r.allow {
		matched, isCanonical := r.allow[i].globs.findName(exposed)
		if !isCanonical {
			return Decision{Effect: Deny, Rule: "allow", Reason: r.allow[i].missed}
		}
		d.Rule, d.Reason = "allow", r.allow[i].matched[matched]
	}
	return d
}

// listsJSON is the JSON of a [Resolved].
type listsJSON struct {
	Allow [][]string `json:"allow"`
	Deny  []string   `json:"deny"`
}

// MarshalJSON returns all lists.
func (r *Resolved) MarshalJSON() ([]byte, error) {
	l := listsJSON{Allow: [][]string{}, Deny: r.deny.globs.patterns()}
	for _, allow := range r.allow {
		l.Allow = append(l.Allow, allow.globs.patterns())
	}
	return json.Marshal(l)
}

// UnmarshalJSON accepts the result of MarshalJSON. It is as strict as [Parse].
func (r *Resolved) UnmarshalJSON(data []byte) error {
	l, err := parseLists(data)
	if err != nil {
		return err
	}
	read, err := newResolved("", RoleOverride{Deny: l.Deny}, nil)
	if err != nil {
		return err
	}
	for i, patterns := range l.Allow {
		g, err := compileGlobs(fmt.Sprintf("allow[%d]", i), patterns, maxPatterns)
		if err != nil {
			return err
		}
		read.allow = append(read.allow, newList("the allow list", g))
	}
	*r = *read
	return nil
}
