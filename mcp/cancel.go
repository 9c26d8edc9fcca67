package mcp

import "github.com/dovetail-go/dovetail/jsonrpc"

// CancelledParams are those of notifications/cancelled: nobody waits for the
// answer to a request any more.
type CancelledParams struct {
	// RequestID is the request's. 2025-11-25 allows none, where a task is meant.
	RequestID jsonrpc.ID `json:"requestId,omitzero"`
	// Reason is for logs and people.
	Reason string `json:"reason,omitzero"`
	Meta   Meta   `json:"_meta,omitzero"`
	Extra  Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (c *CancelledParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields CancelledParams
	return appendFields(dst, (*fields)(c))
}

// MarshalJSON returns the parameters as a JSON object.
func (c CancelledParams) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (c *CancelledParams) UnmarshalJSON(data []byte) error {
	type fields CancelledParams
	return decode(data, (*fields)(c))
}
