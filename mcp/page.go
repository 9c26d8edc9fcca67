package mcp

// PaginatedParams are those of every request for a list.
type PaginatedParams struct {
	// Cursor is the NextCursor of the page before, nil for the first page. It is
	// opaque, and "" is a cursor like any other.
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`
	Extra  Extra   `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (p *PaginatedParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields PaginatedParams
	return appendFields(dst, (*fields)(p))
}

// MarshalJSON returns the parameters as a JSON object.
func (p PaginatedParams) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (p *PaginatedParams) UnmarshalJSON(data []byte) error {
	type fields PaginatedParams
	return decode(data, (*fields)(p))
}

// A Page is what the result of a list has besides its entries.
type Page struct {
	// NextCursor asks for the next page, nil on the last.
	NextCursor *string `json:"nextCursor,omitzero"`
	CacheHint
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}
