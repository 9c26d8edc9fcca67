package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Content is one block of what is said to or by a model: *[TextContent],
// *[ImageContent], *[AudioContent], *[ResourceLink], *[EmbeddedResource]; in
// sampling also *[ToolUseContent] and *[ToolResultContent]. A block of a type
// that this package does not know is an *[UnknownContent].
type Content interface {
	Result
	isContent()
}

// DecodeContent decodes one block, which its member type names. The error is a
// *[DecodeError].
func DecodeContent(data []byte) (Content, error) { return decodeContent(data, anyContent) }

// A contentSet is which types of block may stand in a place.
type contentSet bool

const (
	anyContent contentSet = true
	// plainContent leaves out what only sampling has. A tool's result holds
	// no other tool's: so blocks do not nest without end.
	plainContent contentSet = false
)

func decodeContent(data []byte, allowed contentSet) (Content, error) {
	object, err := jsonscan.ReadObject(data)
	if err != nil {
		return nil, objectError(data, err)
	}
	kind := object.Get("type")
	if jsonscan.KindOf(kind) != jsonscan.String {
		return nil, &DecodeError{Pointer: "/type", Expected: "a string that names the type of content", Got: gotKind(kind)}
	}
	content := newContent(jsonscan.Unquote(kind), allowed)
	if err := content.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return content, nil
}

// decodable is the half of a block that reads.
type decodable interface {
	Content
	json.Unmarshaler
}

func newContent(kind string, allowed contentSet) decodable {
	switch kind {
	case typeText:
		return new(TextContent)
	case typeImage:
		return new(ImageContent)
	case typeAudio:
		return new(AudioContent)
	case typeResourceLink:
		return new(ResourceLink)
	case typeResource:
		return new(EmbeddedResource)
	}
	if allowed == anyContent {
		switch kind {
		case typeToolUse:
			return new(ToolUseContent)
		case typeToolResult:
			return new(ToolResultContent)
		}
	}
	return new(UnknownContent)
}

// The values of a block's member type.
const (
	typeText         = "text"
	typeImage        = "image"
	typeAudio        = "audio"
	typeResource     = "resource"
	typeResourceLink = "resource_link"
	typeToolUse      = "tool_use"
	typeToolResult   = "tool_result"
)

// typed puts the member type before those of a block, for decoding: so it does
// not end up among the unknown ones.
type typed[F any] struct {
	Type   string `json:"type"`
	Fields *F     `json:",embed"`
}

func decodeTyped[F any](data []byte, fields *F) error {
	return decode(data, &typed[F]{Fields: fields})
}

// An UnknownContent is a block of a type that this package does not know. It is
// passed on as it came.
type UnknownContent struct {
	// Raw is the block's JSON object.
	Raw json.RawMessage
}

func (*UnknownContent) isContent() {}

// Type is what the block says of its type.
func (u *UnknownContent) Type() string {
	object, err := jsonscan.ReadObject(u.Raw)
	if err != nil || jsonscan.KindOf(object.Get("type")) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(object.Get("type"))
}

// AppendJSON appends the block as it came.
func (u *UnknownContent) AppendJSON(dst []byte) ([]byte, error) {
	if _, err := jsonscan.ReadObject(u.Raw); err != nil {
		return dst, fmt.Errorf("mcp: content of an unknown type: %w", err)
	}
	return append(dst, u.Raw...), nil
}

// MarshalJSON returns the block as it came.
func (u UnknownContent) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil) }

// UnmarshalJSON keeps a copy of the block.
func (u *UnknownContent) UnmarshalJSON(data []byte) error {
	if _, err := jsonscan.ReadObject(data); err != nil {
		return objectError(data, err)
	}
	u.Raw = bytes.Clone(data)
	return nil
}
