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
	deny  []list
}

// A list is one list of patterns, with the reasons of decisions by it.
type list struct {
	globs   globs
	matched []string // the reason for each pattern
	missed  string
}

const denyList = "the deny list"

func newList(name string, g globs) list {
	l := list{globs: g, missed: missed(name)}
	for i := range g {
		l.matched = append(l.matched, fmt.Sprintf("%s has the pattern %q", name, g[i].pattern))
	}
	return l
}

func missed(name string) string { return "no pattern of " + name + " matches" }

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
		r.allow, r.deny = slices.Clone(base.allow), slices.Clone(base.deny)
	}
	name := "the allow list"
	if path != "" {
		name += " of the role"
	}
	if len(allow) > 0 {
		r.allow = append(r.allow, newList(name, allow))
	}
	if len(deny) > 0 {
		r.deny = append(r.deny, newList(denyList, deny))
	}
	return r, nil
}

// Allows reports whether the lists allow a name, such as that of a tool. It compares URIs in the given spelling only.
func (r *Resolved) Allows(name string) bool {
	given := spellings{given: name, canonical: name}
	return len(name) <= maxName && r.decide(given, given).Effect == Allow
}

// decide returns the decision of the lists. It has no Rule if there is no allow list and no
// deny pattern matches.
func (r *Resolved) decide(exposed, name spellings) Decision {
	reason, denied := r.denies(exposed)
	if !denied && name != exposed {
		reason, denied = r.denies(name)
	}
	if denied {
		return Decision{Effect: Deny, Rule: "deny", Reason: reason}
	}
	return r.decideAllow(exposed)
}

// denies reports whether a deny list has a pattern that matches, and which one.
func (r *Resolved) denies(name spellings) (reason string, denied bool) {
	for i := range r.deny {
		if matched, _ := r.deny[i].globs.findName(name); matched >= 0 {
			return r.deny[i].matched[matched], true
		}
	}
	return "", false
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
	l := listsJSON{Allow: [][]string{}, Deny: []string{}}
	for _, allow := range r.allow {
		l.Allow = append(l.Allow, allow.globs.patterns())
	}
	known := make(map[string]bool)
	for _, deny := range r.deny {
		for _, pattern := range deny.globs.patterns() {
			if !known[pattern] {
				known[pattern] = true
				l.Deny = append(l.Deny, pattern)
			}
		}
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
