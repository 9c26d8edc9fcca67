package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// shelve reports to the client how far it is, and says that the rules have changed.
func (s *shelf) shelve(ctx context.Context, req *server.Request, in struct {
	Titles string `json:"titles"`
}) (*mcp.CallToolResult, error) {
	logger := slog.New(req.Logger("shelve").Handler())
	titles := strings.Fields(in.Titles)
	for i, title := range titles {
		logger.InfoContext(ctx, "shelved", "title", title)
		if token := req.Call().ProgressToken(); token != nil {
			if err := req.Progress(
				// what the user sees
				ctx, float64(i+1), float64(len(titles)), title); err != nil {
				return nil, err
			}
		}
	}
	s.server.ResourceUpdated("library://rules")
	s.server.ResourceUpdated("library://page/1")
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%d shelved", len(titles))}}}, nil
}
