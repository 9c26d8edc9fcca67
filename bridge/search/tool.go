package search

import (
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The names of the two tools. A source may have tools of these names as well, which
// CallTool calls.
const (
	SearchTool = "search_tools"
	CallTool   = "call_tool"
)

const (
	searchDescription = "Finds tools by what they do. There are many more tools than are listed: search before concluding that something " +
		"cannot be done. The result has each tool's name, description and inputSchema; call it with " + CallTool + "."
	callDescription = "Calls a tool that " + SearchTool + " has found. The arguments must fit the tool's inputSchema."

	searchOutput = `{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object"}}},"required":["tools"]}`
	callInput    = `{"type":"object","properties":{` +
		`"name":{"type":"string","description":"The tool's name, as it was found"},` +
		`"arguments":{"type":"object","description":"The tool's arguments"}},` +
		`"required":["name"],"additionalProperties":false}`
)

func searchInput() []byte {
	return fmt.Appendf(nil, `{"type":"object","properties":{`+
		`"query":{"type":"string","maxLength":%d,"description":"Words for what the tool should do, or for its name"},`+
		`"limit":{"type":"integer","minimum":1,"maximum":%d,"default":%d,"description":"How many tools to find at most"},`+
		`"prefix":{"type":"string","description":"Find only tools whose names begin with this"}},`+
		`"required":["query"],"additionalProperties":false}`, MaxQuery, MaxLimit, DefaultLimit)
}

// listTools are the two tools, as they stand in lists.
func listTools(about string) ([]server.Listed, error) {
	description := searchDescription
	if about != "" {
		description += "\n\n" + about
	}
	tools := []mcp.Tool{{
		Name: SearchTool, Title: "Search tools", Description: description,
		InputSchema: searchInput(), OutputSchema: []byte(searchOutput),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)},
	}, {
		Name: CallTool, Title: "Call a tool", Description: callDescription, InputSchema: []byte(callInput),
	}}
	var listed []server.Listed
	for _, tool := range tools {
		encoded, err := tool.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		listed = append(listed, server.Listed{Name: tool.Name, JSON: encoded})
	}
	return listed, nil
}

// refused tells the model what is wrong with its arguments.
func refused(err error) mcp.Result {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(err.Error())}, IsError: true}
}

func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(format, args...)}
}
