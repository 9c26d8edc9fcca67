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
	InputSchema json.RawMessage `json:"inputSchema" nil:"{\"type\":\"object\"}"`
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

// ToolExecution says how a tool can be run (2025-11-25 only).
type ToolExecution struct {
	// TaskSupport is forbidden, optional or required; "" means forbidden.
	TaskSupport string `json:"taskSupport,omitzero"`
	Extra       Extra  `json:",embed"`
}

// A ListToolsResult is one page of a server's tools.
type ListToolsResult struct {
	Tools []Tool `json:"tools"`
	Page
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
