// Hello is a server over HTTP with one tool.
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
	if err := server.NewStreamableHTTPServer(s).Start("127.0.0.1:8080"); err != nil {
		log.Fatal(err)
	}
}
