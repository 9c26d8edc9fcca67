package main

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestLend(t *testing.T) {
	s := &shelf{books: map[string]int{"Emma": 2}}
	_, out, err := s.lend(context.Background(), &mcp.CallToolRequest{}, lendIn{Title: "Emma"})
	if err != nil || out.Left != 1 {
		t.Errorf("got %v, %v", out, err)
	}
	result, _, err := s.find(t.Context(), nil, struct {
		Word string `json:"word"`
	}{"mm"})
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "Emma" {
		t.Errorf("got %v, %v", result, err)
	}
}

func TestRules(t *testing.T) {
	result, err := rules(t.Context(), &mcp.ReadResourceRequest{Params: &mcp.ReadResourceParams{URI: "library://rules"}})
	if err != nil || result.Contents[1].URI != "library://rules/seal" {
		t.Errorf("got %v, %v", result, err)
	}
	if result, err := cover(t.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Arguments: []byte(`{"title":"Emma"}`)}}); err != nil {
		t.Errorf("got %v, %v", result, err)
	}
}
