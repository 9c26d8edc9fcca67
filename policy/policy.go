package policy

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dovetail-go/dovetail/mcp"
)

// Limits of a [Policy] and of the compared values.
const (
	// maxSize is the maximum size of a policy's JSON, in bytes.
	maxSize = 1 << 20
	// maxPatterns is the maximum number of patterns in an allow or deny list.
	maxPatterns = 10_000
	// maxPattern is the maximum length of a pattern, path or compared value, in bytes.
	maxPattern = 1024
	// maxRules is the maximum number of rules.
	maxRules = 1000
	// maxRoles is the maximum number of roles with overrides, and of roles of a caller.
	maxRoles = 1000
	// maxTerms is the maximum number of patterns in each list of a rule, of predicates of
	// its arguments, and of its exceptions.
	maxTerms = 256
	// maxName is the maximum length of a name, in bytes. An entry with a longer name is
	// denied.
	maxName = 8192
	// maxText is the maximum length of an argument that is compared with patterns, in bytes.
	// For a longer argument it is unknown whether it matches.
	maxText = 64 << 10
)

// A Policy is the source form of a policy; [Parse] reads it from JSON and [Compile] compiles
// it. The zero value allows everything.
//
// A policy has at most 1000 rules, 1000 roles with overrides, and 10,000 patterns in an allow or deny list. A rule has
// at most 256 patterns in each list, 256 predicates of arguments, and 256 exceptions. A pattern, path or compared value
// has at most 1024 bytes. An entry whose name has more than 8192 bytes is denied.
type Policy struct {
	// Allow lists patterns. If there are any, a name that matches none is denied. They are
	// compared with the names of tools and prompts, and with the URIs of resources and
	// templates, as callers see them.
	Allow []string `json:"allow,omitempty"`
	// Deny lists patterns of denied names; it takes precedence over everything except
	// Exempt. Patterns are compared with the names that callers see and with the names on
	// the upstream server.
	Deny []string `json:"deny,omitempty"`
	// Roles overrides Allow and Deny for callers with a role. If several of a caller's roles have overrides, a name is
	// denied that one of their deny lists matches, and else allowed if one override allows it.
	Roles map[string]RoleOverride `json:"role_overrides,omitempty"`
	// Strict denies everything to callers without a role in Roles. By default Allow and
	// Deny apply to them.
	Strict bool `json:"strict,omitempty"`
	// Rules lists the rules. Their order does not matter.
	Rules []Rule `json:"rules,omitempty"`
	// Exempt lists tools that are always allowed.
	Exempt []Exemption `json:"exempt,omitempty"`
}

// A RoleOverride changes the lists of a [Policy] for a role. It does not change the rules.
type RoleOverride struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Mode says how the override is combined with the lists of its policy. With "restrict", the default, a name is
	// denied that either deny list matches; if both have an allow list, both must match. With "replace", the lists of
	// the override are used instead; if both are empty, they deny nothing.
	Mode string `json:"mode,omitempty"`
}

// Modes of a [RoleOverride].
const (
	modeRestrict = "restrict"
	modeReplace  = "replace"
)

// An Exemption names one tool exactly. It is not a pattern, because a server could choose
// tool names that match one.
type Exemption struct {
	// Server is the alias of the server; see [mcp.Origin].
	Server string `json:"server"`
	// Tool is the name of the tool on that server.
	Tool string `json:"tool"`
}

// A Rule assigns an effect to the calls that it matches.
type Rule struct {
	// Name identifies the rule to people. It defaults to its index, such as rules[2].
	Name   string `json:"name,omitempty"`
	Effect Effect `json:"effect"`
	Match
	// Unless lists exceptions: the rule does not match what one of them matches.
	Unless []Match `json:"unless,omitempty"`
	// Reason is shown to a caller whose call the rule refuses.
	Reason string `json:"reason,omitempty"`
}

// A Match selects calls. All fields that are set must match; a list of patterns matches if
// one of them does. The zero value matches everything.
type Match struct {
	// Kinds lists kinds of entries.
	Kinds []mcp.Kind `json:"kinds,omitempty"`
	// Servers lists patterns for the alias of the server; see [mcp.Origin].
	Servers []string `json:"servers,omitempty"`
	// Names lists patterns for names on the upstream server, and for URIs.
	Names []string `json:"names,omitempty"`
	// Exposed lists patterns for the names that callers see.
	Exposed []string `json:"exposed,omitempty"`
	// Tags lists patterns, one of which must match one of the tags.
	Tags []string `json:"tags,omitempty"`
	// Annotations are the required hints of a tool.
	Annotations *Annotations `json:"annotations,omitempty"`
	// Roles lists patterns, one of which must match one of the caller's roles. A caller without a role has the empty
	// role, which * matches and ?* does not. The same applies to Principals.
	Roles []string `json:"roles,omitempty"`
	// Principals lists patterns for the caller's principal.
	Principals []string `json:"principals,omitempty"`
	// Arguments lists predicates, all of which must hold.
	Arguments []Argument `json:"arguments,omitempty"`
}

// Annotations are required values of a tool's hints. A hint that a trusted server does not
// set has its default in [mcp.ToolAnnotations]; a read-only tool is not destructive.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// An Argument is a predicate of one argument. At least one field other than Path must be
// set, and all that are set must hold. For a missing argument, only Present set to false
// holds.
//
// It is unknown whether a predicate holds for a value of another type, for a member that
// occurs twice, or for a member whose name differs in case only.
type Argument struct {
	// Path is a JSON Pointer (RFC 6901) into the arguments: "/path", "/lines/0".
	Path string `json:"path"`
	// Present requires that the argument exists, or that it does not. null exists.
	Present *bool `json:"present,omitempty"`
	// Equals is a string, number, boolean or null. Numbers of any size are compared exactly:
	// 1 equals 1.0, and 9007199254740993 does not equal 9007199254740992.
	Equals json.RawMessage `json:"equals,omitempty"`
	// Glob lists patterns, one of which must match the string. It is unknown whether a string of more than 64 KiB
	// matches.
	Glob []string `json:"glob,omitempty"`
	// Prefix lists prefixes, one of which the string must have. Paths are not cleaned:
	// "/tmp/../etc" has the prefix "/tmp/".
	Prefix []string `json:"prefix,omitempty"`
	// Min and Max are the inclusive bounds of a number.
	Min json.Number `json:"min,omitempty"`
	Max json.Number `json:"max,omitempty"`
}

// An Effect is the result of a decision. A smaller effect is stricter.
type Effect uint8

// The effects. The zero value denies.
const (
	Deny Effect = iota
	// Ask requires the approval of a person. [Guard] denies such calls.
	Ask
	Allow
)

// String returns deny, ask or allow.
func (e Effect) String() string {
	switch e {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	default:
		return "Effect(" + strconv.Itoa(int(e)) + ")"
	}
}

// MarshalText returns deny, ask or allow.
func (e Effect) MarshalText() ([]byte, error) {
	if e > Allow {
		return nil, fmt.Errorf("policy: there is no %v", e)
	}
	return []byte(e.String()), nil
}

// UnmarshalText accepts deny, ask and allow.
func (e *Effect) UnmarshalText(text []byte) error {
	for known := Deny; known <= Allow; known++ {
		if string(text) == known.String() {
			*e = known
			return nil
		}
	}
	return fmt.Errorf("expected allow, deny or ask, found %.60q", text)
}
