package main

import (
	"context"
	"net/http/httptest"
	"testing"

	"example.com/library/internal/compat"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// connect returns a client of a server in memory.
func connect(t *testing.T, s *server.Server) *client.Session {
	t.Helper()
	c, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Info: mcp.Implementation{Name: "test", Version: "1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestSession(t *testing.T) {
	c := connect(t, newServer(&shelf{books: map[string]int{"Emma": 2}}))
	tools, err := compat.All(c.Tools(t.Context(), nil))
	if err != nil || len(tools) != 4 || tools[0].Name == "" {
		t.Errorf("listed %v, %v", tools, err)
	}
	request := compat.Arguments{}

	request = map[string]any{"title": "Emma"}
	result, err := c.CallTool(t.Context(), "lend", request, nil)
	if err != nil || result.IsError {
		t.Errorf("lent %v, %v", result, err)
	}
	result, err = c.CallTool(t.Context(), "find", map[string]any{"word": "mm"}, nil)
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "Emma" {
		t.Errorf("found %v, %v", result, err)
	}
	prompt, err := c.GetPrompt(t.Context(), "recommend", map[string]string{"title": "Emma"}, nil)
	if err != nil || len(prompt.Messages) != 2 {
		t.Errorf("got %v, %v", prompt, err)
	}
	if rules, err := c.ReadResource(t.Context(), "library://rules", nil); err != nil || len(rules.Contents) != 1 {
		t.Errorf("read %v, %v", rules, err)
	}
}

func TestSessionOverHTTP(t *testing.T) {
	web := httptest.NewServer(streamable.Handler(newServer(&shelf{}), nil))
	defer web.Close()
	c, err := client.Connect(context.Background(), streamable.Dial(web.URL, nil), &client.Options{Info: mcp.Implementation{Name: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(context.Background()); err != nil {
		t.Error(err)
	}
}
