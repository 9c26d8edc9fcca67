package llm

import (
	"encoding/json"
	"regexp"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// OpenAITools returns the definitions of tools for the Chat Completions API of OpenAI, each
// {"type":"function","function":{"name","description","parameters"}}. The parameters are those of [Parameters].
func OpenAITools(tools []mcp.Tool) []json.RawMessage {
	return functions(tools, nil, `{"type":"function","function":{"name":`, `,"parameters":`, "}}")
}

// AnthropicTools returns the definitions of tools for the Messages API of Anthropic, each
// {"name","description","input_schema"}. The schemas are those of [Parameters]. Properties at the root whose names
// Anthropic refuses, those with other characters than letters, digits, _, . and - or with more than 64, are left out.
func AnthropicTools(tools []mcp.Tool) []json.RawMessage {
	return functions(tools, regexp.MustCompile(anthropicNames), `{"name":`, `,"input_schema":`, "}")
}

// GeminiTools returns the function declarations of tools for the Gemini API, each
// {"name","description","parametersJsonSchema"}. A request has them in {"tools":[{"functionDeclarations":[…]}]}. The
// parameters are those of [Parameters].
func GeminiTools(tools []mcp.Tool) []json.RawMessage {
	return functions(tools, nil, `{"name":`, `,"parametersJsonSchema":`, "}")
}

// Parameters returns the input schema of a tool in a form that OpenAI, Anthropic and Gemini accept: an object with
// properties, without anyOf, oneOf, allOf, enum and not at the root. Properties of such alternatives become properties
// of the root. References are replaced with their targets, or have the form #/$defs/Name if a schema contains itself or
// is large. Other schemas keep their bytes.
func Parameters(tool *mcp.Tool) json.RawMessage { return parameters(tool, nil) }

func functions(tools []mcp.Tool, names *regexp.Regexp, open, schema, end string) []json.RawMessage {
	list := make([]json.RawMessage, len(tools))
	for i := range tools {
		tool := &tools[i]
		out := jsonscan.AppendString([]byte(open), tool.Name)
		if tool.Description != "" {
			out = jsonscan.AppendString(append(out, `,"description":`...), tool.Description)
		}
		list[i] = append(append(append(out, schema...), parameters(tool, names)...), end...)
	}
	return list
}
