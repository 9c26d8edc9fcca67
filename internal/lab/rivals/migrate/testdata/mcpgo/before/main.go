// Command library lends books.
package main

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A shelf has the books.
type shelf struct {
	books map[string]int // copies by title
}

// lend lends copies of a book.
func (s *shelf) lend(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	title, err := request.RequireString("title")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	left, ok := s.books[title]
	if !ok {
		return mcp.NewToolResultError(fmt.Sprintf("no book %q", title)), nil
	}
	copies := request.GetInt("copies", 1) // 1 if it is absent
	if copies > left {
		return mcp.NewToolResultErrorFromErr("lending failed", fmt.Errorf("only %d left", left)), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("%d left", left-copies)), nil
}

// find has several blocks.
func (s *shelf) find(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args, ok := request.Params.Arguments.(map[string]any)
	if !ok {
		return mcp.NewToolResultError("no arguments"), nil
	}
	word, _ := args["word"].(string)
	result := &mcp.CallToolResult{}
	for title := range s.books {
		if strings.Contains(title, word) {
			result.Content = append(result.Content, mcp.NewTextContent(title))
		}
	}
	return result, nil
}

// cover has an image. Its arguments go through another function.
func cover(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{
		Content: []mcp.Content{
			mcp.TextContent{
				Type: "text",
				Text: "the cover of " + titleOf(request),
			},
			mcp.ImageContent{Type: "image", Data: base64.StdEncoding.EncodeToString([]byte("png")), MIMEType: "image/png"},
		},
	}, nil
}

func titleOf(request mcp.CallToolRequest) string { return mcp.ParseString(request, "title", "no book") }

func rules(_ context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{
		mcp.TextResourceContents{URI: request.Params.URI, MIMEType: "text/plain", Text: "Be quiet."},
	}, nil
}

func recommend(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return mcp.NewGetPromptResult("A book to read next", []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Recommend a book like "+request.Params.Arguments["title"])),
		{Role: mcp.Role("assistant"), Content: mcp.TextContent{Type: "text", Text: "It is short."}},
	}), nil
}

const maxCopies = 3

func newServer(s *shelf) *server.MCPServer {
	srv := server.NewMCPServer("library", "1.0.0",
		server.WithToolCapabilities(true),
		server.WithInstructions("Find before you lend."),
		server.WithRecovery(),
	)

	// Tools
	srv.AddTool(mcp.NewTool("lend",
		mcp.WithDescription("Lends copies of a book."),
		mcp.WithTitleAnnotation("Lend"),
		mcp.WithDestructiveHintAnnotation(false),
		mcp.WithString("title", mcp.Required(), mcp.Description("the title, as it is on the cover")),
		mcp.WithNumber("copies", mcp.Description("how many"), mcp.Min(1), mcp.Max(maxCopies), mcp.DefaultNumber(1)),
		mcp.WithString("size", mcp.Enum("small", "large")),
	), s.lend)
	srv.AddTool(mcp.NewTool("find",
		mcp.WithString("word", mcp.Required(), mcp.MinLength(1)),
		mcp.WithArray("in", mcp.Description("where to look"), mcp.Items(map[string]any{"type": "string"})),
	), s.find)
	srv.AddTool(mcp.NewTool("cover",
		mcp.WithDescription("Shows a cover."),
		mcp.WithString("title", mcp.Description(fmt.Sprintf("one of %d", len(s.books)))),
	), cover)
	srv.AddTools(server.ServerTool{
		Tool: mcp.NewToolWithRawSchema("open", "Says whether the library is open.", []byte(`{"type":"object","properties":{"day":{"type":"string"}}}`)),
		Handler: func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.find(ctx, request)
		},
	})

	srv.AddResource(mcp.NewResource("library://rules", "rules", mcp.WithMIMEType("text/plain")), rules)
	srv.AddResourceTemplate(mcp.NewResourceTemplate("library://page/{number}", "page", mcp.WithTemplateDescription("a page")), rules)
	srv.AddPrompt(mcp.NewPrompt("recommend",
		mcp.WithPromptDescription("Recommends a book."),
		mcp.WithArgument("title", mcp.ArgumentDescription("a book that you liked"), mcp.RequiredArgument()),
	), recommend)
	return srv
}

func main() {
	address := flag.String("http", "", "serve HTTP at this address")
	flag.Parse()
	s := newServer(&shelf{books: map[string]int{"Emma": 2, "Ulysses": 1}})
	if *address != "" {
		web := server.NewStreamableHTTPServer(s, server.WithEndpointPath("/library"), server.WithStateLess(true))
		log.Fatal(web.Start(*address))
	}
	if err := server.ServeStdio(s); err != nil {
		log.Fatal(err)
	}
}
