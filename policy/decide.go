package policy

import (
	"cmp"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Request describes the call that a policy decides about.
type Request struct {
	Subject
	// Target is the called entry. Its kind defaults to [mcp.KindTool]. Rules about servers and names match its Origin.
	// An entry of the server itself has a zero Origin: its server is "", its name is the public name, and it is
	// trusted. Rules read the tags and annotations of its Definition. If the Origin is not trusted, a rule about tags
	// or annotations applies if it denies or asks, and does not apply if it allows.
	Target mcp.Target
	// URI is the URI of the resource if the target is a resource or a template that matches
	// it; it replaces the target's name. It is empty for lists. Patterns are compared with the spelling that is given
	// and with the canonical one; see the package documentation.
	URI string
	// Arguments is the JSON object of the arguments of a tool or prompt; nil for none.
	Arguments json.RawMessage
	// Listed says that the arguments are not known, as for a list. The decision is then the
	// most lenient one that a call can get.
	Listed bool
}

// A Subject identifies a caller.
type Subject struct {
	// Roles are the caller's roles. A caller with more than 1,000 is denied everything.
	Roles []string
	// Principal identifies the caller, "" if it is not known.
	Principal string
}

func (q *Request) kind() mcp.Kind {
	if q.URI != "" {
		return mcp.KindResource
	}
	return cmp.Or(q.Target.Kind, mcp.KindTool)
}

// A namedRequest is a request with the names that patterns are compared with.
type namedRequest struct {
	*Request
	name    spellings // the name on the upstream server
	exposed spellings // the name that callers use
}

// spellings are the spellings of one name. They differ for URIs only.
type spellings struct {
	given     string
	canonical string
	isURI     bool
	isMatched bool // a template matches the URI, and may ignore its query and fragment
}

func (q *Request) named() namedRequest {
	n := namedRequest{Request: q}
	n.exposed.given = cmp.Or(q.URI, q.Target.Name)
	n.name.given = cmp.Or(q.URI, q.Target.Origin.Name, q.Target.Name)
	n.exposed.canonical, n.name.canonical = n.exposed.given, n.name.given
	switch q.kind() {
	case mcp.KindResource, mcp.KindResourceTemplate, mcp.KindSkill:
	default:
		return n
	}
	n.exposed.isURI, n.name.isURI = true, true
	n.exposed.isMatched = q.URI != "" && q.Target.Kind == mcp.KindResourceTemplate
	n.name.isMatched = n.exposed.isMatched
	if len(n.exposed.given) > maxName || len(n.name.given) > maxName {
		return n // it is denied
	}
	n.exposed.canonical = uritemplate.Equivalent(n.exposed.given)
	if n.name.canonical = n.exposed.canonical; n.name.given != n.exposed.given {
		n.name.canonical = uritemplate.Equivalent(n.name.given)
	}
	return n
}

// isTrusted reports whether the target's tags and annotations are trusted.
func (q *Request) isTrusted() bool {
	return q.Target.Origin.Trusted || q.Target.Origin == mcp.Origin{}
}

// A Decision is the effect of a policy on a call, with its reason.
type Decision struct {
	Effect Effect
	// Rule is the name of the rule that decided, or "allow", "deny" or "exempt" for these
	// lists of the policy, or "".
	Rule string
	// Reason explains the decision to the operator.
	Reason string
	// UserMessage is the Reason of the rule, which is shown to the caller; "" for none.
	UserMessage string
}

// String returns the effect and the reason.
func (d Decision) String() string { return d.Effect.String() + ": " + d.Reason }

// Decide decides about a call. It does not allocate, except for a URI that has percent signs or is not canonical.
func (c *Compiled) Decide(q *Request) Decision {
	named := q.named()
	return c.decide(&named)
}

func (c *Compiled) decide(q *namedRequest) Decision {
	if d, decided := c.decideByName(q); decided {
		return d
	}
	_, lists := c.decideByLists(q)
	if lists.Effect == Deny || len(c.rules) == 0 {
		return lists
	}
	for i := range c.rules { // strictest first
		r := &c.rules[i]
		if r.decision.Effect == Allow && lists.Rule != "" {
			return lists
		}
		assumed := no // for a list entry, some arguments may avoid a rule that denies or asks
		if r.decision.Effect == Allow {
			assumed = yes
		}
		if r.applies(q, assumed) {
			return r.decision
		}
	}
	if lists.Rule != "" {
		return lists
	}
	if q.Listed { // with some arguments, a rule may ask
		for i := range c.rules {
			if r := &c.rules[i]; r.decision.Effect == Ask && r.applies(q, yes) {
				return r.decision
			}
		}
	}
	return Decision{Effect: Deny, Reason: "nothing allows it"}
}

// decideByLists returns the lists that decide for the caller's roles, and their decision: what one denies is denied, and otherwise
// the most lenient decide.
func (c *Compiled) decideByLists(q *namedRequest) (lists *Resolved, best Decision) {
	for _, role := range q.Roles {
		r := c.roles[role]
		if r == nil {
			continue
		}
		d := r.decide(q.exposed, q.name)
		if d.Rule == "deny" {
			return r, d
		}
		if lists == nil || d.Effect > best.Effect || d.Effect == Allow && best.Rule == "" {
			lists, best = r, d
		}
	}
	if lists == nil {
		return c.defaultRole, c.defaultRole.decide(q.exposed, q.name)
	}
	return lists, best
}

// decideByName decides about exempt tools, and about names that are too long and too many roles.
func (c *Compiled) decideByName(q *namedRequest) (d Decision, decided bool) {
	switch {
	case len(q.name.given) > maxName || len(q.exposed.given) > maxName:
		return Decision{Effect: Deny, Reason: "the name is too long"}, true
	case len(q.Roles) > maxRoles:
		return Decision{Effect: Deny, Reason: "the caller has too many roles"}, true
	case q.kind() == mcp.KindTool && c.exempt[Exemption{q.Target.Origin.Server, q.name.given}]:
		return Decision{Effect: Allow, Rule: "exempt", Reason: "the tool is exempt"}, true
	default:
		return Decision{}, false
	}
}
