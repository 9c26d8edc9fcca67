package mcp

import (
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A ContentList is blocks of content, an array on the wire.
type ContentList []Content

// MarshalJSON returns the blocks as a JSON array.
func (l ContentList) MarshalJSON() ([]byte, error) { return appendList(nil, l) }

// UnmarshalJSON decodes an array of blocks. The error is a *[DecodeError].
func (l *ContentList) UnmarshalJSON(data []byte) (err error) {
	*l, err = decodeContentList(data, anyContent)
	return err
}

func decodeContentList(data []byte, allowed contentSet) ([]Content, error) {
	if jsonscan.KindOf(data) == jsonscan.Null {
		return nil, nil
	}
	list := []Content{}
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
		content, err := decodeContent(raw, allowed)
		if err != nil {
			return nil, within("/"+strconv.Itoa(len(list)), err)
		}
		list = append(list, content)
	}
	if err := s.End(); err != nil {
		return nil, syntaxError(err)
	}
	return list, nil
}

// SamplingContent is the content of a message in sampling: one block, or an array
// of blocks since 2025-11-25. A list of one goes out as a lone block, the form
// that every version knows.
type SamplingContent []Content

// MarshalJSON returns a lone block, or an array of any other number.
func (c SamplingContent) MarshalJSON() ([]byte, error) {
	if len(c) == 1 && c[0] != nil {
		return c[0].AppendJSON(nil)
	}
	return appendList(nil, c)
}

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

// toolContent is the content of a tool's result inside of a sampling message.
type toolContent []Content

func (c *toolContent) UnmarshalJSON(data []byte) (err error) {
	*c, err = decodeContentList(data, plainContent)
	return err
}
