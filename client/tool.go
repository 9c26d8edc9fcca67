package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tools lists the server's tools, page by page.
func (s *Session) Tools(ctx context.Context) iter.Seq2[*mcp.Tool, error] {
	return pages(ctx, s, mcp.MethodToolsList, func(r *mcp.ListToolsResult) ([]mcp.Tool, *string) { return r.Tools, r.NextCursor })
}

// CallTool calls a tool. arguments are an object: a struct, a map or
// json.RawMessage; nil means none, and omitempty what it means in encoding/json. A
// failure that the tool reports is a result with IsError.
func (s *Session) CallTool(ctx context.Context, name string, arguments any, opts *CallOptions) (*mcp.CallToolResult, error) {
	encoded, err := encodeArguments(arguments)
	if err != nil {
		return nil, notSent(mcp.MethodToolsCall, err)
	}
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(mcp.MethodToolsCall, err)
	}
	result := new(mcp.CallToolResult)
	params := &mcp.CallToolParams{Name: name, Arguments: encoded, Meta: meta}
	if err := s.call(ctx, mcp.MethodToolsCall, params, result, opts); err != nil {
		return nil, err
	}
	return result, nil
}

func encodeArguments(arguments any) (json.RawMessage, error) {
	switch arguments := arguments.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if err := jsonscan.Valid(arguments); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		return arguments, mustBeObject(arguments)
	}
	encoded, err := jsonv2.Marshal(arguments, jsonv1.OmitEmptyWithLegacySemantics(true))
	if err != nil {
		return nil, fmt.Errorf("encoding arguments: %w", err)
	}
	return encoded, mustBeObject(encoded)
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
	result, err := s.CallTool(ctx, name, arguments, nil)
	if err != nil {
		return out, err
	}
	if result.IsError {
		return out, &ToolError{Tool: name, Result: result}
	}
	if result.StructuredContent != nil {
		err = jsonv2.Unmarshal(result.StructuredContent, &out)
	} else {
		err = decodeText(result, &out)
	}
	if err != nil {
		return out, fmt.Errorf("tool %q: the result is no %T: %w", name, out, err)
	}
	return out, nil
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
