package mcp

import "encoding/json"

// ToolUseContent is a model's wish to call a tool, in sampling (since
// 2025-11-25).
type ToolUseContent struct {
	// ID names the use; the [ToolResultContent] that answers it repeats it.
	ID string `json:"id"`
	// Name is the tool's.
	Name string `json:"name"`
	// Input is the JSON object of the arguments; nil is sent as an empty one.
	Input json.RawMessage `json:"input"`
	Meta  Meta            `json:"_meta,omitzero"`
	Extra Extra           `json:",embed"`
}

func (*ToolUseContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (t *ToolUseContent) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeToolUse)
	w.string("id", t.ID)
	w.string("name", t.Name)
	if t.Input == nil {
		w.raw("input", json.RawMessage("{}"))
	} else {
		w.raw("input", t.Input)
	}
	w.meta(t.Meta)
	return w.close(t.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (t ToolUseContent) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (t *ToolUseContent) UnmarshalJSON(data []byte) error {
	type fields ToolUseContent
	return decodeTyped(data, (*fields)(t))
}

// ToolResultContent is what a tool said that a model wished to call, in sampling
// (since 2025-11-25).
type ToolResultContent struct {
	// ToolUseID is that of the [ToolUseContent].
	ToolUseID string `json:"toolUseId"`
	// Content holds no tool uses and tool results.
	Content ContentList `json:"content"`
	// StructuredContent is the result as data: an object, any JSON value since
	// 2026-07-28.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	IsError           bool            `json:"isError,omitzero"`
	Meta              Meta            `json:"_meta,omitzero"`
	Extra             Extra           `json:",embed"`
}

func (*ToolResultContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (t *ToolResultContent) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeToolResult)
	w.string("toolUseId", t.ToolUseID)
	writeList(&w, "content", t.Content)
	w.optionalRaw("structuredContent", t.StructuredContent)
	w.flag("isError", t.IsError)
	w.meta(t.Meta)
	return w.close(t.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (t ToolResultContent) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (t *ToolResultContent) UnmarshalJSON(data []byte) error {
	// The same fields, but content that cannot nest.
	type fields struct {
		ToolUseID         string          `json:"toolUseId"`
		Content           toolContent     `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
		IsError           bool            `json:"isError,omitzero"`
		Meta              Meta            `json:"_meta,omitzero"`
		Extra             Extra           `json:",embed"`
	}
	var f fields
	if err := decodeTyped(data, &f); err != nil {
		return err
	}
	*t = ToolResultContent{
		ToolUseID: f.ToolUseID, Content: ContentList(f.Content), StructuredContent: f.StructuredContent,
		IsError: f.IsError, Meta: f.Meta, Extra: f.Extra,
	}
	return nil
}
