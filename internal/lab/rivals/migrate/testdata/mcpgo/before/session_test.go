package main

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// connect returns a client of a server in memory.
func connect(t *testing.T, s *server.MCPServer) *client.Client {
	t.Helper()
	c, err := client.NewInProcessClient(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	request.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1.0.0"}
	_, err = c.Initialize(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestSession(t *testing.T) {
	c := connect(t, newServer(&shelf{books: map[string]int{"Emma": 2}}))
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil || len(tools.Tools) != 4 || tools.Tools[0].Name == "" {
		t.Errorf("listed %v, %v", tools, err)
	}
	request := mcp.CallToolRequest{}
	request.Params.Name = "lend"
	request.Params.Arguments = map[string]any{"title": "Emma"}
	result, err := c.CallTool(t.Context(), request)
	if err != nil || result.IsError {
		t.Errorf("lent %v, %v", result, err)
	}
	result, err = c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{
		Name:      "find",
		Arguments: map[string]any{"word": "mm"},
	}})
	if err != nil || result.Content[0].(mcp.TextContent).Text != "Emma" {
		t.Errorf("found %v, %v", result, err)
	}
	prompt, err := c.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: "recommend", Arguments: map[string]string{"title": "Emma"}}})
	if err != nil || len(prompt.Messages) != 2 {
		t.Errorf("got %v, %v", prompt, err)
	}
	if rules, err := c.ReadResource(t.Context(), mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: "library://rules"}}); err != nil || len(rules.Contents) != 1 {
		t.Errorf("read %v, %v", rules, err)
	}
}

func TestSessionOverHTTP(t *testing.T) {
	web := httptest.NewServer(server.NewStreamableHTTPServer(newServer(&shelf{})))
	defer web.Close()
	c, err := client.NewStreamableHttpClient(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Initialize(context.Background(), mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "test"}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(context.Background()); err != nil {
		t.Error(err)
	}
}
