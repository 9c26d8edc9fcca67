package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A ToolError is a failure that a tool reported with isError.
type ToolError struct {
	// Text is the text of the result, its blocks joined by line breaks.
	Text string
	// Result is the whole result.
	Result *mcp.CallToolResult
}

// Error returns Text, or a fixed sentence if it is empty.
func (e *ToolError) Error() string {
	if e.Text == "" {
		return "the tool failed without saying why"
	}
	return e.Text
}

// Value returns a result as one JSON value. The value is the structured content, or else a string with the text of its
// blocks, joined by line breaks, or else null. If the tool reported a failure, the error is a *[ToolError].
func Value(result *mcp.CallToolResult) (json.RawMessage, error) {
	texts := textsOf(result)
	text := strings.Join(texts, "\n")
	switch {
	case result.IsError:
		return nil, &ToolError{Text: text, Result: result}
	case result.StructuredContent != nil:
		return result.StructuredContent, nil
	case len(texts) > 0:
		return jsonscan.AppendString(nil, text), nil
	}
	return json.RawMessage("null"), nil
}

// Text returns a result as one string for a model. A single text block is returned
// unchanged. Other blocks become a JSON array of strings (text) and objects (everything
// else). No content is the empty string, and a failure that the tool reported is
// {"error": text}. The error says that a block cannot be encoded.
func Text(result *mcp.CallToolResult) (string, error) {
	if result.IsError {
		return `{"error":` + string(jsonscan.AppendString(nil, strings.Join(textsOf(result), " "))) + `}`, nil
	}
	if len(result.Content) == 0 {
		return "", nil
	}
	if only, ok := result.Content[0].(*mcp.TextContent); ok && len(result.Content) == 1 {
		return only.Text, nil
	}
	var out bytes.Buffer
	out.WriteByte('[')
	for i, block := range result.Content {
		if i > 0 {
			out.WriteByte(',')
		}
		if text, ok := block.(*mcp.TextContent); ok {
			out.Write(jsonscan.AppendString(nil, text.Text))
			continue
		}
		encoded, err := block.MarshalJSON()
		if err != nil {
			return "", fmt.Errorf("content %d: %w", i, err)
		}
		out.Write(encoded)
	}
	out.WriteByte(']')
	return out.String(), nil
}

func textsOf(result *mcp.CallToolResult) (texts []string) {
	for _, block := range result.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return texts
}
