package mcp

import (
	"encoding/json"
)

// TextContent is text.
//
//codec:type typeText
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

// ImageContent is an image.
//
//codec:type typeImage
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

// AudioContent is audio (since 2025-03-26).
//
//codec:type typeAudio
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

// A ResourceLink refers to a resource that the client can read (since 2025-06-18). The resource
// need not be listed.
//
//codec:type typeResourceLink
type ResourceLink Resource

// Link returns a block that refers to the resource.
func (r *Resource) Link() *ResourceLink {
	link := ResourceLink(*r)
	return &link
}

func (*ResourceLink) isContent() {}

// An EmbeddedResource is a resource with its contents.
//
//codec:type typeResource
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

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (e *EmbeddedResource) UnmarshalJSON(data []byte) error {
	type fields EmbeddedResource
	if err := decodeTyped(data, (*fields)(e)); err != nil {
		return err
	}
	if e.Resource == nil {
		return &DecodeError{Pointer: "/resource", Expected: "an object", Got: gotKind(nil)}
	}
	return nil
}

// ToolUseContent is a call of a tool that a model has chosen, in sampling (since 2025-11-25).
//
//codec:type typeToolUse
type ToolUseContent struct {
	// ID identifies the use. The [ToolResultContent] with its result repeats it.
	ID string `json:"id"`
	// Name is the name of the tool.
	Name string `json:"name"`
	// Input is a JSON object with the arguments. nil is sent as an empty object.
	Input json.RawMessage `json:"input" nil:"{}"`
	Meta  Meta            `json:"_meta,omitzero"`
	Extra Extra           `json:",embed"`
}

func (*ToolUseContent) isContent() {}

// ToolResultContent is the result of a tool that a model has chosen, in sampling (since
// 2025-11-25).
//
//codec:type typeToolResult
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
