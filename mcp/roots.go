package mcp

// A Root is a directory or file that a client has opened to a server.
// Deprecated by the protocol in 2026-07-28.
type Root struct {
	// URI is a file URI.
	URI  string `json:"uri"`
	Name string `json:"name,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// MarshalJSON returns the root as a JSON object.
func (r Root) MarshalJSON() ([]byte, error) {
	type fields Root
	return appendFields(nil, (*fields)(&r))
}

// UnmarshalJSON decodes the root. The error is a *[DecodeError].
func (r *Root) UnmarshalJSON(data []byte) error {
	type fields Root
	return decode(data, (*fields)(r))
}

// A ListRootsResult is a client's answer to roots/list.
type ListRootsResult struct {
	Roots []Root `json:"roots"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (l *ListRootsResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields ListRootsResult
	return appendFields(dst, (*fields)(l))
}

// MarshalJSON returns the result as a JSON object.
func (l ListRootsResult) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (l *ListRootsResult) UnmarshalJSON(data []byte) error {
	type fields ListRootsResult
	return decode(data, (*fields)(l))
}
