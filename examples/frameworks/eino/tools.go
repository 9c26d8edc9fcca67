// Package eino offers the tools of MCP servers to agents of github.com/cloudwego/eino.
package eino

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/dovetail-go/dovetail/bridge/llm"
)

// Tools returns the tools of a session or bridge for compose.ToolsNodeConfig. A failure of a tool or of its server is text
// for the model, and does not end the agent.
func Tools(ctx context.Context, from llm.Tools) ([]tool.BaseTool, error) {
	list, err := from.Tools(ctx)
	if err != nil {
		return nil, err
	}
	tools := make([]tool.BaseTool, len(list))
	for i := range list {
		parameters := new(jsonschema.Schema)
		if err := json.Unmarshal(llm.Parameters(&list[i]), parameters); err != nil {
			return nil, err
		}
		tools[i] = &remoteTool{from, &schema.ToolInfo{
			Name: list[i].Name, Desc: list[i].Description, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(parameters),
		}}
	}
	return tools, nil
}

type remoteTool struct {
	from llm.Tools
	info *schema.ToolInfo
}

func (t *remoteTool) Info(context.Context) (*schema.ToolInfo, error) { return t.info, nil }

func (t *remoteTool) InvokableRun(ctx context.Context, arguments string, _ ...tool.Option) (string, error) {
	replies := llm.Run(ctx, t.from, []llm.Call{{Name: t.info.Name, Arguments: json.RawMessage(arguments)}})
	return llm.Text(replies[0].Result)
}
