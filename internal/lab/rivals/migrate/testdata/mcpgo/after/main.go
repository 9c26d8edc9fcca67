// Command library lends books.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"strings"

	"example.com/library/internal/compat"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A shelf has the books.
type shelf struct {
	books map[string]int // copies by title
}

// lend lends copies of a book.
func (s *shelf) lend(ctx context.Context, r *server.Request, request compat.Arguments) (*mcp.CallToolResult, error) {
	title, err := request.RequireString("title")
	if err != nil {
		return nil, err
	}
	left, ok := s.books[title]
	if !ok {
		return nil, fmt.Errorf("no book %q", title)
	}
	copies := request.GetInt("copies", 1) // 1 if it is absent
	if copies > left {
		return nil, fmt.Errorf("lending failed: %w", fmt.Errorf("only %d left", left))
	}
	return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(fmt.Sprintf("%d left", left-copies))}}, nil
}

// find has several blocks.
func (s *shelf) find(_ context.Context, r *server.Request, request compat.Arguments) (*mcp.CallToolResult, error) {
	args, ok := map[string]any(request), true
	if !ok {
		return nil, errors.New("no arguments")
	}
	word, _ := args["word"].(string)
	result := &mcp.CallToolResult{}
	for title := range s.books {
		if strings.Contains(title, word) {
			result.Content = append(result.Content, mcp.Text(title))
		}
	}
	return result, nil
}

// cover has an image. Its arguments go through another function.
func cover(_ context.Context, r *server.Request, request compat.Arguments) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{
		Content: []mcp.Content{
			&mcp.TextContent{
				Text: "the cover of " + titleOf(r, request),
			},
			&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
		},
	}, nil
}

func titleOf(r *server.Request, request compat.Arguments) string {
	return request.GetString("title", "no book")
}

func rules(_ context.Context, request *server.Request) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{
		&mcp.TextResourceContents{URI: request.Call().URI(), MIMEType: "text/plain", Text: "Be quiet."},
	}, nil
}

func recommend(_ context.Context, r *server.Request, request map[string]string) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{Description: "A book to read next", Messages: []mcp.PromptMessage{
		mcp.PromptMessage{Role: mcp.RoleUser, Content: mcp.Text("Recommend a book like " + request["title"])},
		{Role: mcp.Role("assistant"), Content: &mcp.TextContent{Text: "It is short."}},
	}}, nil
}

const maxCopies = 3

func newServer(s *shelf) *server.Server {
	srv := server.New(mcp.Implementation{Name: "library", Version: "1.0.0"}, &server.Options{Instructions: "Find before you lend."})

	// Tools
	server.AddTool(srv, server.Tool{
		Name:        "lend",
		Description: "Lends copies of a book.",
		Annotations: &mcp.ToolAnnotations{Title: "Lend", DestructiveHint: new(false)},
		InputSchema: json.RawMessage(`{"type": "object", "properties": {
	"title": {"type": "string", "description": "the title, as it is on the cover"},
	"copies": {"type": "number", "description": "how many", "minimum": 1, "maximum": 3, "default": 1},
	"size": {"type": "string", "enum": ["small", "large"]}
}, "required": ["title"]}`),
	}, s.lend)
	server.AddTool(srv, server.Tool{
		Name: "find",
		InputSchema: json.RawMessage(`{"type": "object", "properties": {
	"word": {"type": "string", "minLength": 1},
	"in": {"type": "array", "description": "where to look", "items": {"type": "string"}}
}, "required": ["word"]}`),
	}, s.find)
	server.AddTool(srv, server.Tool{
		Name:        "cover",
		Description: "Shows a cover.",
		InputSchema: compat.JSON(map[string]any{"type": "object", "properties": map[string]any{"title": map[string]any{"type": "string", "description": fmt.Sprintf("one of %d", len(s.books))}}}),
	}, cover)
	compat.AddTools(srv, compat.Tool{
		Tool: server.Tool{
			Name:        "open",
			Description: "Says whether the library is open.",
			InputSchema: []byte(`{"type":"object","properties":{"day":{"type":"string"}}}`),
		},
		Handler: func(ctx context.Context, r *server.Request, request compat.Arguments) (*mcp.CallToolResult, error) {
			return s.find(ctx, r, request)
		},
	})

	server.AddResource(srv, server.Resource{
		URI:      "library://rules",
		Name:     "rules",
		MIMEType: "text/plain",
	}, rules)
	server.AddTemplate(srv, server.Template{
		URITemplate: "library://page/{number}",
		Name:        "page",
		Description: "a page",
	}, func(ctx context.Context, r *server.Request, _ map[string]string) ([]mcp.ResourceContents, error) {
		return rules(ctx, r)
	})
	server.AddPrompt(srv, server.Prompt{
		Name:        "recommend",
		Description: "Recommends a book.",
		Arguments: []mcp.PromptArgument{
			{Name: "title", Description: "a book that you liked", Required: true},
		},
	}, recommend)
	return srv
}

func main() {
	address := flag.String("http", "", "serve HTTP at this address")
	flag.Parse()
	s := newServer(&shelf{books: map[string]int{"Emma": 2, "Ulysses": 1}})
	if *address != "" {

		log.Fatal(streamable.Run(*address, s, &streamable.ServeOptions{Path: "/library"}))
	}
	if err := stdio.Run(s, nil); err != nil {
		log.Fatal(err)
	}
}
