package mcp

import (
	"encoding/json"
)

// A Tool is a function that a model can call, as it is listed.
type Tool struct {
	Name string `json:"name"`
	// Title is shown to people (since 2025-06-18).
	Title string `json:"title,omitzero"`
	// Description explains the tool to a model.
	Description string `json:"description,omitzero"`
	// InputSchema is the JSON Schema of the arguments. The type of its root is object. It is sent
	// unchanged; nil is sent as the schema of any object.
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON Schema of the structured content: of an object since 2025-06-18, of
	// any value since 2026-07-28.
	OutputSchema json.RawMessage `json:"outputSchema,omitzero"`
	// Annotations exist since 2025-03-26.
	Annotations *ToolAnnotations `json:"annotations,omitzero"`
	// Execution exists in 2025-11-25 only.
	Execution *ToolExecution `json:"execution,omitzero"`
	// Icons are shown in user interfaces (since 2025-11-25).
	Icons []Icon `json:"icons,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// AppendJSON appends the tool as a JSON object.
func (t *Tool) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("name", t.Name)
	w.optionalString("title", t.Title)
	w.optionalString("description", t.Description)
	if t.InputSchema == nil {
		w.raw("inputSchema", json.RawMessage(`{"type":"object"}`))
	} else {
		w.raw("inputSchema", t.InputSchema)
	}
	w.optionalRaw("outputSchema", t.OutputSchema)
	optional(&w, "annotations", t.Annotations)
	optional(&w, "execution", t.Execution)
	w.icons(t.Icons)
	w.meta(t.Meta)
	return w.close(t.Extra)
}

// MarshalJSON returns the tool as a JSON object.
func (t Tool) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON decodes the tool. The error is a *[DecodeError].
func (t *Tool) UnmarshalJSON(data []byte) error {
	type fields Tool
	return decode(data, (*fields)(t))
}

// ToolAnnotations are hints of a server about a tool (since 2025-03-26). Rely on them only if the
// server is trusted. nil means the default.
type ToolAnnotations struct {
	// Title is shown to people. Tool.Title takes precedence.
	Title string `json:"title,omitzero"`
	// ReadOnlyHint: the tool changes nothing. Default: false.
	ReadOnlyHint *bool `json:"readOnlyHint,omitzero"`
	// DestructiveHint: the tool may delete or overwrite data. Default: true. It applies to tools
	// that are not read-only.
	DestructiveHint *bool `json:"destructiveHint,omitzero"`
	// IdempotentHint: repeating a call has no further effect. Default: false. It applies to tools
	// that are not read-only.
	IdempotentHint *bool `json:"idempotentHint,omitzero"`
	// OpenWorldHint: the tool interacts with things outside of the server. Default: true.
	OpenWorldHint *bool `json:"openWorldHint,omitzero"`
	Extra         Extra `json:",embed"`
}

// MarshalJSON returns the annotations as a JSON object.
func (t ToolAnnotations) MarshalJSON() ([]byte, error) {
	type fields ToolAnnotations
	return appendFields(nil, (*fields)(&t))
}

// UnmarshalJSON decodes the annotations. The error is a *[DecodeError].
func (t *ToolAnnotations) UnmarshalJSON(data []byte) error {
	type fields ToolAnnotations
	return decode(data, (*fields)(t))
}

// ToolExecution says how a tool can be run (2025-11-25 only).
type ToolExecution struct {
	// TaskSupport is forbidden, optional or required; "" means forbidden.
	TaskSupport string `json:"taskSupport,omitzero"`
	Extra       Extra  `json:",embed"`
}

// MarshalJSON returns the object as a JSON object.
func (t ToolExecution) MarshalJSON() ([]byte, error) {
	type fields ToolExecution
	return appendFields(nil, (*fields)(&t))
}

// UnmarshalJSON decodes the object. The error is a *[DecodeError].
func (t *ToolExecution) UnmarshalJSON(data []byte) error {
	type fields ToolExecution
	return decode(data, (*fields)(t))
}

// A ListToolsResult is one page of a server's tools.
type ListToolsResult struct {
	Tools []Tool `json:"tools"`
	Page
}

// AppendJSON appends the result as a JSON object.
func (l *ListToolsResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields ListToolsResult
	return appendFields(dst, (*fields)(l))
}

// MarshalJSON returns the result as a JSON object.
func (l ListToolsResult) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (l *ListToolsResult) UnmarshalJSON(data []byte) error {
	type fields ListToolsResult
	return decode(data, (*fields)(l))
}

// CallToolParams are the parameters of tools/call.
type CallToolParams struct {
	Name string `json:"name"`
	// Arguments are a JSON object, sent unchanged, or nil.
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

// A CallToolResult is the result of a tool.
type CallToolResult struct {
	// Content is for the model. nil is sent as an empty list.
	Content ContentList `json:"content"`
	// StructuredContent is the result as data: an object since 2025-06-18, any JSON value since
	// 2026-07-28. It is sent unchanged.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError: the tool has failed, and Content tells the model why.
	IsError    bool       `json:"isError,omitzero"`
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// Text returns the text of the content, as [ContentList.Text] does. The text of a failed call
// describes the failure.
func (c *CallToolResult) Text() string { return c.Content.Text() }

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
