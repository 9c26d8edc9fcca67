package server

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/dovetail-go/dovetail/internal/codec"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// output turns a function's result into a tool's.
type output[Out any] struct {
	schema json.RawMessage
	result func(Out) (mcp.Result, error)
}

func newOutput[Out any](given json.RawMessage) (output[Out], error) {
	o := output[Out]{schema: given}
	switch any((*Out)(nil)).(type) {
	case **mcp.CallToolResult:
		o.result = func(out Out) (mcp.Result, error) { return orEmpty(any(out).(*mcp.CallToolResult)), nil }
		return o, nil
	case *string:
		o.result = func(out Out) (mcp.Result, error) { return text(any(out).(string)), nil }
		return o, nil
	case *[]mcp.Content:
		o.result = func(out Out) (mcp.Result, error) { return contentResult(any(out).([]mcp.Content)...), nil }
		return o, nil
	case *mcp.ContentList:
		o.result = func(out Out) (mcp.Result, error) { return contentResult(any(out).(mcp.ContentList)...), nil }
		return o, nil
	case *any:
		o.result = func(out Out) (mcp.Result, error) { return anyResult(out) }
		return o, nil
	}
	t := reflect.TypeFor[Out]()
	if t.Implements(reflect.TypeFor[mcp.Content]()) {
		o.result = func(out Out) (mcp.Result, error) { return contentResult(any(out).(mcp.Content)), nil }
		return o, nil
	}
	plain := codec.For(t)
	o.result = func(out Out) (mcp.Result, error) {
		// Encoding needs a pointer to the value, and the result is one: one piece of memory for both.
		result := &struct {
			structured
			of Out
		}{of: out}
		var err error
		if result.structured, err = newStructured(plain, &result.of); err != nil {
			return nil, err
		}
		return result, nil
	}
	if given != nil {
		return o, nil
	}
	if t.Kind() == reflect.Pointer {
		o.result = func(out Out) (mcp.Result, error) { return newPointed(plain, out) }
	}
	var err error
	o.schema, err = outputSchema(t)
	return o, err
}

// newPointed is newStructured for what no schema of a pointer's element has room for.
func newPointed(plain *codec.Codec, out any) (mcp.Result, error) {
	if reflect.ValueOf(out).IsNil() {
		return nil, errNoResult
	}
	return newStructured(plain, out)
}

// outputSchema is that of a function's result, nil if the result is content or may
// be anything.
func outputSchema(t reflect.Type) (json.RawMessage, error) {
	switch t {
	case reflect.TypeFor[*mcp.CallToolResult](), reflect.TypeFor[string](), reflect.TypeFor[[]mcp.Content](),
		reflect.TypeFor[mcp.ContentList](), reflect.TypeFor[any]():
		return nil, nil
	case reflect.TypeFor[[]byte]():
		return nil, errors.New("what is []byte is not said: let it be an mcp.Image, mcp.Audio or mcp.Embed, or a string")
	}
	if t.Implements(reflect.TypeFor[mcp.Content]()) {
		return nil, nil
	}
	return schema.ForWritten(t)
}

// An outputCheck holds results to an output schema that was given. One that was
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
		r.server.options.Logger.Error("a tool's result does not fit its output schema", "tool", tool, "error", err)
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the tool's result does not fit its output schema"}
	}
	return nil
}
