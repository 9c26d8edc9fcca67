package mcp

import (
	"encoding/json"
)

// TextContent is text.
type TextContent struct {
	Text        string       `json:"text"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Text returns a block with text.
func Text(text string) *TextContent { return &TextContent{Text: text} }

func (*TextContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (t *TextContent) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeText)
	w.string("text", t.Text)
	optional(&w, "annotations", t.Annotations)
	w.meta(t.Meta)
	return w.close(t.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (t TextContent) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (t *TextContent) UnmarshalJSON(data []byte) error {
	type fields TextContent
	return decodeTyped(data, (*fields)(t))
}

// ImageContent is an image.
type ImageContent struct {
	// Data is the image, which is sent in base64.
	Data        []byte       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Image returns a block with an image. It retains data.
func Image(data []byte, mimeType string) *ImageContent {
	return &ImageContent{Data: data, MIMEType: mimeType}
}

func (*ImageContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (i *ImageContent) AppendJSON(dst []byte) ([]byte, error) { return i.appendAs(dst, typeImage) }

// appendAs appends a block of a type that has the same fields as an image.
func (i *ImageContent) appendAs(dst []byte, kind string) ([]byte, error) {
	w := openObject(dst)
	w.string("type", kind)
	w.base64("data", i.Data)
	w.string("mimeType", i.MIMEType)
	optional(&w, "annotations", i.Annotations)
	w.meta(i.Meta)
	return w.close(i.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (i ImageContent) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (i *ImageContent) UnmarshalJSON(data []byte) error {
	type fields ImageContent
	return decodeTyped(data, (*fields)(i))
}

// AudioContent is audio (since 2025-03-26).
type AudioContent struct {
	// Data is the audio, which is sent in base64.
	Data        []byte       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Audio returns a block with audio. It retains data.
func Audio(data []byte, mimeType string) *AudioContent {
	return &AudioContent{Data: data, MIMEType: mimeType}
}

func (*AudioContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (a *AudioContent) AppendJSON(dst []byte) ([]byte, error) {
	return (*ImageContent)(a).appendAs(dst, typeAudio)
}

// MarshalJSON returns the block as a JSON object.
func (a AudioContent) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (a *AudioContent) UnmarshalJSON(data []byte) error {
	type fields AudioContent
	return decodeTyped(data, (*fields)(a))
}

// A ResourceLink refers to a resource that the client can read (since 2025-06-18). The resource
// need not be listed.
type ResourceLink Resource

// Link returns a block that refers to the resource.
func (r *Resource) Link() *ResourceLink {
	link := ResourceLink(*r)
	return &link
}

func (*ResourceLink) isContent() {}

// AppendJSON appends the block as a JSON object.
func (r *ResourceLink) AppendJSON(dst []byte) ([]byte, error) {
	type fields ResourceLink
	return appendFields(dst, &typedFields[fields]{typeResourceLink, (*fields)(r)})
}

// MarshalJSON returns the block as a JSON object.
func (r ResourceLink) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (r *ResourceLink) UnmarshalJSON(data []byte) error {
	type fields ResourceLink
	return decodeTyped(data, (*fields)(r))
}

// An EmbeddedResource is a resource with its contents.
type EmbeddedResource struct {
	Resource    ResourceContents `json:"resource"`
	Annotations *Annotations     `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Embed returns a block with the contents of a resource.
func Embed(contents ResourceContents) *EmbeddedResource {
	return &EmbeddedResource{Resource: contents}
}

func (*EmbeddedResource) isContent() {}

// AppendJSON appends the block as a JSON object.
func (e *EmbeddedResource) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeResource)
	w.object("resource", e.Resource)
	optional(&w, "annotations", e.Annotations)
	w.meta(e.Meta)
	return w.close(e.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (e EmbeddedResource) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (e *EmbeddedResource) UnmarshalJSON(data []byte) error {
	type fields EmbeddedResource
	return decodeTyped(data, (*fields)(e))
}

// ToolUseContent is a call of a tool that a model has chosen, in sampling (since 2025-11-25).
type ToolUseContent struct {
	// ID identifies the use. The [ToolResultContent] with its result repeats it.
	ID string `json:"id"`
	// Name is the name of the tool.
	Name string `json:"name"`
	// Input is a JSON object with the arguments. nil is sent as an empty object.
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

// ToolResultContent is the result of a tool that a model has chosen, in sampling (since
// 2025-11-25).
type ToolResultContent struct {
	// ToolUseID is the ID of the [ToolUseContent].
	ToolUseID string `json:"toolUseId"`
	// Content has neither tool uses nor tool results.
	Content ContentList `json:"content"`
	// StructuredContent is the result as data: an object, or any JSON value since 2026-07-28.
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
	// The same fields with content that cannot be nested.
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
