package search_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/internal/test/guardtests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// calls makes the calls of suites with CallTool.
func calls() *approvaltests.Caller {
	return &approvaltests.Caller{
		New: func(source server.Provider, guards []mcp.Guard, logger *slog.Logger) (server.Provider, error) {
			return search.New(source, &search.Options{Guards: guards, Logger: logger})
		},
		Params: func(target *mcp.Target, arguments json.RawMessage) any {
			return map[string]any{"name": search.CallTool, "arguments": map[string]any{"name": target.Name, "arguments": arguments}}
		},
		Prefix: "call/",
	}
}

// TestApprovalsOfFoundTools runs the tests of approvals with the calls of CallTool.
func TestApprovalsOfFoundTools(t *testing.T) {
	approvaltests.Suite{Guarded: calls().Guarded, Fewer: 2}.Run(t)
}

// TestGuardsOfFoundTools runs the tests of guards with the calls of CallTool.
func TestGuardsOfFoundTools(t *testing.T) {
	guardtests.Through(calls(), false).Run(t)
}
