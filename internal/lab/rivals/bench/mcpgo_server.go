package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
)

// mcpGoPause is how long count waits for the channel that its notifications go through.
const mcpGoPause = 100 * time.Microsecond

// newMCPGoServer has echo or count, or neither for Kind List and Cold, and w.Tools
// tools besides. It validates arguments by an option, as the others do by themselves;
// results, for which there is another, it does not.
func newMCPGoServer(w Work) *mcpgoserver.MCPServer {
	s := mcpgoserver.NewMCPServer("bench", "1",
		mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithInputSchemaValidation())
	switch {
	case w.Kind == List || w.Kind == Cold:
	case w.Kind == Progress:
		addMCPGoCount(s, w)
	case w.Raw:
		addMCPGoRaw(s)
	default:
		s.AddTool(mcpGoTool[Echo](echoTool, ""), mcpgo.NewStructuredToolHandler(echoMCPGo[Echo]))
	}
	for i, add := range coldMCPGo()[:w.Tools] {
		add(s, coldName(i))
	}
	return s
}

// addMCPGo adds a tool that takes and gives back a T, by a pointer: see cold_generate.go.
func addMCPGo[T any](s *mcpgoserver.MCPServer, name string) {
	s.AddTool(mcpGoTool[T](name, coldDescription), mcpgo.NewStructuredToolHandler(echoMCPGo[*T]))
}

// mcpGoTool describes a tool that takes and gives a T.
func mcpGoTool[T any](name, description string) mcpgo.Tool {
	return mcpgo.NewTool(name, mcpgo.WithDescription(description), mcpgo.WithInputSchema[T](), mcpgo.WithOutputSchema[T]())
}

func echoMCPGo[T any](_ context.Context, _ mcpgo.CallToolRequest, in T) (T, error) { return in, nil }

// addMCPGoRaw adds echo by the library's untyped way. It gives arguments and takes
// structured content as they came.
func addMCPGoRaw(s *mcpgoserver.MCPServer) {
	s.AddTool(mcpgo.NewToolWithRawSchema(echoTool, "", json.RawMessage(echoSchema)),
		func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultStructured(r.Params.RawArguments, string(r.Params.RawArguments)), nil
		})
}

// addMCPGoCount adds count. Notifications go through a channel that takes a hundred,
// and the answer does not wait for those in it: count waits for room, and in the end
// for the channel to be empty. One that has been taken out, but is not yet written,
// may be lost all the same.
func addMCPGoCount(s *mcpgoserver.MCPServer, w Work) {
	s.AddTool(mcpgo.NewTool(countTool), func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		for i := range w.Units {
			if err := mcpGoNotify(ctx, s, map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1, "total": w.Units,
			}); err != nil {
				return nil, err
			}
		}
		for waiting := mcpgoserver.ClientSessionFromContext(ctx).NotificationChannel(); len(waiting) > 0; {
			time.Sleep(mcpGoPause)
		}
		return mcpgo.NewToolResultText(counted), nil
	})
}

// mcpGoNotify sends a notification of progress, once there is room for it.
func mcpGoNotify(ctx context.Context, s *mcpgoserver.MCPServer, params map[string]any) error {
	for {
		err := s.SendNotificationToClient(ctx, "notifications/progress", params)
		if !errors.Is(err, mcpgoserver.ErrNotificationChannelBlocked) || ctx.Err() != nil {
			return err
		}
		time.Sleep(mcpGoPause)
	}
}
