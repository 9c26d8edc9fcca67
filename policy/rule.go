package policy

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Rule says what becomes of the calls that it matches.
type Rule struct {
	// Name is for people. By default its place, such as rules[2].
	Name   string `json:"name,omitempty"`
	Effect Effect `json:"effect"`
	Match
	// Unless are exceptions: what any of them matches, the rule does not.
	Unless []Match `json:"unless,omitempty"`
	// Reason is told to a caller who is refused by the rule.
	Reason string `json:"reason,omitempty"`
}

// A Match is what a rule is about. All that is set must hold; of a list of patterns one
// must match. The zero value matches everything.
type Match struct {
	// Kinds are of what is called.
	Kinds []mcp.Kind `json:"kinds,omitempty"`
	// Servers are patterns of servers, as in [mcp.Origin].
	Servers []string `json:"servers,omitempty"`
	// Names are patterns of the names that servers have for their tools and prompts, and
	// of URIs.
	Names []string `json:"names,omitempty"`
	// Exposed are patterns of the names that callers see.
	Exposed []string `json:"exposed,omitempty"`
	// Tags are patterns of which one must match one of the tags.
	Tags []string `json:"tags,omitempty"`
	// Annotations are of tools.
	Annotations *Annotations `json:"annotations,omitempty"`
	// Roles are patterns of the caller's role. One who has none has the empty role, which
	// * matches and ?* does not; so it is with principals.
	Roles []string `json:"roles,omitempty"`
	// Principals are patterns of the caller's principal.
	Principals []string `json:"principals,omitempty"`
	// Arguments are predicates of which all must hold.
	Arguments []Argument `json:"arguments,omitempty"`
}

// Annotations are what hints of a tool must be. Where a trusted server gives none, it has
// those of [mcp.ToolAnnotations] by default; a tool that is read-only is not destructive.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// An Argument is a predicate of one argument. All that is set must hold, and at least one
// must be. Of an argument that is not there, nothing holds but Present being false.
//
// It cannot be told whether a predicate holds of a value of another type, or of one that
// others may read otherwise: a member given twice on the way, or in another case.
type Argument struct {
	// Path is a JSON Pointer (RFC 6901) into the arguments: "/path", "/lines/0".
	Path string `json:"path"`
	// Present is whether there is such an argument. null is one.
	Present *bool `json:"present,omitempty"`
	// Equals is a string, number, boolean or null. Numbers are compared exactly, of
	// whatever size: 1 is 1.0, and 9007199254740993 is not 9007199254740992.
	Equals json.RawMessage `json:"equals,omitempty"`
	// Glob are patterns of which a string must match one.
	Glob []string `json:"glob,omitempty"`
	// Prefix are texts of which a string must begin with one. Paths are not cleaned:
	// "/tmp/../etc" begins with "/tmp/".
	Prefix []string `json:"prefix,omitempty"`
	// Min and Max bound a number. Both are within.
	Min json.Number `json:"min,omitempty"`
	Max json.Number `json:"max,omitempty"`
}
