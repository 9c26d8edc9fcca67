package mcp

import "encoding/json"

// A Tool is something a model can call, as it stands in a list.
type Tool struct {
	Name string `json:"name"`
	// Title is the name for people (since 2025-06-18).
	Title string `json:"title,omitzero"`
	// Description tells a model what the tool does.
	Description string `json:"description,omitzero"`
	// InputSchema is the JSON Schema of the arguments, with type object at its
	// root. It is sent as it stands here; nil is sent as that of any object.
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON Schema of the structured content: of an object
	// since 2025-06-18, of any value since 2026-07-28.
	OutputSchema json.RawMessage `json:"outputSchema,omitzero"`
	// Annotations exist since 2025-03-26.
	Annotations *ToolAnnotations `json:"annotations,omitzero"`
	// Execution exists in 2025-11-25 only.
	Execution *ToolExecution `json:"execution,omitzero"`
	// Icons are pictures for a user interface (since 2025-11-25).
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

func (t *Tool) field(name []byte) any {
	switch string(name) {
	case "name":
		return &t.Name
	case "title":
		return &t.Title
	case "description":
		return &t.Description
	case "inputSchema":
		return &t.InputSchema
	case "outputSchema":
		return &t.OutputSchema
	case "annotations":
		return &t.Annotations
	case "execution":
		return &t.Execution
	case "icons":
		return &t.Icons
	case "_meta":
		return &t.Meta
	}
	return &t.Extra
}

// ToolAnnotations are hints of a server about a tool (since 2025-03-26). They
// are not to be trusted unless the server is. nil stands for the default.
type ToolAnnotations struct {
	// Title is the name for people; Tool.Title comes before it.
	Title string `json:"title,omitzero"`
	// ReadOnlyHint: the tool changes nothing. Default false.
	ReadOnlyHint *bool `json:"readOnlyHint,omitzero"`
	// DestructiveHint: what it changes may be lost. Default true; it means
	// something only for a tool that is not read-only.
	DestructiveHint *bool `json:"destructiveHint,omitzero"`
	// IdempotentHint: the same call again changes nothing more. Default false;
	// it means something only for a tool that is not read-only.
	IdempotentHint *bool `json:"idempotentHint,omitzero"`
	// OpenWorldHint: the tool deals with things outside of the server. Default
	// true.
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
	return decodeList(data, "tools", &l.Tools, (*fields)(l))
}
