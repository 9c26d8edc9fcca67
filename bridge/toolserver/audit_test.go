package toolserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A ledger takes records, for a test to read.
type ledger struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *ledger) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *ledger) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// records are those with a message, in their order.
func (l *ledger) records(t *testing.T, message string) (records []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record["msg"] == message {
			records = append(records, record)
		}
	}
	return records
}

// TestCallersMakeNoSeries: whatever names they make up, of a pseudo-server's tools and of servers
// that they launch.
func TestCallersMakeNoSeries(t *testing.T) {
	skills := func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }
	pseudo, err := gateway.Pseudo(map[string]gateway.ToolFunc{"skills": skills})
	if err != nil {
		t.Fatal(err)
	}
	var log ledger
	var metrics gateway.Metrics
	middleware := []mcp.Middleware{(&gateway.Audit{Logger: log.logger(), Counters: &metrics}).Intercept}
	known := newBridge(t, to("files", newShelf()))
	operator := serving(t, &server.Options{Middleware: middleware}, known, pseudo)
	rig := newToolRig(t, toolserver.Options{Server: operator, States: known.States, Middleware: middleware})
	for i := range 3 {
		name := fmt.Sprintf("made_up_%d", i)
		for server, params := range map[string]toolserver.ServerParams{name: {Command: "/no/such/program"}, "skills": {}, "unknown": {}} {
			_, _ = rig.runner(t, server, params).Run(t.Context(), name, nil) // most fail
		}
	}
	for _, tool := range []string{strings.Repeat("made_up", 30), "read"} {
		_, _ = rig.runner(t, map[bool]string{true: "files", false: "skills"}[tool == "read"], toolserver.ServerParams{}).Run(t.Context(), tool, nil)
	}
	page := httptest.NewRecorder()
	metrics.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
	shown := page.Body.String()
	if len(shown) > 2000 || strings.Contains(shown, "made_up") {
		t.Errorf("callers have made series:\n%.3000s", shown)
	}
	for _, line := range []string{
		`{method="tools/call",server="(launched)",tool="(unknown)",outcome="start_failed"} 3`,
		`{method="tools/call",server="skills",tool="(unknown)",outcome="ok"} 4`,
		`{method="tools/call",server="(unknown)",tool="(unknown)",outcome="unknown_server"} 3`,
		`{method="tools/call",server="files",tool="read",outcome="ok"} 1`,
	} {
		if !strings.Contains(shown, line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, shown)
		}
	}
	if len(log.records(t, "call")) != 11 {
		t.Errorf("there are %d records", len(log.records(t, "call")))
	}
}

// TestAuditOfRuns: each run has a record, with an outcome of its own, whatever refuses it.
func TestAuditOfRuns(t *testing.T) {
	var log ledger
	approve := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: true}, nil
	})
	rig, files := newKnownRig(t, toolserver.Options{
		VerifyFirst: true, Launch: refuseDir, Middleware: []mcp.Middleware{(&gateway.Audit{Logger: log.logger()}).Intercept},
		Guards: []mcp.Guard{approval.Guard(compiled(t, askAlways), approve, &approval.Options{Logger: quiet()})},
	})
	run := func(server, tool string, params toolserver.ServerParams) error {
		_, err := rig.runner(t, server, params).Run(t.Context(), tool, nil)
		return err
	}
	for _, c := range []struct {
		server, tool string
		params       toolserver.ServerParams
		outcome      string
		kind         toolserver.Kind
	}{
		{"files", "read", toolserver.ServerParams{}, "ok", ""},
		{"files", "stat_", toolserver.ServerParams{}, "unknown_tool", toolserver.UnknownTool},
		{"unknown", "read", toolserver.ServerParams{}, "unknown_server", toolserver.UnknownServer},
		{"files", "read", childParams("serve"), "conflict", toolserver.Conflict},
		{"mine", "tool-1", toolserver.ServerParams{Command: "/bin/sh", Dir: "/"}, "launch_refused", toolserver.NoLaunch},
		{"mine", "tool-1", toolserver.ServerParams{Command: "/no/such/program"}, "start_failed", toolserver.NotStarted},
		{"mine", "no-such-tool", childParams("serve"), "unknown_tool", toolserver.UnknownTool},
		{"mine", "tool-1", childParams("serve"), "ok", ""},
	} {
		before := len(log.records(t, "call"))
		err := run(c.server, c.tool, c.params)
		if c.kind == "" && err != nil || c.kind != "" {
			wantKind(t, err, c.kind)
		}
		records := log.records(t, "call")[before:]
		if len(records) != 1 || records[0]["outcome"] != c.outcome {
			t.Errorf("%s.%s has the records %v, want one of %s", c.server, c.tool, records, c.outcome)
		}
	}
	if err := rig.runner(t, "files", toolserver.ServerParams{}).Approve(t.Context(), "read", nil); err != nil {
		t.Error(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- run("files", "slow", toolserver.ServerParams{}) }()
	<-files.entered
	if err := rig.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	wantKind(t, <-failed, toolserver.Reset)
	records := log.records(t, "call")
	if first, second := records[len(records)-2]["outcome"], records[len(records)-1]["outcome"]; first != "only_asked" || second != "reset" {
		t.Errorf("the last outcomes are %v and %v", first, second)
	}
}
