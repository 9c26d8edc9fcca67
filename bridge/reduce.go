package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A ToolError is a failure that a tool reported.
type ToolError struct {
	// Text is what it said.
	Text string
	// Result is all that it gave.
	Result *mcp.CallToolResult
}

// Error is what the tool said.
func (e *ToolError) Error() string {
	if e.Text == "" {
		return "the tool failed without saying why"
	}
	return e.Text
}

// ReduceValue makes one JSON value of a result: its structured content, else its text,
// blocks joined by line breaks, as a string; null when it has neither. What the tool
// reported as a failure is a *[ToolError].
func ReduceValue(result *mcp.CallToolResult) (json.RawMessage, error) {
	if result.IsError {
		return nil, &ToolError{Text: strings.Join(textsOf(result), "\n"), Result: result}
	}
	if result.StructuredContent != nil {
		return result.StructuredContent, nil
	}
	if texts := textsOf(result); len(texts) > 0 {
		return jsonscan.AppendString(nil, strings.Join(texts, "\n")), nil
	}
	return json.RawMessage("null"), nil
}

// ReduceText makes one string of a result, for a model: the text of its only block as it
// is, several blocks as a JSON array, in which those that are no text are objects, none
// as nothing, and a failure as {"error": …}.
func ReduceText(result *mcp.CallToolResult) (string, error) {
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
		encoded, err := block.AppendJSON(nil)
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
