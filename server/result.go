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

// An output converts results of a tool's function to results of the protocol.
type output struct {
	schema    json.RawMessage   // nil if the result is content, or can be anything
	validator *schema.Validator // of a given schema; a reflected one always fits
	// structured means that values are structured content with a schema.
	structured bool
	pointer    bool // a nil pointer would not fit the schema
}

// newOutput returns the output for values of a type. The schema is reflected from the type unless
// it is given.
func newOutput(t reflect.Type, given json.RawMessage) (o output, err error) {
	if o.schema = given; given != nil {
		if o.validator, err = schema.Compile(given, nil); err != nil {
			return o, fmt.Errorf("OutputSchema: %w", err)
		}
	}
	if isContent(t) || t == reflect.TypeFor[string]() || t == reflect.TypeFor[any]() {
		return o, nil
	}
	if err := checkStructured(t); err != nil {
		return o, fmt.Errorf("result: %w", err)
	}
	o.structured = true
	if given == nil {
		o.pointer = t.Kind() == reflect.Pointer
		if o.schema, err = schema.ForOutput(t); err != nil {
			return o, fmt.Errorf("result: %w", err)
		}
	}
	return o, nil
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

// checkStructured rejects types that look like data and are meant as content.
func checkStructured(t reflect.Type) error {
	element := t
	for range 8 { // a type such as []S of the name S has no end
		if element.Kind() != reflect.Slice {
			break
		}
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

// result converts what out points to, the result of a function, to a result of the protocol.
func (o *output) result(r *Request, out any) (mcp.Result, error) {
	if text, ok := out.(*string); ok && !o.structured {
		return (*textResult)(text), nil
	}
	switch {
	case o.pointer && reflect.ValueOf(out).Elem().IsNil():
		return nil, errNoResult
	case o.structured:
		return r.structuredResult(out)
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
	}
	return r.structuredResult(out)
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

// structuredResult returns the result with a value as its structured content. The request has room for it, which
// saves an allocation.
func (r *Request) structuredResult(value any) (mcp.Result, error) {
	encoded, err := jsonvalue.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	r.result.value = encoded
	return &r.result, nil
}

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
