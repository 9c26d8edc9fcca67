// Command library lends books.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A shelf has the books.
type shelf struct {
	books map[string]int // copies by title
	calls atomic.Int64

	server *mcp.Server
}

// read is the function of a resource, too.
func (r *shelf) read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	return rules(context.Background(), req)
}

type lendIn struct {
	Title  string `json:"title" jsonschema:"the title, as it is on the cover"`
	Copies int    `json:"copies,omitempty" jsonschema:"how many, 1 if it is absent"`
}

type lendOut struct {
	Left int `json:"left"`
}

// lend has structured output, and errors for the model.
func (s *shelf) lend(_ context.Context, req *mcp.CallToolRequest, in lendIn) (*mcp.CallToolResult, lendOut, error) {
	left, ok := s.books[in.Title]
	if !ok {
		return &mcp.CallToolResult{
			IsError: true,
			Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("no book %q", in.Title)}},
		}, lendOut{}, nil
	}
	if in.Copies > left { // more than there are
		return nil, lendOut{}, fmt.Errorf("only %d left", left)
	}
	return nil, lendOut{Left: left - max(1, in.Copies)}, nil
}

// find has content only.
func (s *shelf) find(_ context.Context, _ *mcp.CallToolRequest, in struct {
	Word string `json:"word"`
}) (*mcp.CallToolResult, any, error) {
	var found []mcp.Content
	for title := range s.books {
		if strings.Contains(title, in.Word) {
			found = append(found, &mcp.TextContent{Text: title})
		}
	}
	if found == nil {
		return nil, nil, fmt.Errorf("no title has %q", in.Word)
	}
	return &mcp.CallToolResult{Content: found}, nil, nil
}

// cover reads the image of a cover.
func cover(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req == nil || req.Params == nil || len(req.Params.Arguments) == 0 {
		return nil, fmt.Errorf("no arguments")
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
	}}, nil
}

func rules(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	if req.Params.URI == "library://none" {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return &mcp.ReadResourceResult{
		Contents: []*mcp.ResourceContents{
			{URI: req.Params.URI, MIMEType: "text/plain", Text: "Be quiet."},
			{URI: req.Params.URI + "/seal", MIMEType: "image/png", Blob: []byte("seal")},
		},
	}, nil
}

func recommend(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{
		Description: "A book to read next",
		Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Recommend a book like " + req.Params.Arguments["title"]}},
			{Role: mcp.Role("assistant"), Content: &mcp.TextContent{Text: "It is short."}},
		},
	}, nil
}

// count has content of its own beside the structured output.
func (s *shelf) count(_ context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, lendOut, error) {
	if len(s.books) == 0 {
		return nil, lendOut{}, errEmpty
	}
	out := lendOut{Left: len(s.books)}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%d books", out.Left)}}}, out, nil
}

func newServer(s *shelf) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "Find before you lend.",
		HasTools:     true,
	})
	server.AddReceivingMiddleware(s.counted, withShelf(s))

	// Tools
	mcp.AddTool(server, &mcp.Tool{
		Name:        "lend",
		Description: "Lends copies of a book.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: false, Title: "Lend"},
	}, s.lend)
	finding := &mcp.Tool{Name: "find", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
	mcp.AddTool(server, finding, s.find)
	mcp.AddTool(server, &mcp.Tool{Name: "count", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, s.count)
	s.server = server
	mcp.AddTool(server, &mcp.Tool{Name: "shelve"}, s.shelve)
	server.AddTool(&mcp.Tool{Name: "cover", InputSchema: coverSchema}, cover)
	server.AddTool(&mcp.Tool{Name: "open", InputSchema: coverSchema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "open: " + req.Params.Name}}}, nil
	})

	server.AddResource(&mcp.Resource{Name: "rules", URI: "library://rules", MIMEType: "text/plain"}, rules)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "page", URITemplate: "library://page/{number}"}, s.read)
	server.AddPrompt(&mcp.Prompt{
		Name:      "recommend",
		Arguments: []*mcp.PromptArgument{{Name: "title", Description: "a book that you liked", Required: true}},
	}, recommend)
	return server
}

func endpoint(s *mcp.Server) *mcp.StreamableHTTPHandler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

func main() {
	address := flag.String("http", "", "serve HTTP at this address")
	flag.Parse()
	s := newServer(&shelf{books: map[string]int{"Emma": 2, "Ulysses": 1}})
	if *address != "" {
		log.Fatal(http.ListenAndServe(*address, endpoint(s)))
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
