package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/dovetail-go/dovetail/internal/codec"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// isProtocolError says whether an error is meant for the protocol, not for the
// model: an answer of the peer's own kind, or a question.
func isProtocolError(err error) bool {
	_, protocol := errors.AsType[*jsonrpc.Error](err)
	_, question := mcp.AsInputRequired(err)
	return protocol || question
}

func orEmpty(result *mcp.CallToolResult) *mcp.CallToolResult {
	if result == nil {
		return &mcp.CallToolResult{}
	}
	return result
}

func contentResult(content ...mcp.Content) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: content}
}

// anyResult finds out at run time what a function without a result type gave.
func anyResult(out any) (mcp.Result, error) {
	switch out := out.(type) {
	case nil:
		return contentResult(), nil
	case *mcp.CallToolResult:
		return orEmpty(out), nil
	case string:
		return text(out), nil
	case []mcp.Content:
		return contentResult(out...), nil
	case mcp.ContentList:
		return contentResult(out...), nil
	case mcp.Content:
		return contentResult(out), nil
	}
	return newStructured(nil, out)
}

// text is a tool's result that is one text.
type text string

// AppendJSON appends the result object.
func (t text) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	return append(jsonscan.AppendString(dst, string(t)), `}]}`...), nil
}

// Bare tells that there is nothing else in it.
func (text) Bare() bool { return true }

// structured is a tool's result that is a value: as structured content, and the
// same JSON as text for clients that know nothing of it.
type structured struct{ value json.RawMessage }

// newStructured takes the codec of out's type, nil when that is not known.
func newStructured(plain *codec.Codec, out any) (structured, error) {
	value, err := encodeBy(plain, out)
	if err != nil {
		return structured{}, fmt.Errorf("encoding the result: %w", err)
	}
	return structured{value}, nil
}

// encodeBy is encode, sooner for values of the codec's type.
func encodeBy(plain *codec.Codec, value any) (json.RawMessage, error) {
	if text, ok := plain.Append(nil, value); ok {
		return text, nil
	}
	return encode(value)
}

// encode is the JSON of a Go value, the same each time. omitempty means what it
// means in encoding/json.
func encode(value any) (json.RawMessage, error) {
	return jsonv2.Marshal(value, jsonv2.Deterministic(true), jsonv1.OmitEmptyWithLegacySemantics(true))
}

// structuredFrame is more than a structured result has around its values, and an envelope
// around that.
const structuredFrame = 256

// AppendJSON appends the result object.
func (s structured) AppendJSON(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, 2*len(s.value)+len(s.value)/8+structuredFrame) // at once, rather than again and again
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonscan.AppendText(dst, s.value)
	dst = append(dst, `}],"structuredContent":`...)
	return append(append(dst, s.value...), '}'), nil
}

func (s structured) content() json.RawMessage { return s.value }

// Bare tells that there is nothing in it but the text and an object.
func (s structured) Bare() bool { return jsonscan.KindOf(s.value) == jsonscan.Object }
