package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/server"
)

// step is how long a tool that reports works before it reports again.
const step = 50 * time.Millisecond

// addReports adds tools that say how they get on: log messages and progress.
func addReports(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "test_tool_with_logging", Description: "Logs three messages while it works."}, workLogging)
	server.AddTool(s, server.Tool{Name: "test_logging_tool", Description: "Logs one message if the caller asked for it."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			r.Logger("diagnostics").InfoContext(ctx, "Diagnostic trace logging activated")
			return "Logging evaluated", nil
		})
	server.AddTool(s, server.Tool{Name: "test_log_levels", Description: "Logs one message of each of slog's levels, with attributes."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			logger := r.Logger("levels")
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				logger.Log(ctx, level, "message", "level", level.String())
			}
			return "Logged four messages", nil
		})
	server.AddTool(s, server.Tool{Name: "test_tool_with_progress", Description: "Reports progress three times."}, workReporting)
	server.AddTool(s, server.Tool{
		Name: "test_reconnection", Description: "Hangs up, and takes a while meanwhile.",
	}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Detach(step)
		return "Reconnection test completed successfully.", pause(ctx, 2*step)
	})
}

func workLogging(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
	logger := r.Logger("")
	logger.InfoContext(ctx, "Tool execution started")
	for _, message := range []string{"Tool processing data", "Tool execution completed"} {
		if err := pause(ctx, step); err != nil {
			return "", err
		}
		logger.InfoContext(ctx, message)
	}
	return "Tool with logging executed successfully", nil
}

func workReporting(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
	const total = 100
	for done := 0; done <= total; done += total / 2 {
		if done > 0 {
			if err := pause(ctx, step); err != nil {
				return "", err
			}
		}
		if err := r.Progress(ctx, float64(done), total, fmt.Sprintf("Completed step %d of %d", done, total)); err != nil {
			return "", err
		}
	}
	return "Tool with progress executed successfully", nil
}
