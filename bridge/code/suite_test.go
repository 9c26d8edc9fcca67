package code_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/internal/test/guardtests"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// scripts makes the calls of suites with scripts.
func scripts() *approvaltests.Caller {
	return &approvaltests.Caller{
		New: func(source server.Provider, guards []mcp.Guard, logger *slog.Logger) (server.Provider, error) {
			return code.New(source, &code.Options{Engine: engine(), Guards: guards, Limits: code.Limits{Computing: time.Minute}, Logger: logger})
		},
		Params: func(target *mcp.Target, arguments json.RawMessage) any {
			script := fmt.Sprintf("await %s.%s(%s)", cmp.Or(target.Origin.Server, "tools"), cmp.Or(target.Origin.Name, target.Name), arguments)
			return map[string]any{"name": code.ScriptTool, "arguments": map[string]string{"script": script}}
		},
		Prefix: "c1/",
	}
}

// TestApprovalsOfCallsOfScripts runs the tests of approvals with the calls of scripts.
func TestApprovalsOfCallsOfScripts(t *testing.T) {
	engine() // outside of virtual time
	fewer := 20
	if racetest.Enabled {
		fewer = 100
	}
	approvaltests.Suite{Guarded: scripts().Guarded, Carried: true, Fewer: fewer}.Run(t)
}

// TestGuardsOfCallsOfScripts runs the tests of guards with the calls of scripts.
func TestGuardsOfCallsOfScripts(t *testing.T) {
	guardtests.Through(scripts(), true).Run(t)
}
