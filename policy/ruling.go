package policy

import (
	"cmp"
	"fmt"
)

// A ruling is a compiled [Rule].
type ruling struct {
	place    int // among the policy's rules
	match    match
	unless   []match
	decision Decision
}

func compileRule(place int, r *Rule) (c ruling, err error) {
	path := fmt.Sprintf("rules[%d]", place)
	switch {
	case r.Effect > Allow:
		return c, &CompileError{path + ".effect", "expected allow, deny or ask"}
	case len(r.Unless) > MaxTerms:
		return c, &CompileError{path + ".unless", fmt.Sprintf("there are %d, and may be %d", len(r.Unless), MaxTerms)}
	}
	if err := cmp.Or(checkText(r.Name), checkText(r.Reason)); err != nil {
		return c, &CompileError{path, "its name or reason: " + err.Error()}
	}
	c = ruling{place: place, decision: Decision{Effect: r.Effect, Rule: r.Name, Told: r.Reason}}
	if r.Name == "" {
		c.decision.Rule = path
	}
	c.decision.Reason = fmt.Sprintf("the rule %q matches", c.decision.Rule)
	if c.match, err = compileMatch(path, &r.Match); err != nil {
		return c, err
	}
	for i := range r.Unless {
		label := fmt.Sprintf("unless[%d]", i)
		exception, err := compileMatch(path+"."+label, &r.Unless[i])
		if err != nil {
			return c, err
		}
		exception.label = label
		c.unless = append(c.unless, exception)
	}
	return c, nil
}

// applies says whether the rule decides. Where that cannot be told, it does if it is not
// one that allows.
func (r *ruling) applies(q *Request, assumed truth) bool {
	t, _ := r.holds(q, assumed)
	return t == yes || t == unknown && r.decision.Effect != Allow
}

// holds says whether a rule matches, and if not, because of what.
func (r *ruling) holds(q *Request, assumed truth) (t truth, because string) {
	t, because = r.match.holds(q, assumed)
	for i := range r.unless {
		if t == no {
			break
		}
		exception, _ := r.unless[i].holds(q, assumed.not())
		if left := exception.not(); left < t {
			t, because = left, r.unless[i].label
		}
	}
	return t, because
}
