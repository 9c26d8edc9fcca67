// Package genkit offers the tools of MCP servers to github.com/firebase/genkit/go.
package genkit

import (
	"context"
	"encoding/json"

	"github.com/firebase/genkit/go/ai"

	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tools returns the tools of a session or bridge for ai.WithTools. A failure of a tool or of its server is {"error": text}
// for the model, and does not end the call of Generate.
func Tools(ctx context.Context, from llm.Tools) ([]ai.ToolRef, error) {
	list, err := from.Tools(ctx)
	if err != nil {
		return nil, err
	}
	tools := make([]ai.ToolRef, len(list))
	for i := range list {
		if tools[i], err = newTool(from, &list[i]); err != nil {
			return nil, err
		}
	}
	return tools, nil
}

func newTool(from llm.Tools, definition *mcp.Tool) (ai.ToolRef, error) {
	name, parameters := definition.Name, map[string]any{}
	if err := json.Unmarshal(llm.Parameters(definition), &parameters); err != nil {
		return nil, err
	}
	call := func(ctx *ai.ToolContext, arguments any) (any, error) {
		encoded, err := json.Marshal(arguments)
		if err != nil {
			return nil, err
		}
		replies := llm.Run(ctx, from, []llm.Call{{Name: name, Arguments: encoded}})
		value, err := llm.Value(replies[0].Result)
		if err != nil {
			return map[string]string{"error": err.Error()}, nil
		}
		return value, nil
	}
	return ai.NewTool(name, definition.Description, call, ai.WithInputSchema(parameters)), nil
}
