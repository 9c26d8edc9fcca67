package mcp

import (
	"encoding/json"
)

// InitializeParams are the parameters of initialize, the first message of the handshake (until
// 2025-11-25).
type InitializeParams struct {
	// ProtocolVersion is the newest version that the client supports.
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
	Meta            Meta               `json:"_meta,omitzero"`
	Extra           Extra              `json:",embed"`
}

// An InitializeResult is the server's answer to initialize (until 2025-11-25).
type InitializeResult struct {
	// ProtocolVersion is the version of the session. A client that does not support it disconnects.
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	// Instructions explain to a model how to use the server.
	Instructions string `json:"instructions,omitzero"`
	Meta         Meta   `json:"_meta,omitzero"`
	Extra        Extra  `json:",embed"`
}

// A DiscoverResult describes a server (since 2026-07-28). The name and version of the server are in
// Meta, under [MetaServerInfo].
type DiscoverResult struct {
	SupportedVersions []Version          `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	// Instructions explain to a model how to use the server.
	Instructions string `json:"instructions,omitzero"`
	CacheHint
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// An Implementation is the name and version of a client or server. It is not verified: do not base
// decisions on it.
type Implementation struct {
	Name string `json:"name"`
	// Title is shown to people (since 2025-06-18).
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
	// Description explains the program (since 2025-11-25).
	Description string `json:"description,omitzero"`
	// WebsiteURL has more information (since 2025-11-25).
	WebsiteURL string `json:"websiteUrl,omitzero"`
	// Icons are shown in user interfaces (since 2025-11-25).
	Icons []Icon `json:"icons,omitzero"`
	Extra Extra  `json:",embed"`
}

// An Icon is an image for a user interface (since 2025-11-25).
type Icon struct {
	// Src is an https or data URI. Programs that show icons must reject other schemes.
	Src      string `json:"src"`
	MIMEType string `json:"mimeType,omitzero"`
	// Sizes are the suitable sizes, such as "48x48", or "any" for a scalable image. Empty means
	// any.
	Sizes []string `json:"sizes,omitzero"`
	// Theme is the background that the icon is made for; "" means any.
	Theme IconTheme `json:"theme,omitzero"`
	Extra Extra     `json:",embed"`
}

// An IconTheme is the background that an icon is made for.
type IconTheme string

// The themes of icons.
const (
	IconLight IconTheme = "light"
	IconDark  IconTheme = "dark"
)

// An EmptyObject is a capability without settings.
type EmptyObject struct {
	Extra Extra `json:",embed"`
}

// UnmarshalJSON decodes the object. It also accepts true, which some clients send. The error is a
// *[DecodeError].
func (e *EmptyObject) UnmarshalJSON(data []byte) error {
	if string(data) == "true" {
		*e = EmptyObject{}
		return nil
	}
	type fields EmptyObject
	return decode(data, (*fields)(e))
}

// ClientCapabilities are the questions that a client can answer. A server must not ask others.
type ClientCapabilities struct {
	// Roots: the client answers roots/list.
	Roots *RootsCapability `json:"roots,omitzero"`
	// Sampling: the client answers sampling/createMessage.
	Sampling *SamplingCapability `json:"sampling,omitzero"`
	// Elicitation: the client answers elicitation/create (since 2025-06-18).
	Elicitation *ElicitationCapability `json:"elicitation,omitzero"`
	// Tasks is raw JSON (2025-11-25 only).
	Tasks json.RawMessage `json:"tasks,omitzero"`
	// Experimental holds objects by names that the protocol does not define.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Extensions holds the settings of extensions by identifier. 2026-07-28 defines it. Older
	// versions ignore unknown members, and real programs send it in all of them.
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
	Extra      Extra                      `json:",embed"`
}

// A RootsCapability means that a client answers roots/list.
type RootsCapability struct {
	// ListChanged: the client sends notifications of changes (until 2025-11-25).
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// A SamplingCapability means that a client answers sampling/createMessage.
type SamplingCapability struct {
	// Context: includeContext may have other values than none (since 2025-11-25).
	Context *EmptyObject `json:"context,omitzero"`
	// Tools: the request may have tools (since 2025-11-25).
	Tools *EmptyObject `json:"tools,omitzero"`
	Extra Extra        `json:",embed"`
}

// An ElicitationCapability means that a client answers elicitation/create. Without any mode it
// supports forms only.
type ElicitationCapability struct {
	// Form: the client can show a form (since 2025-11-25).
	Form *EmptyObject `json:"form,omitzero"`
	// URL: the client can send the user to a URL (since 2025-11-25).
	URL   *EmptyObject `json:"url,omitzero"`
	Extra Extra        `json:",embed"`
}

// ServerCapabilities are the features that a server offers.
type ServerCapabilities struct {
	// Logging: the server can send log messages.
	Logging *EmptyObject `json:"logging,omitzero"`
	// Completions: the server answers completion/complete (since 2025-03-26; 2024-11-05 does not
	// declare it).
	Completions *EmptyObject         `json:"completions,omitzero"`
	Prompts     *PromptsCapability   `json:"prompts,omitzero"`
	Resources   *ResourcesCapability `json:"resources,omitzero"`
	Tools       *ToolsCapability     `json:"tools,omitzero"`
	// Tasks is raw JSON (2025-11-25 only).
	Tasks json.RawMessage `json:"tasks,omitzero"`
	// Experimental holds objects by names that the protocol does not define.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Extensions holds the settings of extensions by identifier. 2026-07-28 defines it. Older
	// versions ignore unknown members, and real programs send it in all of them.
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
	Extra      Extra                      `json:",embed"`
}

// A PromptsCapability means that a server offers prompts.
type PromptsCapability struct {
	// ListChanged: the server sends a notification when the list changes.
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// A ResourcesCapability means that a server offers resources.
type ResourcesCapability struct {
	// Subscribe: clients can subscribe to single resources.
	Subscribe bool `json:"subscribe,omitzero"`
	// ListChanged: the server sends a notification when the list changes.
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// A ToolsCapability means that a server offers tools.
type ToolsCapability struct {
	// ListChanged: the server sends a notification when the list changes.
	ListChanged bool  `json:"listChanged,omitzero"`
	Extra       Extra `json:",embed"`
}

// A HandshakeError is the error of a client that could not open a session with a server, although the server has answered: it
// has refused the handshake, its answer is invalid, or it speaks no version that the client accepts. A server that was not
// reached, has ended or did not answer is another error.
type HandshakeError struct {
	// Supported are the versions of the server, as far as it has named them.
	Supported []Version
	// Err is the reason.
	Err error
}

// Error returns the text of Err.
func (e *HandshakeError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }
