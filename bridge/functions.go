package bridge

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Style is how a model's API wants to be told of functions.
type Style int

const (
	// OpenAI is [{"type":"function","function":{"name","description","parameters"}}].
	OpenAI Style = iota
	// Anthropic is [{"name","description","input_schema"}].
	Anthropic
)

// Functions are all tools as a model's API wants to be told of them: a JSON array whose
// schemas are the servers' own, byte by byte.
func (b *Bridge) Functions(style Style) (json.RawMessage, error) {
	out := []byte{'['}
	for e := range b.Catalog().All(mcp.KindTool) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendFunction(out, style, e); err != nil {
			return nil, fmt.Errorf("tool %q: %w", e.Name, err)
		}
	}
	return append(out, ']'), nil
}

func appendFunction(out []byte, style Style, e *server.Entry) ([]byte, error) {
	tool, err := jsonscan.ReadObject(e.Definition.JSON())
	if err != nil {
		return nil, err
	}
	open, schema, end := `{"type":"function","function":{"name":`, `,"parameters":`, "}}"
	if style == Anthropic {
		open, schema, end = `{"name":`, `,"input_schema":`, "}"
	}
	out = jsonscan.AppendString(append(out, open...), e.Name)
	if description := tool.Get("description"); description != nil {
		out = append(append(out, `,"description":`...), description...)
	}
	input := tool.Get("inputSchema")
	if input == nil {
		input = json.RawMessage(`{"type":"object"}`)
	}
	return append(append(append(out, schema...), input...), end...), nil
}
