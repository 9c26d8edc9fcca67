package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/dovetail-go/dovetail/internal/buffer"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tools lists the server's tools, page by page. Who keeps one of them keeps those of its
// page, and should keep a copy of the value: that shares no more than a few KiB of memory
// with its neighbours.
func (s *Session) Tools(ctx context.Context) iter.Seq2[*mcp.Tool, error] {
	return pages(ctx, s, mcp.MethodToolsList, func(r *mcp.ListToolsResult) ([]mcp.Tool, *string) { return r.Tools, r.NextCursor })
}

// CallTool calls a tool. arguments are an object: a struct, a map or
// json.RawMessage; nil means none, and omitempty what it means in encoding/json. A
// failure that the tool reports is a result with IsError.
func (s *Session) CallTool(ctx context.Context, name string, arguments any, opts *CallOptions) (*mcp.CallToolResult, error) {
	resp, err := s.callTool(ctx, name, arguments, opts)
	if err != nil {
		return nil, err
	}
	defer resp.Release() // what is decoded is a copy
	return decodeToolResult(resp)
}

func (s *Session) callTool(ctx context.Context, name string, arguments any, opts *CallOptions) (*jsonrpc.Response, error) {
	encoded := encodings.Get()
	params, err := s.encodeArguments(encoded, arguments)
	if err != nil {
		return nil, notSent(mcp.MethodToolsCall, err)
	}
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(mcp.MethodToolsCall, err)
	}
	resp, err := s.do(ctx, mcp.MethodToolsCall, &mcp.CallToolParams{Name: name, Arguments: params, Meta: meta}, opts.progress())
	encoded.Free() // and not when a callback panics: the call still runs then
	return resp, err
}

func decodeToolResult(resp *jsonrpc.Response) (*mcp.CallToolResult, error) {
	result := new(mcp.CallToolResult)
	if err := decode(mcp.MethodToolsCall, resp, result); err != nil {
		return nil, err
	}
	return result, nil
}

// encodings are lent to arguments on their way.
var encodings buffer.Pool

// encodeArguments returns arguments as JSON, which stands in a buffer unless it has been
// given as JSON.
func (s *Session) encodeArguments(to *buffer.Buffer, arguments any) (json.RawMessage, error) {
	switch arguments := arguments.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if err := jsonscan.Valid(arguments); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		return arguments, mustBeObject(arguments)
	}
	var plain bool
	if to.Bytes, plain = s.codecs.of(reflect.TypeOf(arguments)).Append(to.Bytes, arguments); plain {
		return to.Bytes, mustBeObject(to.Bytes)
	}
	encoded := bytes.NewBuffer(to.Bytes)
	err := jsonv2.MarshalWrite(encoded, arguments, jsonv1.OmitEmptyWithLegacySemantics(true))
	to.Bytes = encoded.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encoding arguments: %w", err)
	}
	return to.Bytes, mustBeObject(to.Bytes)
}

func mustBeObject(arguments json.RawMessage) error {
	if kind := jsonscan.KindOf(arguments); kind != jsonscan.Object {
		return fmt.Errorf("arguments must be an object, not %v", kind)
	}
	return nil
}

// A ToolError is a failure that a tool reported.
type ToolError struct {
	// Tool is its name.
	Tool string
	// Result is what it gave instead.
	Result *mcp.CallToolResult
}

// Error is the tool's name and the text of its result.
func (e *ToolError) Error() string {
	var text strings.Builder
	for _, c := range e.Result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	return fmt.Sprintf("tool %q: %s", e.Tool, text.String())
}

// CallAs calls a tool and decodes its structured content, or, where the version
// has none or the tool gives none, the JSON in its text. A string is the text
// itself. A failure that the tool reports is a *[ToolError].
func CallAs[Out any](ctx context.Context, s *Session, name string, arguments any) (Out, error) {
	var out Out
	resp, err := s.callTool(ctx, name, arguments, nil)
	if err != nil {
		return out, err
	}
	defer resp.Release() // what is decoded is a copy
	if structured := structuredIn(resp); structured != nil {
		if !s.codecs.of(reflect.TypeFor[Out]()).Decode(structured, &out) {
			err = jsonv2.Unmarshal(structured, &out)
		}
	} else {
		result, failure := decodeToolResult(resp)
		switch {
		case failure != nil:
			return out, failure
		case result.IsError:
			return out, &ToolError{Tool: name, Result: result}
		}
		err = decodeText(result, &out)
	}
	if err != nil {
		return out, fmt.Errorf("tool %q: the result is no %T: %w", name, out, err)
	}
	return out, nil
}

// structuredIn is the structured content of a result that is no failure, if it has any.
// The same again as text, which is much the longer half of some results, is not looked at.
func structuredIn(resp *jsonrpc.Response) json.RawMessage {
	if content := resp.Member("content"); content != nil && jsonscan.KindOf(content) != jsonscan.Array {
		return nil
	}
	if failed := resp.Member("isError"); failed != nil && string(failed) != "false" {
		return nil
	}
	return resp.Member("structuredContent")
}

func decodeText(result *mcp.CallToolResult, out any) error {
	for _, c := range result.Content {
		text, ok := c.(*mcp.TextContent)
		if !ok {
			continue
		}
		if s, ok := out.(*string); ok {
			*s = text.Text
			return nil
		}
		return jsonv2.Unmarshal([]byte(text.Text), out)
	}
	return fmt.Errorf("it has no structured content and no text")
}
