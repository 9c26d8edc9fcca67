package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connect returns a session with a server in memory.
func connect(t *testing.T, server *mcp.Server) *mcp.ClientSession {
	t.Helper()
	serverTransport, clientTransport := mcp.NewInMemoryTransports()
	serverSession, err := server.Connect(t.Context(), serverTransport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serverSession.Close() })

	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	session, err := client.Connect(t.Context(), clientTransport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestSession(t *testing.T) {
	s := &shelf{books: map[string]int{"Emma": 2}}
	session := connect(t, newServer(s))
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		if tool.Annotations != nil && tool.Annotations.ReadOnlyHint {
			names = append(names, tool.Name)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"count", "find"}) {
		t.Errorf("the tools that change nothing are %v", names)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name:      "lend",
		Arguments: map[string]any{"title": "Emma"}, // one copy
	})
	if err != nil || result.IsError || s.calls.Load() != 1 {
		t.Errorf("lent %v, %v, %d calls", result, err, s.calls.Load())
	}
	prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "recommend", Arguments: map[string]string{"title": "Emma"}})
	if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "Recommend a book like Emma" {
		t.Errorf("got %v, %v", prompt, err)
	}
	rules, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "library://rules"})
	if err != nil || rules.Contents[0].Text != "Be quiet." || rules.Contents[1].MIMEType != "image/png" {
		t.Errorf("read %v, %v", rules, err)
	}
	for resource, err := range session.Resources(t.Context(), nil) {
		if err != nil || resource.Name != "rules" {
			t.Errorf("listed %v, %v", resource, err)
		}
	}
}

func TestSessionOverHTTP(t *testing.T) {
	server := newServer(&shelf{books: map[string]int{"Emma": 2}})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()
	transport := &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client()}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	params := &mcp.CallToolParams{Name: "count"}
	result, err := session.CallTool(context.Background(), params)
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "1 books" {
		t.Errorf("counted %v, %v", result, err)
	}
}

func TestServerInTheBackground(t *testing.T) {
	ours, theirs := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	go func() {
		ended <- newServer(&shelf{}).Run(t.Context(), theirs)
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil).Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "count", Arguments: map[string]any{}}); err == nil {
		t.Errorf("counted %v on an empty shelf", result)
	}
	_ = session.Close()
	<-ended
}

func TestMiddleware(t *testing.T) {
	s := &shelf{}
	handler := s.counted(func(context.Context, string, mcp.Request) (mcp.Result, error) { return nil, errEmpty })
	next := withShelf(s)(handler)
	if next == nil {
		t.Error("the middleware has no handler")
	}
}
