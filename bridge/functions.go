package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Style is the form of functions that a model's API takes.
type Style int

const (
	// OpenAI is [{"type":"function","function":{"name","description","parameters"}}].
	OpenAI Style = iota
	// Anthropic is [{"name","description","input_schema"}].
	Anthropic
)

// Functions returns the tools of [Bridge.Tools] in the form that a model's API takes: a JSON
// array whose schemas are the servers' own, byte by byte.
func (b *Bridge) Functions(ctx context.Context, style Style) (json.RawMessage, error) {
	tools, err := b.listTools(ctx)
	if err != nil {
		return nil, err
	}
	out := []byte{'['}
	for _, tool := range tools {
		if len(out) > 1 {
			out = append(out, ',')
		}
		if out, err = appendFunction(out, style, tool); err != nil {
			return nil, fmt.Errorf("tool %q: %w", tool.name, err)
		}
	}
	return append(out, ']'), nil
}

func appendFunction(out []byte, style Style, l listed) ([]byte, error) {
	tool, err := jsonscan.ReadObject(l.definition)
	if err != nil {
		return nil, err
	}
	open, schema, end := `{"type":"function","function":{"name":`, `,"parameters":`, "}}"
	if style == Anthropic {
		open, schema, end = `{"name":`, `,"input_schema":`, "}"
	}
	out = jsonscan.AppendString(append(out, open...), l.name)
	if description := tool.Get("description"); description != nil {
		out = append(append(out, `,"description":`...), description...)
	}
	input := tool.Get("inputSchema")
	if input == nil {
		input = json.RawMessage(`{"type":"object"}`)
	}
	return append(append(append(out, schema...), input...), end...), nil
}
