package main

import (
	"context"
	"testing"

	"example.com/library/internal/compat"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/servertest"
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

func TestRules(t *testing.T) {
	result, err := rules(t.Context(), servertest.Request(t, &servertest.RequestOptions{URI: "library://rules"}))
	if err != nil || compat.URI(result.Contents[1]) != "library://rules/seal" {
		t.Errorf("got %v, %v", result, err)
	}
	if result, err := cover(t.Context(), servertest.Request(t, &servertest.RequestOptions{Arguments: []byte(`{"title":"Emma"}`)})); err != nil {
		t.Errorf("got %v, %v", result, err)
	}
}
