// Package adk offers the tools of MCP servers to agents of the Agent Development Kit, google.golang.org/adk.
package adk

import (
	"context"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"

	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tools returns the tools of a session or bridge for llmagent.Config. A result is {"output": value}, and a failure
// {"error": text}.
func Tools(ctx context.Context, from llm.Tools) ([]tool.Tool, error) {
	list, err := from.Tools(ctx)
	if err != nil {
		return nil, err
	}
	tools := make([]tool.Tool, len(list))
	for i := range list {
		if tools[i], err = newTool(from, &list[i]); err != nil {
			return nil, err
		}
	}
	return tools, nil
}

func newTool(from llm.Tools, definition *mcp.Tool) (tool.Tool, error) {
	name, parameters := definition.Name, new(jsonschema.Schema)
	if err := json.Unmarshal(llm.Parameters(definition), parameters); err != nil {
		return nil, err
	}
	config := functiontool.Config{Name: name, Description: definition.Description, InputSchema: parameters}
	return functiontool.New(config, func(ctx agent.Context, arguments map[string]any) (map[string]any, error) {
		encoded, err := json.Marshal(arguments)
		if err != nil {
			return nil, err
		}
		replies := llm.Run(ctx, from, []llm.Call{{Name: name, Arguments: encoded}})
		value, err := llm.Value(replies[0].Result)
		if err != nil {
			return map[string]any{"error": err.Error()}, nil
		}
		return map[string]any{"output": value}, nil
	})
}
