package llm

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// OpenAITools returns the definitions of tools as the JSON array
// [{"type":"function","function":{"name","description","parameters"}}]. The parameters are the input schema in a form
// that OpenAI, Anthropic and Gemini accept: an object with properties, without anyOf, oneOf, allOf, enum and not at the
// root. Properties of such alternatives become properties of the root. References are replaced with their targets, or
// have the form #/$defs/Name if a schema contains itself or is large. Other schemas keep their bytes.
func OpenAITools(tools []mcp.Tool) json.RawMessage {
	return functions(tools, nil, `{"type":"function","function":{"name":`, `,"parameters":`, "}}")
}

// AnthropicTools returns the definitions of tools as the JSON array
// [{"name","description","input_schema"}]. The schemas are as of [OpenAITools]. Properties at the root whose names
// Anthropic refuses, those with other characters than letters, digits, _, . and - or with more than 64, are left out.
func AnthropicTools(tools []mcp.Tool) json.RawMessage {
	return functions(tools, regexp.MustCompile(anthropicNames), `{"name":`, `,"input_schema":`, "}")
}

func functions(tools []mcp.Tool, names *regexp.Regexp, open, schema, end string) json.RawMessage {
	out := []byte{'['}
	for i := range tools {
		tool := &tools[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonscan.AppendString(append(out, open...), tool.Name)
		if tool.Description != "" {
			out = jsonscan.AppendString(append(out, `,"description":`...), tool.Description)
		}
		out = append(append(append(out, schema...), parameters(tool, names)...), end...)
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
