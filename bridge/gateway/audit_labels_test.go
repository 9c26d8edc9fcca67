package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestCallersMakeNoSeries: whatever names they make up, of a pseudo-server's tools and of servers
// that they launch.
func TestCallersMakeNoSeries(t *testing.T) {
	skills := func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }
	known, err := gateway.NewDirectory(newBridge(t, to("files", newShelf())), &gateway.DirectoryOptions{Pseudo: map[string]gateway.ToolFunc{"skills": skills}})
	if err != nil {
		t.Fatal(err)
	}
	var log ledger
	var metrics gateway.Metrics
	around := []mcp.Middleware{(&gateway.Audit{Logger: log.logger(), Directory: known, Counters: &metrics}).Intercept}
	rig := newToolRig(t, gateway.ToolServerOptions{Known: known, Around: around})
	for i := range 3 {
		name := fmt.Sprintf("made_up_%d", i)
		for server, params := range map[string]gateway.ServerParams{name: {Command: "/no/such/program"}, "skills": {}, "unknown": {}} {
			_, _ = rig.runner(t, server, params).Run(t.Context(), name, nil) // most fail
		}
	}
	g := gateway.New(known, &gateway.Options{Around: around, Access: newAccess(t, gateway.AccessOptions{Open: true}), Logger: quiet()})
	send(g.REST(nil), "POST", "/tools/call", `{"name":"skills__`+strings.Repeat("made_up", 100_000)+`"}`)
	send(g.REST(nil), "POST", "/tools/files__read", `{}`)
	shown := shownBy(&metrics)
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
	known, files := newKnown(t)
	var log ledger
	approve := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: true}, nil
	})
	around := []mcp.Middleware{
		(&gateway.Audit{Logger: log.logger(), Directory: known}).Intercept,
		gateway.Gate(known.Describe, nil, approve, &approval.Options{Logger: quiet()}),
	}
	rig := newToolRig(t, gateway.ToolServerOptions{Known: known, VerifyFirst: true, Launch: refuseDir, Around: around})
	run := func(server, tool string, params gateway.ServerParams) error {
		_, err := rig.runner(t, server, params).Run(t.Context(), tool, nil)
		return err
	}
	for _, c := range []struct {
		server, tool string
		params       gateway.ServerParams
		outcome      string
		kind         gateway.RunKind
	}{
		{"files", "read", gateway.ServerParams{}, "ok", ""},
		{"files", "stat_", gateway.ServerParams{}, "unknown_tool", gateway.RunUnknownTool},
		{"unknown", "read", gateway.ServerParams{}, "unknown_server", gateway.RunUnknownServer},
		{"files", "read", childParams("serve"), "conflict", gateway.RunConflict},
		{"mine", "tool-1", gateway.ServerParams{Command: "/bin/sh", Dir: "/"}, "launch_refused", gateway.RunNoLaunch},
		{"mine", "tool-1", gateway.ServerParams{Command: "/no/such/program"}, "start_failed", gateway.RunNotStarted},
		{"mine", "no-such-tool", childParams("serve"), "unknown_tool", gateway.RunUnknownTool},
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
	if err := rig.runner(t, "files", gateway.ServerParams{}).Approve(t.Context(), "read", nil); err != nil {
		t.Error(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- run("files", "slow", gateway.ServerParams{}) }()
	<-files.entered
	if err := rig.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	wantKind(t, <-failed, gateway.RunReset)
	records := log.records(t, "call")
	if first, second := records[len(records)-2]["outcome"], records[len(records)-1]["outcome"]; first != "only_asked" || second != "reset" {
		t.Errorf("the last outcomes are %v and %v", first, second)
	}
}
