// Hello is a server over stdio with one tool.
package main

import (
	"context"
	"log"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type echo struct {
	Message string `json:"message"`
	N       int    `json:"n"`
}

func main() {
	s := server.NewMCPServer("hello", "1", server.WithInputSchemaValidation())
	tool := mcp.NewTool("echo", mcp.WithInputSchema[echo](), mcp.WithOutputSchema[echo]())
	s.AddTool(tool, mcp.NewStructuredToolHandler(func(_ context.Context, _ mcp.CallToolRequest, in echo) (echo, error) {
		return in, nil
	}))
	if err := server.ServeStdio(s); err != nil {
		log.Fatal(err)
	}
}
