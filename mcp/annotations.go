package mcp

// A Role is who speaks, or whom something is meant for.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Annotations tell a client how to use what they stand on.
type Annotations struct {
	// Audience is whom it is meant for, nobody in particular if empty.
	Audience []Role `json:"audience,omitzero"`
	// Priority is from 0, entirely optional, to 1, effectively required.
	Priority *float64 `json:"priority,omitzero"`
	// LastModified is a time in ISO 8601 (since 2025-06-18).
	LastModified string `json:"lastModified,omitzero"`
	Extra        Extra  `json:",embed"`
}

// MarshalJSON returns the annotations as a JSON object.
func (a Annotations) MarshalJSON() ([]byte, error) {
	type fields Annotations
	return appendFields(nil, (*fields)(&a))
}

// UnmarshalJSON decodes the annotations. The error is a *[DecodeError].
func (a *Annotations) UnmarshalJSON(data []byte) error {
	type fields Annotations
	return decode(data, (*fields)(a))
}
