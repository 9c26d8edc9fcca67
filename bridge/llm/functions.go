package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Format is the format in which the API of a model takes function definitions.
type Format int

const (
	// OpenAI is [{"type":"function","function":{"name","description","parameters"}}].
	OpenAI Format = iota
	// Anthropic is [{"name","description","input_schema"}].
	Anthropic
)

// String returns "openai" or "anthropic".
func (f Format) String() string {
	switch f {
	case OpenAI:
		return "openai"
	case Anthropic:
		return "anthropic"
	}
	return fmt.Sprintf("Format(%d)", int(f))
}

// Functions returns the definitions of tools as a JSON array in a format. A tool without an
// input schema gets {"type":"object"}; the other schemas keep their bytes.
func Functions(tools []mcp.Tool, format Format) json.RawMessage {
	open, schema, end := `{"type":"function","function":{"name":`, `,"parameters":`, "}}"
	if format == Anthropic {
		open, schema, end = `{"name":`, `,"input_schema":`, "}"
	}
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
