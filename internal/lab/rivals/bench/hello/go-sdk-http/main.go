// Hello is a server over HTTP with one tool.
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echo struct {
	Message string `json:"message"`
	N       int    `json:"n"`
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "hello", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, echo, error) {
		return nil, in, nil
	})
	if err := http.ListenAndServe("127.0.0.1:8080", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)); err != nil {
		log.Fatal(err)
	}
}
