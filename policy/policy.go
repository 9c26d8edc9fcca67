package policy

// A Policy says who may call what, as people write it: see [Parse] for its JSON. The zero
// value allows everything; use [Compile].
type Policy struct {
	// Allow are patterns. If there are any, what none matches is denied. They are
	// compared with the names of tools and prompts, and the URIs of resources and
	// templates, as callers see them.
	Allow []string `json:"allow,omitempty"`
	// Deny are patterns of what is denied, whatever else is said. They are compared with
	// names as callers see them and as their servers do.
	Deny []string `json:"deny,omitempty"`
	// Roles change the two lists for those who have a role.
	Roles map[string]RoleOverride `json:"role_overrides,omitempty"`
	// Strict denies everything to whoever has no role among Roles. By default Allow and
	// Deny are for them.
	Strict bool `json:"strict,omitempty"`
	// Rules are about more than names. Their order does not matter.
	Rules []Rule `json:"rules,omitempty"`
	// Exempt are tools to which nothing of all this applies.
	Exempt []Exemption `json:"exempt,omitempty"`
}

// A RoleOverride changes the lists of a [Policy] for a role. Rules stay what they are.
type RoleOverride struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Mode is by default [Restrict].
	Mode Mode `json:"mode,omitempty"`
}

// A Mode is how a [RoleOverride] goes together with the lists of its policy.
type Mode string

// The modes.
const (
	// Restrict adds to them: what either deny list matches is denied, and of two allow
	// lists both must match.
	Restrict Mode = "restrict"
	// Replace puts its lists in their place. If both are empty, they deny nothing.
	Replace Mode = "replace"
)

// An Exemption names one tool, exactly: it is no pattern, since a server could give its
// tools names that begin as another's do.
type Exemption struct {
	// Server is the server's, as in [mcp.Origin].
	Server string `json:"server"`
	// Tool is the name that the server has for the tool.
	Tool string `json:"tool"`
}
