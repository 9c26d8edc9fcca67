package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/dovetail-go/dovetail/internal/codec"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

var (
	contentType     = reflect.TypeFor[mcp.Content]()
	contentListType = reflect.TypeFor[mcp.ContentList]()
	toolResultType  = reflect.TypeFor[*mcp.CallToolResult]()
)

// An output makes results of what a tool's function returns.
type output struct {
	schema json.RawMessage // nil if the result is content, or may be anything
	codec  *codec.Codec    // of values that are structured content
	// structured says that a value is structured content with a schema.
	structured bool
	pointer    bool // to a value that the schema does not allow to be absent
}

// newOutput finds out what becomes of values of a type. The schema is reflected unless it
// is given.
func newOutput(t reflect.Type, given json.RawMessage) (o output, err error) {
	o.schema = given
	if isContent(t) || t == reflect.TypeFor[string]() || t == reflect.TypeFor[any]() {
		return o, nil
	}
	if err := checkStructured(t); err != nil {
		return o, err
	}
	o.structured, o.codec = true, codec.For(t)
	if given == nil {
		o.pointer = t.Kind() == reflect.Pointer
		o.schema, err = schema.ForWritten(t)
	}
	return o, err
}

// isContent reports whether values of a type are content of a result, or a result.
func isContent(t reflect.Type) bool {
	return t == toolResultType || t == contentListType || t == reflect.TypeFor[[]mcp.Content]() || t.Implements(contentType)
}

// checkStructured refuses types whose values would be taken for data, and are none.
func checkStructured(t reflect.Type) error {
	element := t
	for element.Kind() == reflect.Slice {
		element = element.Elem()
	}
	switch {
	case t == reflect.TypeFor[[]byte]():
		return errors.New("[]byte does not say what it holds: return an mcp.Image, mcp.Audio or mcp.Embed, or a string")
	case element != t && isContent(element), element != t && isContent(reflect.PointerTo(element)):
		return fmt.Errorf("%v is a list of content: return []mcp.Content", t)
	case isContent(reflect.PointerTo(t)):
		return fmt.Errorf("%v is a result or content: return a pointer, *%v", t, t)
	}
	return nil
}

// result makes the result of a value.
func (o *output) result(out any) (mcp.Result, error) {
	switch {
	case o.pointer && reflect.ValueOf(out).IsNil():
		return nil, errNoResult
	case o.structured:
		return newStructured(o.codec, out)
	}
	switch out := out.(type) {
	case nil:
		return contentResult(), nil
	case *mcp.CallToolResult:
		if out == nil {
			return contentResult(), nil
		}
		return out, nil
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

// typedResult is result without a copy of the value on the heap, for the usual types.
func typedResult[Out any](o *output, out Out) (mcp.Result, error) {
	if s, ok := any(out).(string); ok {
		return text(s), nil
	}
	if !o.structured || o.pointer {
		return o.result(out)
	}
	// Encoding needs a pointer to the value, and the result is one: one allocation for both.
	result := &struct {
		structured
		of Out
	}{of: out}
	var err error
	if result.structured, err = newStructured(o.codec, &result.of); err != nil {
		return nil, err
	}
	return result, nil
}

func contentResult(content ...mcp.Content) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: content}
}

// text is a tool's result that is one text.
type text string

// AppendJSON appends the result object.
func (t text) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	return append(jsonscan.AppendString(dst, string(t)), `}]}`...), nil
}

// Bare reports that there is nothing else in it.
func (text) Bare() bool { return true }

// structured is a tool's result that is a value: as structured content, and the
// same JSON as text for clients that do not know structured content.
type structured struct{ value json.RawMessage }

// newStructured encodes a value; plain is the codec of its type, nil if there is none.
func newStructured(plain *codec.Codec, out any) (structured, error) {
	value, ok := plain.Append(nil, out)
	if !ok {
		var err error
		if value, err = encode(out); err != nil {
			return structured{}, fmt.Errorf("encoding the result: %w", err)
		}
	}
	return structured{value}, nil
}

// encode returns the JSON of a Go value, the same each time. omitempty means what it
// means in encoding/json.
func encode(value any) (json.RawMessage, error) {
	return jsonv2.Marshal(value, jsonv2.Deterministic(true), jsonv1.OmitEmptyWithLegacySemantics(true))
}

// structuredFrame is more than a structured result has around its values, and an envelope
// around that.
const structuredFrame = 256

// AppendJSON appends the result object.
func (s structured) AppendJSON(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, 2*len(s.value)+len(s.value)/8+structuredFrame) // once, rather than by steps
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonscan.AppendText(dst, s.value)
	dst = append(dst, `}],"structuredContent":`...)
	return append(append(dst, s.value...), '}'), nil
}

func (s structured) content() json.RawMessage { return s.value }

// Bare reports that there is nothing in it except the text and an object.
func (s structured) Bare() bool { return jsonscan.KindOf(s.value) == jsonscan.Object }

// An outputCheck validates results by an output schema that was given. One that was
// reflected from the result's type needs none: the type is the check.
type outputCheck struct{ validator *schema.Validator }

func newOutputCheck(given json.RawMessage) (outputCheck, error) {
	if given == nil {
		return outputCheck{}, nil
	}
	validator, err := schema.Compile(given, nil)
	return outputCheck{validator}, err
}

// result refuses a result that does not fit. That is the tool's fault, not the
// caller's: the operator's log says where, the caller learns no more than that.
func (c outputCheck) result(r *Request, tool string, result mcp.Result) error {
	if c.validator == nil {
		return nil
	}
	var value json.RawMessage
	switch result := result.(type) {
	case interface{ content() json.RawMessage }:
		value = result.content()
	case *mcp.CallToolResult:
		if result.IsError {
			return nil
		}
		value = result.StructuredContent
	case text: // and nothing structured
	default:
		return nil // a tool that passes on what it has not read
	}
	if value == nil {
		value = json.RawMessage("null")
	}
	if err := c.validator.Validate(value); err != nil {
		r.logger().Error("a tool's result does not fit its output schema", "tool", tool, "error", err)
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the tool's result does not fit its output schema"}
	}
	return nil
}
