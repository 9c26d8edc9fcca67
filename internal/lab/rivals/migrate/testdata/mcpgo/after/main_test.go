package main

import (
	"context"
	"testing"

	"example.com/library/internal/compat"
	"github.com/dovetail-go/dovetail/mcp"
)

func TestFind(t *testing.T) {
	s := &shelf{books: map[string]int{"Emma": 2}}
	request := compat.Arguments{}

	request = map[string]any{"word": "mm"}
	result, err := s.find(context.Background(), nil, request)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != "Emma" {
		t.Errorf("found %v", result.Content)
	}
	result, err = s.lend(context.Background(), nil, compat.Arguments{"title": "Emma"})
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "1 left" {
		t.Errorf("lent %v, %v", result, err)
	}
}
