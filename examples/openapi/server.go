package main

import (
	_ "embed"
	"regexp"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
)

// document describes the service. Most services publish theirs.
//
//go:embed notes.yaml
var document []byte

// newServer offers the service at a URL to MCP clients.
func newServer(url, key string) (*server.Server, error) {
	notes, err := openapi.New(document, &openapi.Options{
		BaseURL:   url,
		Authorize: openapi.Credentials{"key": key}.Authorize,
		Rules: []openapi.Rule{
			{Tags: []string{"admin"}, Expose: openapi.Excluded},
			{Path: regexp.MustCompile(`^/notes/\{id\}$`), Methods: []string{"GET"}, Expose: openapi.AsResource},
			{
				OperationID: regexp.MustCompile("^listNotes$"), Name: "search",
				Description: "Find notes by their tags. Each note can be read as a resource of its own.",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	s := server.New(mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	return s, s.Mount(notes, nil)
}
