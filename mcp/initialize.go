package mcp

// InitializeParams are those of initialize, the handshake's first message (until
// 2025-11-25).
type InitializeParams struct {
	// ProtocolVersion is the newest one the client speaks.
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
	Meta            Meta               `json:"_meta,omitzero"`
	Extra           Extra              `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (i *InitializeParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields InitializeParams
	return appendFields(dst, (*fields)(i))
}

// MarshalJSON returns the parameters as a JSON object.
func (i InitializeParams) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (i *InitializeParams) UnmarshalJSON(data []byte) error {
	type fields InitializeParams
	return decode(data, (*fields)(i))
}

// An InitializeResult is the server's part of the handshake (until 2025-11-25).
type InitializeResult struct {
	// ProtocolVersion is the one to be spoken. A client that does not speak it
	// goes away.
	ProtocolVersion Version            `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	// Instructions tell a model how to use the server.
	Instructions string `json:"instructions,omitzero"`
	Meta         Meta   `json:"_meta,omitzero"`
	Extra        Extra  `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (i *InitializeResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields InitializeResult
	return appendFields(dst, (*fields)(i))
}

// MarshalJSON returns the result as a JSON object.
func (i InitializeResult) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (i *InitializeResult) UnmarshalJSON(data []byte) error {
	type fields InitializeResult
	return decode(data, (*fields)(i))
}
