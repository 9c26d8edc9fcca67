package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

var (
	contentType     = reflect.TypeFor[mcp.Content]()
	contentListType = reflect.TypeFor[mcp.ContentList]()
	toolResultType  = reflect.TypeFor[*mcp.CallToolResult]()
)

// A Result is the result of a tool's function that has structured content, and content of its own for
// models and people: a summary, an image. Its output schema is that of Out.
type Result[Out any] struct {
	// Value is the structured content.
	Value Out
	// Content is sent beside Value. Default: the JSON of Value as text. Clients of versions before 2025-06-18,
	// and many models, see only content, so it should tell them what Value does.
	Content []mcp.Content
	// Meta is the _meta of the result.
	Meta mcp.Meta
}

// A valueResult is a [Result] of any type. The server looks for it on what a function returns; without it, that is the
// value itself.
type valueResult interface {
	// types returns the type of the result itself, and of its value.
	types() (result, value reflect.Type)
	// parts returns a pointer to the value, and what is sent beside it.
	parts() (value any, content []mcp.Content, meta mcp.Meta)
}

func (r Result[Out]) types() (result, value reflect.Type) {
	return reflect.TypeFor[Result[Out]](), reflect.TypeFor[Out]()
}

func (r Result[Out]) parts() (value any, content []mcp.Content, meta mcp.Meta) {
	return &r.Value, r.Content, r.Meta
}

// An output converts results of a tool's function to results of the protocol.
type output struct {
	schema    json.RawMessage   // nil if the result is content or text, or can be anything
	validator *schema.Validator // of a given schema; a reflected one always fits
	// structured means that values are encoded as JSON, with a schema unless textOnly.
	structured bool
	textOnly   bool
	pointer    bool // a nil pointer is no result
	inResult   bool // the value is in a Result
}

// newOutput returns the output of a tool for values of a type. The schema is reflected from the type unless
// it is given.
func newOutput(t reflect.Type, tool *Tool) (o output, err error) {
	if o.schema, o.textOnly = tool.OutputSchema, tool.TextOnly; o.schema != nil {
		if o.textOnly {
			return o, errors.New("OutputSchema: a tool with TextOnly has no structured content")
		}
		if o.validator, err = schema.Compile(o.schema, nil); err != nil {
			return o, fmt.Errorf("OutputSchema: %w", err)
		}
	}
	if value := valueType(t); value != nil {
		t, o.inResult = value, true
	} else if isContent(t) || t == reflect.TypeFor[string]() {
		return o, nil
	}
	if t == reflect.TypeFor[any]() {
		return o, nil
	}
	if err := checkStructured(t, o.inResult); err != nil {
		return o, fmt.Errorf("result: %w", err)
	}
	o.structured = true
	if o.schema == nil {
		o.pointer = t.Kind() == reflect.Pointer
		if !o.textOnly {
			if o.schema, err = schema.ForOutput(t); err != nil {
				return o, fmt.Errorf("result: %w", err)
			}
		}
	}
	return o, nil
}

// valueType returns the type of the value of a [Result], or nil for any other type.
func valueType(t reflect.Type) reflect.Type {
	if t.Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[valueResult]()) {
		return nil
	}
	if result, value := reflect.Zero(t).Interface().(valueResult).types(); result == t {
		return value
	}
	return nil // it embeds a Result
}

// withMemory returns a copy whose validation shares m.
func (o output) withMemory(m *schema.Memory) output {
	o.validator = o.validator.WithMemory(m)
	return o
}

// isContent reports whether values of a type are content or a result.
func isContent(t reflect.Type) bool {
	return t == toolResultType || t == contentListType || t == reflect.TypeFor[[]mcp.Content]() || t.Implements(contentType)
}

// checkStructured rejects types that look like data and are meant as content. inResult says that the value
// is in a [Result].
func checkStructured(t reflect.Type, inResult bool) error {
	element := t
	for range 8 { // a type such as []S of the name S has no end
		if element.Kind() != reflect.Slice {
			break
		}
		element = element.Elem()
	}
	switch {
	case inResult && isContent(t):
		return fmt.Errorf("%v is content: put it into Content of the Result, or return it without one", t)
	case element.Kind() != reflect.Interface && element.Implements(reflect.TypeFor[valueResult]()):
		return fmt.Errorf("%v: a function returns a server.Result itself, not a pointer to it or a part of another type", t)
	case t == reflect.TypeFor[[]byte]():
		return errors.New("[]byte does not say what it holds: return an mcp.Image, mcp.Audio or mcp.Embed, or a string")
	case element != t && isContent(element), element != t && isContent(reflect.PointerTo(element)):
		return fmt.Errorf("%v is a list of content: return []mcp.Content", t)
	case isContent(reflect.PointerTo(t)):
		return fmt.Errorf("%v is a result or content: return a pointer, *%v", t, t)
	}
	return nil
}

// result converts what out points to, the result of a function, to a result of the protocol.
func (o *output) result(r *Request, out any) (mcp.Result, error) {
	if text, ok := out.(*string); ok && !o.structured {
		return (*textResult)(text), nil
	}
	switch {
	case o.inResult:
		return o.resultOf(reflect.ValueOf(out).Elem().Interface().(valueResult))
	case o.pointer && reflect.ValueOf(out).Elem().IsNil():
		return nil, errNoResult
	case o.structured:
		return o.encoded(r, out)
	}
	switch out := reflect.ValueOf(out).Elem().Interface().(type) {
	case nil:
		return contentResult(), nil
	case *mcp.CallToolResult:
		if out == nil {
			return contentResult(), nil
		}
		return out, nil
	case string:
		return (*textResult)(&out), nil
	case []mcp.Content:
		return contentResult(out...), nil
	case mcp.ContentList:
		return contentResult(out...), nil
	case mcp.Content:
		return contentResult(out), nil
	case valueResult:
		return o.resultOf(out)
	}
	return o.encoded(r, out)
}

// encoded returns the result with a value as structured content. The request has room for it, which saves an
// allocation.
func (o *output) encoded(r *Request, value any) (mcp.Result, error) {
	encoded, err := encodeResult(value)
	if err != nil {
		return nil, err
	}
	if o.textOnly {
		text := textResult(encoded)
		return &text, nil
	}
	r.result.value = encoded
	return &r.result, nil
}

func encodeResult(value any) (json.RawMessage, error) {
	encoded, err := jsonvalue.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return encoded, nil
}

// resultOf converts a [Result].
func (o *output) resultOf(out valueResult) (mcp.Result, error) {
	value, content, meta := out.parts()
	result := &mcp.CallToolResult{Content: content, Meta: meta}
	if dynamic, ok := value.(*any); ok && *dynamic == nil {
		return result, nil
	}
	if o.pointer && reflect.ValueOf(value).Elem().IsNil() {
		return nil, errNoResult
	}
	encoded, err := encodeResult(value)
	switch {
	case err != nil:
		return nil, err
	case !o.textOnly:
		result.StructuredContent = encoded
	case len(content) == 0:
		result.Content = mcp.ContentList{mcp.Text(string(encoded))}
	}
	return result, nil
}

// withText adds the structured content of a result as text if the result has no content. Clients of versions before
// 2025-06-18, and many models, see only content.
func withText(result mcp.Result) mcp.Result {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		if r == nil || len(r.Content) > 0 || r.StructuredContent == nil {
			return result
		}
		with := *r // the function may return the same value again
		with.Content = mcp.ContentList{mcp.Text(string(r.StructuredContent))}
		return &with
	case mcp.Raw:
		members, err := jsonscan.ReadObject(r)
		structured := members.Get("structuredContent")
		if err != nil || structured == nil || !isEmptyList(members.Get("content")) {
			return result
		}
		text := jsonscan.AppendText([]byte(`[{"type":"text","text":`), structured)
		with, err := jsonscan.Splice(nil, r, jsonscan.Edit{Name: "content", Value: append(text, `}]`...)})
		if err != nil {
			return result
		}
		return mcp.Raw(with)
	}
	return result
}

// isEmptyList reports whether a value is absent, null or a list without elements.
func isEmptyList(value []byte) bool {
	if !jsonscan.IsPresent(value) {
		return true
	}
	s := jsonscan.New(value)
	if s.EnterArray() != nil {
		return false
	}
	more, err := s.Element(true)
	return err == nil && !more
}

func contentResult(content ...mcp.Content) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: content}
}

// A textResult is a tool's result with one text.
type textResult string

// AppendJSON appends the result as a JSON object.
func (t *textResult) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	return append(jsonscan.AppendString(dst, string(*t)), `}]}`...), nil
}

// Bare reports that the result has no other members.
func (*textResult) Bare() bool { return true }

// A structuredResult is a tool's result with structured content, and the same JSON as text for
// clients that do not know structured content.
type structuredResult struct{ value json.RawMessage }

// structuredOverhead is more than the size of a structured result, and of its envelope, without its
// values.
const structuredOverhead = 256

// AppendJSON appends the result as a JSON object.
func (s *structuredResult) AppendJSON(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, 2*len(s.value)+len(s.value)/8+structuredOverhead)
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonscan.AppendText(dst, s.value)
	dst = append(dst, `}],"structuredContent":`...)
	return append(append(dst, s.value...), '}'), nil
}

// Bare reports that the result is an object, and has no other members than its content and text.
func (s *structuredResult) Bare() bool { return jsonscan.KindOf(s.value) == jsonscan.Object }

// check rejects a result that does not fit the schema. The reason is logged and not sent to the
// caller, since it is a fault of the tool.
func (o *output) check(ctx context.Context, r *Request, tool string, result mcp.Result) error {
	if o.validator == nil {
		return nil
	}
	var value json.RawMessage
	switch result := result.(type) {
	case *structuredResult:
		value = result.value
	case *mcp.CallToolResult:
		if result.IsError {
			return nil
		}
		value = result.StructuredContent
	case *textResult: // has no structured content
	default:
		return nil // the tool forwards a result of another server
	}
	if value == nil {
		value = json.RawMessage("null")
	}
	if err := o.validator.Validate(ctx, value); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.logger().Error("a tool's result does not fit its output schema", "tool", tool, "error", err)
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the tool's result does not fit its output schema"}
	}
	return nil
}
