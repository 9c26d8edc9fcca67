package policy

import (
	"encoding/json"
	"fmt"
	"slices"
)

// An Effective is the lists that are for one role; see [Compiled.Resolve]. As JSON it is
// {"allow":[[…],…],"deny":[…]}: of each allow list a pattern must match, and of the deny
// list none. It does not change, but by UnmarshalJSON.
type Effective struct {
	allow []list
	deny  list
}

// A list is one list of patterns, with what to say when one matches.
type list struct {
	globs   globs
	index   index
	reasons []string
	miss    string
}

func newList(what string, g globs) list {
	l := list{globs: g, miss: "no pattern of " + what + " matches"}
	for i := range g {
		l.index.add(g[i].literal, i)
		l.reasons = append(l.reasons, fmt.Sprintf("%s has the pattern %q", what, g[i].pattern))
	}
	return l
}

// find returns one that matches, -1 if there is none.
func (l *list) find(name string) int {
	for i := range l.index.of(name) {
		if l.globs[i].match([]byte(name)) {
			return i
		}
	}
	return -1
}

// newEffective returns the lists of an override on top of those of base, if any.
func newEffective(path string, o RoleOverride, base *Effective) (*Effective, error) {
	allow, err := compileGlobs(path+"allow", o.Allow, MaxPatterns)
	if err != nil {
		return nil, err
	}
	deny, err := compileGlobs(path+"deny", o.Deny, MaxPatterns)
	if err != nil {
		return nil, err
	}
	e := new(Effective)
	if base != nil {
		e.allow = slices.Clone(base.allow)
		added := slices.DeleteFunc(deny, func(g glob) bool {
			return slices.ContainsFunc(base.deny.globs, func(b glob) bool { return b.pattern == g.pattern })
		})
		deny = slices.Concat(base.deny.globs, added)
	}
	of := ""
	if path != "" {
		of = " of the role"
	}
	if len(allow) > 0 {
		e.allow = append(e.allow, newList("the allow list"+of, allow))
	}
	e.deny = newList("the deny list", deny)
	return e, nil
}

// Allowed says whether the lists allow a name.
func (e *Effective) Allowed(name string) bool {
	return len(name) <= MaxName && e.decide(name, name).Effect == Allow
}

// Filter returns those of the names that are allowed, in their order.
func (e *Effective) Filter(names []string) []string {
	allowed := make([]string, 0, len(names))
	for _, name := range names {
		if e.Allowed(name) {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// decide says what the lists say. What they allow without having it listed has no rule.
func (e *Effective) decide(exposed, name string) Decision {
	at := e.deny.find(exposed)
	if at < 0 && name != exposed {
		at = e.deny.find(name)
	}
	if at >= 0 {
		return Decision{Effect: Deny, Rule: "deny", Reason: e.deny.reasons[at]}
	}
	d := Decision{Effect: Allow, Reason: "nothing denies it"}
	for i := range e.allow {
		at := e.allow[i].find(exposed)
		if at < 0 {
			return Decision{Effect: Deny, Rule: "allow", Reason: e.allow[i].miss}
		}
		d.Rule, d.Reason = "allow", e.allow[i].reasons[at]
	}
	return d
}

// lists are the JSON of an Effective.
type lists struct {
	Allow [][]string `json:"allow"`
	Deny  []string   `json:"deny"`
}

// MarshalJSON returns all of the lists.
func (e *Effective) MarshalJSON() ([]byte, error) {
	l := lists{Allow: [][]string{}, Deny: e.deny.globs.patterns()}
	for _, allow := range e.allow {
		l.Allow = append(l.Allow, allow.globs.patterns())
	}
	return json.Marshal(l)
}

// UnmarshalJSON takes what MarshalJSON returned, as strictly as [Parse].
func (e *Effective) UnmarshalJSON(data []byte) error {
	l, err := parseLists(data)
	if err != nil {
		return err
	}
	read, err := newEffective("", RoleOverride{Deny: l.Deny}, nil)
	if err != nil {
		return err
	}
	for i, patterns := range l.Allow {
		g, err := compileGlobs(fmt.Sprintf("allow[%d]", i), patterns, MaxPatterns)
		if err != nil {
			return err
		}
		read.allow = append(read.allow, newList("the allow list", g))
	}
	*e = *read
	return nil
}
