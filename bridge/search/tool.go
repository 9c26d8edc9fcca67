package search

import (
	"fmt"

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

// newTools returns the entries of the two tools.
func newTools(about string, search, call mcp.Handler) (searchEntry, callEntry *server.Entry, err error) {
	description := searchDescription
	if about != "" {
		description += "\n\n" + about
	}
	if searchEntry, err = newTool(&mcp.Tool{
		Name: SearchTool, Title: "Search tools", Description: description,
		InputSchema: searchInput(), OutputSchema: []byte(searchOutput),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)},
	}, search); err != nil {
		return nil, nil, err
	}
	callEntry, err = newTool(&mcp.Tool{
		Name: CallTool, Title: "Call a tool", Description: callDescription, InputSchema: []byte(callInput),
	}, call)
	return searchEntry, callEntry, err
}

func newTool(tool *mcp.Tool, handle mcp.Handler) (*server.Entry, error) {
	definition, err := tool.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	return &server.Entry{
		Target: mcp.Target{Kind: mcp.KindTool, Name: tool.Name, Definition: mcp.NewDefinition(definition)},
		Handle: handle,
	}, nil
}

// refused tells the model what is wrong with its arguments.
func refused(err error) mcp.Result {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(err.Error())}, IsError: true}
}
