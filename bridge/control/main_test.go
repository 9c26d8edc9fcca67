package control_test

import (
	"context"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// asServer makes the binary of the tests an MCP server.
const asServer = "CONTROL_TEST_SERVER"

// guard is set by TestMain.
var guard *process.Guard

func TestMain(m *testing.M) {
	guard = process.Main()
	if os.Getenv(asServer) != "" {
		s := server.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
		server.AddTool(s, server.Tool{Name: "greet"}, func(context.Context, *server.Request, struct{}) (string, error) { return "hello", nil })
		if err := stdio.Serve(context.Background(), s, nil); err != nil {
			os.Exit(1)
		}
		return
	}
	// Guard processes of a test with the race detector would wait a second each when they end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	leaktest.Main(m)
}
