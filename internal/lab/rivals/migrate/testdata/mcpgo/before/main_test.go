package main

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

func TestFind(t *testing.T) {
	s := &shelf{books: map[string]int{"Emma": 2}}
	request := mcp.CallToolRequest{}
	request.Params.Name = "find"
	request.Params.Arguments = map[string]any{"word": "mm"}
	result, err := s.find(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := mcp.AsTextContent(result.Content[0]); !ok || text.Text != "Emma" {
		t.Errorf("found %v", result.Content)
	}
	result, err = s.lend(context.Background(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"title": "Emma"}}})
	if err != nil || result.Content[0].(mcp.TextContent).Text != "1 left" {
		t.Errorf("lent %v, %v", result, err)
	}
}
