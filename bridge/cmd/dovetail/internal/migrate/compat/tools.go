package compat

import (
	"context"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Handler is the function of a tool.
type Handler = func(ctx context.Context, r *server.Request, arguments Arguments) (*mcp.CallToolResult, error)

// A Tool is a tool with its function.
type Tool struct {
	Tool    server.Tool
	Handler Handler
}

// AddTools registers tools.
func AddTools(s *server.Server, tools ...Tool) {
	for _, tool := range tools {
		server.AddTool(s, tool.Tool, tool.Handler)
	}
}
