package main

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestLend(t *testing.T) {
	s := &shelf{books: map[string]int{"Emma": 2}}
	out, err := s.lend(context.Background(), nil, lendIn{Title: "Emma"})
	if err != nil || out.Left != 1 {
		t.Errorf("got %v, %v", out, err)
	}
	result, err := s.find(t.Context(), nil, struct {
		Word string `json:"word"`
	}{"mm"})
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "Emma" {
		t.Errorf("got %v, %v", result, err)
	}
}
