// Command library lends books.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/mcp"
	mcpserver "github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A shelf has the books.
type shelf struct {
	books map[string]int // copies by title
	calls atomic.Int64

	server *mcpserver.Server
}

// read is the function of a resource, too.
func (r *shelf) read(_ context.Context, req *mcpserver.Request) (*mcp.ReadResourceResult, error) {
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
func (s *shelf) lend(_ context.Context, req *mcpserver.Request, in lendIn) (lendOut, error) {
	left, ok := s.books[in.Title]
	if !ok {
		return lendOut{}, fmt.Errorf("no book %q", in.Title)
	}
	if in.Copies > left { // more than there are
		return lendOut{}, fmt.Errorf("only %d left", left)
	}
	return lendOut{Left: left - max(1, in.Copies)}, nil
}

// find has content only.
func (s *shelf) find(_ context.Context, _ *mcpserver.Request, in struct {
	Word string `json:"word"`
}) (*mcp.CallToolResult, error) {
	var found []mcp.Content
	for title := range s.books {
		if strings.Contains(title, in.Word) {
			found = append(found, &mcp.TextContent{Text: title})
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no title has %q", in.Word)
	}
	return &mcp.CallToolResult{Content: found}, nil
}

// cover reads the image of a cover.
func cover(ctx context.Context, req *mcpserver.Request) (*mcp.CallToolResult, error) {
	if req == nil || len(req.Call().Member("arguments")) == 0 {
		return nil, fmt.Errorf("no arguments")
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
	}}, nil
}

func rules(_ context.Context, req *mcpserver.Request) (*mcp.ReadResourceResult, error) {
	if req.Call().URI() == "library://none" {
		return nil, mcp.ResourceNotFound(req.Call().URI())
	}
	return &mcp.ReadResourceResult{
		Contents: []mcp.ResourceContents{
			&mcp.TextResourceContents{URI: req.Call().URI(), MIMEType: "text/plain", Text: "Be quiet."},
			&mcp.BlobResourceContents{URI: req.Call().URI() + "/seal", MIMEType: "image/png", Blob: []byte("seal")},
		},
	}, nil
}

func recommend(_ context.Context, r *mcpserver.Request, req map[string]string) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{
		Description: "A book to read next",
		Messages: []mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Recommend a book like " + req["title"]}},
			{Role: mcp.Role("assistant"), Content: &mcp.TextContent{Text: "It is short."}},
		},
	}, nil
}

// count has content of its own beside the structured output.
func (s *shelf) count(_ context.Context, _ *mcpserver.Request, _ struct{}) (mcpserver.Result[lendOut], error) {
	if len(s.books) == 0 {
		return mcpserver.Result[lendOut]{Value: lendOut{}}, errEmpty
	}
	out := lendOut{Left: len(s.books)}
	return mcpserver.Result[lendOut]{Value: out, Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%d books", out.Left)}}}, nil
}

func newServer(s *shelf) *mcpserver.Server {
	server := mcpserver.New(mcp.Implementation{Name: "library", Version: "1.0.0"}, &mcpserver.Options{
		Middleware:   []mcp.Middleware{s.counted, withShelf(s)},
		Instructions: "Find before you lend.",
	})

	// Tools
	mcpserver.AddTool(server, mcpserver.Tool{
		Name:        "lend",
		Description: "Lends copies of a book.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: new(false), Title: "Lend"},
	}, s.lend)
	finding := mcpserver.Tool{Name: "find", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}
	mcpserver.AddTool(server, finding, s.find)
	mcpserver.AddTool(server, mcpserver.Tool{Name: "count", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, s.count)
	s.server = server
	mcpserver.AddTool(server, mcpserver.Tool{Name: "shelve"}, s.shelve)
	mcpserver.AddTool(server, mcpserver.Tool{Name: "cover", InputSchema: coverSchema}, func(ctx context.Context, r *mcpserver.Request, _ json.RawMessage) (*mcp.CallToolResult, error) {
		return cover(ctx, r)
	})
	mcpserver.AddTool(server, mcpserver.Tool{Name: "open", InputSchema: coverSchema}, func(ctx context.Context, req *mcpserver.Request, _ json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "open: " + req.Call().Target().Name}}}, nil
	})

	mcpserver.AddResource(server, mcpserver.Resource{Name: "rules", URI: "library://rules", MIMEType: "text/plain"}, rules)
	mcpserver.AddTemplate(server, mcpserver.Template{Name: "page", URITemplate: "library://page/{number}"}, func(ctx context.Context, r *mcpserver.Request, _ map[string]string) (*mcp.ReadResourceResult, error) {
		return s.read(ctx, r)
	})
	mcpserver.AddPrompt(server, mcpserver.Prompt{
		Name:      "recommend",
		Arguments: []mcp.PromptArgument{{Name: "title", Description: "a book that you liked", Required: true}},
	}, recommend)
	return server
}

func endpoint(s *mcpserver.Server) httptransport.Endpoint {
	return streamable.Handler(s, nil)
}

func main() {
	address := flag.String("http", "", "serve HTTP at this address")
	flag.Parse()
	s := newServer(&shelf{books: map[string]int{"Emma": 2, "Ulysses": 1}})
	if *address != "" {
		log.Fatal(http.ListenAndServe(*address, endpoint(s)))
	}
	if err := stdio.Serve(context.Background(), s, nil); err != nil {
		log.Fatal(err)
	}
}
