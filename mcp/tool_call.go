package mcp

import "encoding/json"

// CallToolParams are those of tools/call.
type CallToolParams struct {
	Name string `json:"name"`
	// Arguments are a JSON object, sent as it stands here; nil is none.
	Arguments json.RawMessage `json:"arguments,omitzero"`
	InputAnswers
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (c *CallToolParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("name", c.Name)
	w.optionalRaw("arguments", c.Arguments)
	w.answers(c.InputAnswers)
	w.meta(c.Meta)
	return w.close(c.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (c CallToolParams) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (c *CallToolParams) UnmarshalJSON(data []byte) error {
	type fields CallToolParams
	return decode(data, (*fields)(c))
}

// A CallToolResult is what a tool has to say.
type CallToolResult struct {
	// Content is for the model; nil is sent as an empty list.
	Content ContentList `json:"content"`
	// StructuredContent is the result as data: an object since 2025-06-18, any
	// JSON value since 2026-07-28. It is sent as it stands here.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError: the tool has failed, and Content tells the model why.
	IsError    bool       `json:"isError,omitzero"`
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (c *CallToolResult) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	writeList(&w, "content", c.Content)
	w.optionalRaw("structuredContent", c.StructuredContent)
	w.flag("isError", c.IsError)
	w.optionalString("resultType", string(c.ResultType))
	w.meta(c.Meta)
	return w.close(c.Extra)
}

// MarshalJSON returns the result as a JSON object.
func (c CallToolResult) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (c *CallToolResult) UnmarshalJSON(data []byte) error {
	type fields CallToolResult
	return decode(data, (*fields)(c))
}
