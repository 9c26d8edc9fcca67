package mcp

import "encoding/json"

// An EmptyObject says something by being there.
type EmptyObject struct {
	Extra Extra `json:",embed"`
}

// MarshalJSON returns the object as a JSON object.
func (e EmptyObject) MarshalJSON() ([]byte, error) {
	type fields EmptyObject
	return appendFields(nil, (*fields)(&e))
}

// UnmarshalJSON decodes the object; true, which some clients send for one, is taken for
// it. The error is a *[DecodeError].
func (e *EmptyObject) UnmarshalJSON(data []byte) error {
	if string(data) == "true" {
		*e = EmptyObject{}
		return nil
	}
	type fields EmptyObject
	return decode(data, (*fields)(e))
}

// ClientCapabilities are what a client can be asked for. An absent one must not
// be asked for.
type ClientCapabilities struct {
	// Roots: the client answers roots/list.
	Roots *RootsCapability `json:"roots,omitzero"`
	// Sampling: the client answers sampling/createMessage.
	Sampling *SamplingCapability `json:"sampling,omitzero"`
	// Elicitation: the client answers elicitation/create (since 2025-06-18).
	Elicitation *ElicitationCapability `json:"elicitation,omitzero"`
	// Tasks is kept as it came (2025-11-25 only).
	Tasks json.RawMessage `json:"tasks,omitzero"`
	// Experimental holds objects by names outside of the protocol.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Extensions holds the settings of extensions by their identifiers (since
	// 2026-07-28).
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
	Extra      Extra                      `json:",embed"`
}

// MarshalJSON returns the capabilities as a JSON object.
func (c ClientCapabilities) MarshalJSON() ([]byte, error) {
	type fields ClientCapabilities
	return appendFields(nil, (*fields)(&c))
}

// UnmarshalJSON decodes the capabilities. The error is a *[DecodeError].
func (c *ClientCapabilities) UnmarshalJSON(data []byte) error {
	type fields ClientCapabilities
	return decode(data, (*fields)(c))
}

// A RootsCapability is a client's answer to roots/list.
type RootsCapability struct {
	// ListChanged: the client tells of changes (until 2025-11-25).
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// MarshalJSON returns the capability as a JSON object.
func (r RootsCapability) MarshalJSON() ([]byte, error) {
	type fields RootsCapability
	return appendFields(nil, (*fields)(&r))
}

// UnmarshalJSON decodes the capability. The error is a *[DecodeError].
func (r *RootsCapability) UnmarshalJSON(data []byte) error {
	type fields RootsCapability
	return decode(data, (*fields)(r))
}

// A SamplingCapability is a client's answer to sampling/createMessage.
type SamplingCapability struct {
	// Context: includeContext may be other than none (since 2025-11-25).
	Context *EmptyObject `json:"context,omitzero"`
	// Tools: the request may carry tools (since 2025-11-25).
	Tools *EmptyObject `json:"tools,omitzero"`
	Extra Extra        `json:",embed"`
}

// MarshalJSON returns the capability as a JSON object.
func (s SamplingCapability) MarshalJSON() ([]byte, error) {
	type fields SamplingCapability
	return appendFields(nil, (*fields)(&s))
}

// UnmarshalJSON decodes the capability. The error is a *[DecodeError].
func (s *SamplingCapability) UnmarshalJSON(data []byte) error {
	type fields SamplingCapability
	return decode(data, (*fields)(s))
}

// An ElicitationCapability is a client's answer to elicitation/create. Without
// any mode it means forms only.
type ElicitationCapability struct {
	// Form: the person can be shown a form (since 2025-11-25).
	Form *EmptyObject `json:"form,omitzero"`
	// URL: the person can be sent to a URL (since 2025-11-25).
	URL   *EmptyObject `json:"url,omitzero"`
	Extra Extra        `json:",embed"`
}

// MarshalJSON returns the capability as a JSON object.
func (e ElicitationCapability) MarshalJSON() ([]byte, error) {
	type fields ElicitationCapability
	return appendFields(nil, (*fields)(&e))
}

// UnmarshalJSON decodes the capability. The error is a *[DecodeError].
func (e *ElicitationCapability) UnmarshalJSON(data []byte) error {
	type fields ElicitationCapability
	return decode(data, (*fields)(e))
}

// ServerCapabilities are what a server offers.
type ServerCapabilities struct {
	// Logging: the server can send log messages.
	Logging *LoggingCapability `json:"logging,omitzero"`
	// Completions: the server answers completion/complete (since 2025-03-26;
	// 2024-11-05 has no word for it).
	Completions *CompletionsCapability `json:"completions,omitzero"`
	Prompts     *PromptsCapability     `json:"prompts,omitzero"`
	Resources   *ResourcesCapability   `json:"resources,omitzero"`
	Tools       *ToolsCapability       `json:"tools,omitzero"`
	// Tasks is kept as it came (2025-11-25 only).
	Tasks json.RawMessage `json:"tasks,omitzero"`
	// Experimental holds objects by names outside of the protocol.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Extensions holds the settings of extensions by their identifiers (since
	// 2026-07-28).
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
	Extra      Extra                      `json:",embed"`
}

// MarshalJSON returns the capabilities as a JSON object.
func (s ServerCapabilities) MarshalJSON() ([]byte, error) {
	type fields ServerCapabilities
	return appendFields(nil, (*fields)(&s))
}

// UnmarshalJSON decodes the capabilities. The error is a *[DecodeError].
func (s *ServerCapabilities) UnmarshalJSON(data []byte) error {
	type fields ServerCapabilities
	return decode(data, (*fields)(s))
}

// A LoggingCapability says that a server can send log messages.
type LoggingCapability = EmptyObject

// A CompletionsCapability says that a server answers completion/complete.
type CompletionsCapability = EmptyObject

// A PromptsCapability says that a server offers prompts.
type PromptsCapability struct {
	// ListChanged: the server tells when their list changes.
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// MarshalJSON returns the capability as a JSON object.
func (p PromptsCapability) MarshalJSON() ([]byte, error) {
	type fields PromptsCapability
	return appendFields(nil, (*fields)(&p))
}

// UnmarshalJSON decodes the capability. The error is a *[DecodeError].
func (p *PromptsCapability) UnmarshalJSON(data []byte) error {
	type fields PromptsCapability
	return decode(data, (*fields)(p))
}

// A ResourcesCapability says that a server offers resources.
type ResourcesCapability struct {
	// Subscribe: a client can watch single resources.
	Subscribe bool `json:"subscribe,omitzero"`
	// ListChanged: the server tells when their list changes.
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// MarshalJSON returns the capability as a JSON object.
func (r ResourcesCapability) MarshalJSON() ([]byte, error) {
	type fields ResourcesCapability
	return appendFields(nil, (*fields)(&r))
}

// UnmarshalJSON decodes the capability. The error is a *[DecodeError].
func (r *ResourcesCapability) UnmarshalJSON(data []byte) error {
	type fields ResourcesCapability
	return decode(data, (*fields)(r))
}

// A ToolsCapability says that a server offers tools.
type ToolsCapability struct {
	// ListChanged: the server tells when their list changes.
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// MarshalJSON returns the capability as a JSON object.
func (t ToolsCapability) MarshalJSON() ([]byte, error) {
	type fields ToolsCapability
	return appendFields(nil, (*fields)(&t))
}

// UnmarshalJSON decodes the capability. The error is a *[DecodeError].
func (t *ToolsCapability) UnmarshalJSON(data []byte) error {
	type fields ToolsCapability
	return decode(data, (*fields)(t))
}
