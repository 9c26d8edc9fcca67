package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Content is one block of content: *[TextContent], *[ImageContent], *[AudioContent],
// *[ResourceLink] or *[EmbeddedResource]; in sampling also *[ToolUseContent] or
// *[ToolResultContent]. A block of an unknown type, or one that cannot be decoded, is an *[UnknownContent].
type Content interface {
	json.Marshaler
	appender
	isContent()
}

// DecodeContent decodes one block. Its member type selects the Go type. Of members with the same name, the
// last one counts. The error is a *[DecodeError].
func DecodeContent(data []byte) (Content, error) { return decodeContent(data, anyContent) }

// An allowedContent says which types of blocks may appear.
type allowedContent bool

const (
	anyContent allowedContent = true
	// plainContent excludes the types that exist in sampling only, so that results of tools cannot
	// be nested.
	plainContent allowedContent = false
)

func decodeContent(data []byte, allowed allowedContent) (Content, error) {
	return orWithLastMembers(data, func(data []byte) (Content, error) { return decodeUnique(data, allowed) })
}

// orWithLastMembers returns the result of decode. If it fails and an object in the data has members with the
// same name, it decodes the data with the last of them.
func orWithLastMembers[T any](data []byte, decode func([]byte) (T, error)) (T, error) {
	value, err := decode(data)
	if err == nil {
		return value, nil
	}
	if last, failed := jsonscan.LastMembers(data); failed == nil && len(last) < len(data) {
		return decode(last)
	}
	return value, err
}

func decodeUnique(data []byte, allowed allowedContent) (Content, error) {
	object, err := jsonscan.ReadObject(data)
	if err != nil {
		return nil, objectError(data, err)
	}
	kind := object.Get("type")
	if jsonscan.KindOf(kind) != jsonscan.String {
		return nil, &DecodeError{Pointer: "/type", Expected: "a string that names the type of content", Got: gotKind(kind)}
	}
	if text := object.Get("text"); object.Len() == 2 && jsonscan.KindOf(text) == jsonscan.String && jsonscan.KeyIs(kind, typeText) {
		return &TextContent{Text: jsonscan.Unquote(text)}, nil // as below, without scanning the text twice more
	}
	content := newContent(jsonscan.Unquote(kind), allowed)
	if err := content.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return content, nil
}

// A decodable is a block that can be decoded.
type decodable interface {
	Content
	json.Unmarshaler
}

func newContent(kind string, allowed allowedContent) decodable {
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

// Values of the member type.
const (
	typeText         = "text"
	typeImage        = "image"
	typeAudio        = "audio"
	typeResource     = "resource"
	typeResourceLink = "resource_link"
	typeToolUse      = "tool_use"
	typeToolResult   = "tool_result"
)

// A typedFields adds the member type to the fields of a block, so that it is not an unknown member.
type typedFields[F any] struct {
	Type   string `json:"type"`
	Fields *F     `json:",embed"`
}

func decodeTyped[F any](data []byte, fields *F) error {
	return decode(data, &typedFields[F]{Fields: fields})
}

// keepContent is decodeContent, and returns a block that cannot be decoded as an *[UnknownContent], so that
// the other blocks are not lost.
func keepContent(data []byte, allowed allowedContent) Content {
	content, err := decodeContent(data, allowed)
	if err != nil {
		return &UnknownContent{Raw: bytes.Clone(data), Err: err}
	}
	return content
}

// An UnknownContent is a block of an unknown type, which is kept unchanged, or a block that cannot be decoded.
type UnknownContent struct {
	// Raw is the JSON object of the block. If Err is set, it is any JSON value.
	Raw json.RawMessage
	// Err is a *[DecodeError] that says why a block that was received cannot be decoded, such as an image with
	// invalid base64. A list is sent without these blocks. Err is nil for a block of an unknown type.
	Err error
}

func (*UnknownContent) isContent() {}

// Type returns the block's member type, or "".
func (u *UnknownContent) Type() string {
	object, err := jsonscan.ReadObject(u.Raw)
	if err != nil || jsonscan.KindOf(object.Get("type")) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(object.Get("type"))
}

// appendJSON appends the block unchanged.
func (u *UnknownContent) appendJSON(dst []byte) ([]byte, error) {
	if _, err := jsonscan.ReadObject(u.Raw); err != nil {
		return dst, fmt.Errorf("mcp: content of an unknown type: %w", err)
	}
	return append(dst, u.Raw...), nil
}

// MarshalJSON returns the block unchanged.
func (u UnknownContent) MarshalJSON() ([]byte, error) { return u.appendJSON(nil) }

// UnmarshalJSON keeps a copy of the block.
func (u *UnknownContent) UnmarshalJSON(data []byte) error {
	if _, err := jsonscan.ReadObject(data); err != nil {
		return objectError(data, err)
	}
	u.Raw, u.Err = bytes.Clone(data), nil
	return nil
}

// A ContentList is a JSON array of blocks.
type ContentList []Content

// MarshalJSON returns the blocks as a JSON array.
func (l ContentList) MarshalJSON() ([]byte, error) { return appendList(nil, l) }

// UnmarshalJSON decodes an array of blocks. A block that cannot be decoded is an *[UnknownContent] with Err, and
// null is left out. The error is a *[DecodeError].
func (l *ContentList) UnmarshalJSON(data []byte) (err error) {
	*l, err = decodeContentList(data, anyContent)
	return err
}

// Text returns the text blocks, joined by line breaks. It leaves out all other blocks.
func (l ContentList) Text() string {
	texts := make([]string, 0, len(l))
	for _, block := range l {
		if text, ok := block.(*TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func decodeContentList(data []byte, allowed allowedContent) ([]Content, error) {
	return decodeList(data, func(data []byte) Content { return keepContent(data, allowed) })
}

// decodeList decodes an array of content, and leaves out null. null becomes nil.
func decodeList[T any](data []byte, decode func([]byte) T) ([]T, error) {
	if jsonscan.KindOf(data) == jsonscan.Null {
		return nil, nil
	}
	list := []T{}
	s := jsonscan.New(data)
	if s.Kind() != jsonscan.Array {
		return nil, &DecodeError{Expected: "an array of content", Got: s.Kind().String()}
	}
	if err := s.EnterArray(); err != nil {
		return nil, syntaxError(err)
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil {
			return nil, syntaxError(err)
		}
		if !more {
			break
		}
		raw, err := s.Value()
		if err != nil {
			return nil, syntaxError(err)
		}
		if jsonscan.IsPresent(raw) {
			list = append(list, decode(raw))
		}
	}
	if err := s.End(); err != nil {
		return nil, syntaxError(err)
	}
	return list, nil
}

// SamplingContent is the content of a message in sampling: one block, or an array of blocks since
// 2025-11-25. A list with one block is sent as the block itself, which all versions support.
type SamplingContent []Content

func (c SamplingContent) appendJSON(dst []byte) ([]byte, error) {
	if len(c) == 1 && c[0] != nil {
		return c[0].appendJSON(dst)
	}
	return appendList(dst, c)
}

// MarshalJSON returns one block, or an array of zero or several blocks.
func (c SamplingContent) MarshalJSON() ([]byte, error) { return c.appendJSON(nil) }

// UnmarshalJSON decodes a block or an array of blocks. The error is a
// *[DecodeError].
func (c *SamplingContent) UnmarshalJSON(data []byte) error {
	if jsonscan.KindOf(data) != jsonscan.Object {
		list, err := decodeContentList(data, anyContent)
		*c = list
		return err
	}
	block, err := decodeContent(data, anyContent)
	if err != nil {
		return err
	}
	*c = SamplingContent{block}
	return nil
}

// toolContent is the content of a tool's result in a sampling message.
type toolContent []Content

func (c *toolContent) UnmarshalJSON(data []byte) (err error) {
	*c, err = decodeContentList(data, plainContent)
	return err
}

// A Role is the sender of a message, or an audience.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Annotations describe the use of a block or resource.
type Annotations struct {
	// Audience is the intended audience. Empty means no particular audience.
	Audience []Role `json:"audience,omitzero"`
	// Priority is from 0 (optional) to 1 (required).
	Priority *float64 `json:"priority,omitzero"`
	// LastModified is a time in ISO 8601 (since 2025-06-18).
	LastModified string `json:"lastModified,omitzero"`
	Extra        Extra  `json:",embed"`
}
