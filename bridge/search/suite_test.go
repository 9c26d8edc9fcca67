package search_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestApprovalsOfFoundTools runs the tests of approvals with the calls of CallTool.
func TestApprovalsOfFoundTools(t *testing.T) {
	calls := &approvaltests.Caller{
		New: func(source server.Provider, guards []mcp.Guard) (server.Provider, error) {
			return search.New(source, &search.Options{Guards: guards, Logger: slog.New(slog.DiscardHandler)})
		},
		Params: func(target *mcp.Target, arguments json.RawMessage) any {
			return map[string]any{"name": search.CallTool, "arguments": map[string]any{"name": target.Name, "arguments": arguments}}
		},
		Prefix: "call/",
	}
	approvaltests.Suite{Guarded: calls.Guarded, Fewer: 2}.Run(t)
}
