package policy

import "github.com/dovetail-go/dovetail/mcp"

// A Decision is what becomes of a call, and why.
type Decision struct {
	Effect Effect
	// Rule is what decided: a rule's name, or "allow", "deny" or "exempt" for these lists
	// of a policy; "" if nothing did.
	Rule string
	// Reason says why, in words for the operator that make a sentence.
	Reason string
	// Told is what the rule has to say to the caller, "" if nothing.
	Told string
}

func (d Decision) String() string { return d.Effect.String() + ": " + d.Reason }

// Decide says what becomes of a call. It allocates nothing.
func (c *Compiled) Decide(q *Request) Decision {
	if d, decided := c.first(q); decided {
		return d
	}
	lists := c.Resolve(q.Role).decide(q.exposed(), q.name())
	if lists.Effect == Deny || len(c.rules) == 0 {
		return lists
	}
	strictest := c.strictest(q)
	switch {
	case strictest < c.allows:
		return c.rules[strictest].decision
	case lists.Rule != "":
		return lists
	case strictest < len(c.rules):
		return c.rules[strictest].decision
	}
	if q.Listed { // asking might come of other arguments
		for i := c.asks; i < c.allows; i++ {
			if c.rules[i].applies(q, yes) {
				return c.rules[i].decision
			}
		}
	}
	return Decision{Effect: Deny, Reason: "nothing allows it"}
}

// strictest returns the first rule that decides, or how many rules there are.
func (c *Compiled) strictest(q *Request) int {
	first := len(c.rules)
	look := func(x *index, text string) {
		for i := range x.of(text) {
			if i >= first {
				continue
			}
			assumed := yes
			if i < c.allows {
				assumed = no
			}
			if c.rules[i].applies(q, assumed) {
				first = i
			}
		}
	}
	look(&c.byName, q.name())
	look(&c.byExposed, q.exposed())
	look(&c.byServer, q.Target.Origin.Server)
	return first
}

// first is what comes before lists and rules.
func (c *Compiled) first(q *Request) (d Decision, decided bool) {
	switch {
	case len(q.name()) > MaxName || len(q.exposed()) > MaxName:
		return Decision{Effect: Deny, Reason: "the name is too long"}, true
	case c.isExempt(q):
		return Decision{Effect: Allow, Rule: "exempt", Reason: "the tool is exempt"}, true
	default:
		return Decision{}, false
	}
}

func (c *Compiled) isExempt(q *Request) bool {
	return len(c.exempt) > 0 && q.kind() == mcp.KindTool && c.exempt[Exemption{q.Target.Origin.Server, q.name()}]
}
