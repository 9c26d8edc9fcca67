package policy

import (
	"cmp"
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Request is what a policy decides about.
type Request struct {
	Subject
	// Target is what is called. Its kind is by default [mcp.KindTool]. Rules about servers
	// and names match its Origin: an entry of the server itself, whose Origin is zero, is of
	// the server "", has the name that callers use, and is trusted. Tags and annotations are
	// those of its Definition, and are believed if the Origin is trusted. Otherwise no rule
	// allows because of them, and every rule that denies or asks because of some applies.
	Target mcp.Target
	// URI is that of the resource where the target is one or a template that matches it. It
	// takes the place of the target's name. It is empty for lists.
	URI string
	// Arguments are an object, as it came; nil is none. They are for tools and prompts.
	Arguments json.RawMessage
	// Listed says that the arguments are not known, as when a list is made: the decision
	// is then the most lenient one that a call can get.
	Listed bool
}

// A Subject is a caller.
type Subject struct {
	// Role is the caller's, "" if there is none.
	Role string
	// Principal names the caller, "" if that is not known.
	Principal string
}

func (q *Request) kind() mcp.Kind {
	if q.URI != "" {
		return mcp.KindResource
	}
	return cmp.Or(q.Target.Kind, mcp.KindTool)
}

// name returns the name on the server that has the target.
func (q *Request) name() string { return cmp.Or(q.URI, q.Target.Origin.Name, q.Target.Name) }

// exposed returns the name that callers use.
func (q *Request) exposed() string { return cmp.Or(q.URI, q.Target.Name) }

// isTrusted reports whether the definition of the target may be believed.
func (q *Request) isTrusted() bool {
	return q.Target.Origin.Trusted || q.Target.Origin == mcp.Origin{}
}
