package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shelve reports to the client how far it is, and says that the rules have changed.
func (s *shelf) shelve(ctx context.Context, req *mcp.CallToolRequest, in struct {
	Titles string `json:"titles"`
}) (*mcp.CallToolResult, any, error) {
	logger := slog.New(mcp.NewLoggingHandler(req.Session, &mcp.LoggingHandlerOptions{LoggerName: "shelve"}))
	titles := strings.Fields(in.Titles)
	for i, title := range titles {
		logger.InfoContext(ctx, "shelved", "title", title)
		if token := req.Params.GetProgressToken(); token != nil {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token,
				Message:       title, // what the user sees
				Progress:      float64(i + 1),
				Total:         float64(len(titles)),
			}); err != nil {
				return nil, nil, err
			}
		}
	}
	_ = s.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "library://rules"})
	s.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "library://page/1"})
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%d shelved", len(titles))}}}, nil, nil
}
