package main

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"

	"example.com/library/internal/compat"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	mcpserver "github.com/dovetail-go/dovetail/server"
	mcptransport "github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// connect returns a session with a server in memory.
func connect(t *testing.T, server *mcpserver.Server) *client.Session {
	t.Helper()

	session, err := client.Connect(t.Context(), mcptransport.Pipe(server), &client.Options{Info: mcp.Implementation{Name: "test", Version: "1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestSession(t *testing.T) {
	s := &shelf{books: map[string]int{"Emma": 2}}
	session := connect(t, newServer(s))
	tools, err := compat.All(session.Tools(t.Context(), nil))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools {
		if tool.Annotations != nil && compat.IsTrue(tool.Annotations.ReadOnlyHint) {
			names = append(names, tool.Name)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"count", "find"}) {
		t.Errorf("the tools that change nothing are %v", names)
	}
	result, err := session.CallTool(
		// one copy
		t.Context(), "lend", map[string]any{"title": "Emma"}, nil)
	if err != nil || result.IsError || s.calls.Load() != 1 {
		t.Errorf("lent %v, %v, %d calls", result, err, s.calls.Load())
	}
	prompt, err := session.GetPrompt(t.Context(), "recommend", map[string]string{"title": "Emma"}, nil)
	if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "Recommend a book like Emma" {
		t.Errorf("got %v, %v", prompt, err)
	}
	rules, err := session.ReadResource(t.Context(), "library://rules", nil)
	if err != nil || rules.Contents[0].(*mcp.TextResourceContents).Text != "Be quiet." || compat.MIMEType(rules.Contents[1]) != "image/png" {
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
	web := httptest.NewServer(streamable.Handler(server, nil))
	defer web.Close()
	transport := streamable.Dial(web.URL, &streamable.DialOptions{HTTPClient: web.Client()})
	session, err := client.Connect(t.Context(), transport, &client.Options{Info: mcp.Implementation{Name: "test", Version: "1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	params := &mcp.CallToolParams{Name: "count"}
	result, err := session.CallTool(context.Background(), params.Name, params.Arguments, nil)
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "1 books" {
		t.Errorf("counted %v, %v", result, err)
	}
}

func TestServerInTheBackground(t *testing.T) {
	session, err := client.Connect(t.Context(), mcptransport.Pipe(newServer(&shelf{})), &client.Options{Info: mcp.Implementation{Name: "test", Version: "1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	if result, err := session.CallTool(t.Context(), "count", map[string]any{}, nil); err == nil {
		t.Errorf("counted %v on an empty shelf", result)
	}
	_ = session.Close()
}

func TestMiddleware(t *testing.T) {
	s := &shelf{}
	handler := s.counted(func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, errEmpty })
	next := withShelf(s)(handler)
	if next == nil {
		t.Error("the middleware has no handler")
	}
}
