package mcp

// A DiscoverResult says what a server is and does (since 2026-07-28). Who the
// server is stands in Meta, under [MetaServerInfo].
type DiscoverResult struct {
	SupportedVersions []Version          `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	// Instructions tell a model how to use the server.
	Instructions string `json:"instructions,omitzero"`
	CacheHint
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (d *DiscoverResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields DiscoverResult
	return appendFields(dst, (*fields)(d))
}

// MarshalJSON returns the result as a JSON object.
func (d DiscoverResult) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (d *DiscoverResult) UnmarshalJSON(data []byte) error {
	type fields DiscoverResult
	return decode(data, (*fields)(d))
}
