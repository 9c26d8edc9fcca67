package llm

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// OpenAITools returns the definitions of tools as the JSON array
// [{"type":"function","function":{"name","description","parameters"}}]. A tool without an
// input schema gets {"type":"object"}; the other schemas keep their bytes.
func OpenAITools(tools []mcp.Tool) json.RawMessage {
	return functions(tools, `{"type":"function","function":{"name":`, `,"parameters":`, "}}")
}

// AnthropicTools returns the definitions of tools as the JSON array
// [{"name","description","input_schema"}]. A tool without an input schema gets
// {"type":"object"}; the other schemas keep their bytes.
func AnthropicTools(tools []mcp.Tool) json.RawMessage {
	return functions(tools, `{"name":`, `,"input_schema":`, "}")
}

func functions(tools []mcp.Tool, open, schema, end string) json.RawMessage {
	out := []byte{'['}
	for i, tool := range tools {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonscan.AppendString(append(out, open...), tool.Name)
		if tool.Description != "" {
			out = jsonscan.AppendString(append(out, `,"description":`...), tool.Description)
		}
		input := tool.InputSchema
		if len(input) == 0 {
			input = json.RawMessage(`{"type":"object"}`)
		}
		out = append(append(append(out, schema...), input...), end...)
	}
	return append(out, ']')
}

// A Handler calls a tool by name and returns the result as text for a model. arguments is a
// JSON object, or nil for none. If the handler has no tool of that name, the error is
// [bridge.ErrUnknownTool] and nothing was called.
type Handler func(ctx context.Context, name string, arguments json.RawMessage) (string, error)

// NewHandler returns a handler that calls [bridge.Bridge.CallTool] and converts the result
// with [Text].
func NewHandler(b *bridge.Bridge) Handler {
	return func(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
		result, err := b.CallTool(ctx, name, arguments)
		if err != nil {
			return "", err
		}
		return Text(result)
	}
}

// FirstMatch returns a handler that tries the handlers in order until one has the tool. Only after
// [bridge.ErrUnknownTool] it tries the next handler.
func FirstMatch(first, second Handler, more ...Handler) Handler {
	handlers := append([]Handler{first, second}, more...)
	return func(ctx context.Context, name string, arguments json.RawMessage) (result string, err error) {
		for _, handle := range handlers {
			result, err = handle(ctx, name, arguments)
			if !errors.Is(err, bridge.ErrUnknownTool) {
				break
			}
		}
		return result, err
	}
}
