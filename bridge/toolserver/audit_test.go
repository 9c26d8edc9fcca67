package toolserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestAuditOfRuns: each run has one record with its own outcome.
func TestAuditOfRuns(t *testing.T) {
	var log frontendtest.Log
	approve := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: true}, nil
	})
	rig, files := newOperatorRig(t, toolserver.Options{
		VerifyFirst: true, Launch: refuseDir, Middleware: []mcp.Middleware{(&gateway.Audit{Logger: log.Logger()}).Middleware},
		Guards: []mcp.Guard{approval.Guard(frontendtest.Compile(t, askAlways), approve, &approval.Options{Logger: frontendtest.Quiet()})},
	})
	run := func(server, tool string, params toolserver.ServerParams) error {
		_, err := rig.runner(t, server, params).Run(t.Context(), tool, nil)
		return err
	}
	for _, c := range []struct {
		server, tool string
		params       toolserver.ServerParams
		outcome      string
		kind         string
	}{
		{"files", "read", toolserver.ServerParams{}, "ok", ""},
		{"files", "stat_", toolserver.ServerParams{}, "unknown_tool", "unknown_tool"},
		{"unknown", "read", toolserver.ServerParams{}, "unknown_server", "unknown_server"},
		{"files", "read", childParams("serve"), "conflict", "conflict"},
		{"mine", "tool-1", toolserver.ServerParams{Command: "/bin/sh", Dir: "/"}, "launch_refused", "launch_refused"},
		{"mine", "tool-1", toolserver.ServerParams{Command: "/no/such/program"}, "start_failed", "start_failed"},
		{"mine", "no-such-tool", childParams("serve"), "unknown_tool", "unknown_tool"},
		{"mine", "tool-1", childParams("serve"), "ok", ""},
	} {
		before := len(log.Records(t, "call"))
		err := run(c.server, c.tool, c.params)
		if c.kind == "" && err != nil || c.kind != "" {
			wantCode(t, err, c.kind)
		}
		records := log.Records(t, "call")[before:]
		if len(records) != 1 || records[0]["outcome"] != c.outcome {
			t.Errorf("%s.%s has the records %v, want one of %s", c.server, c.tool, records, c.outcome)
		}
	}
	if err := rig.runner(t, "files", toolserver.ServerParams{}).Approve(t.Context(), "read", nil); err != nil {
		t.Error(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- run("files", "slow", toolserver.ServerParams{}) }()
	waittest.Receive(t, "the request for a file", files.Entered)
	if err := rig.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	wantCode(t, waittest.Receive(t, "the end of the call", failed), "reset")
	records := log.Records(t, "call")
	if first, second := records[len(records)-2]["outcome"], records[len(records)-1]["outcome"]; first != "only_asked" || second != "reset" {
		t.Errorf("the last outcomes are %v and %v", first, second)
	}
}

// refuseDir refuses servers with a working directory.
func refuseDir(_ context.Context, s *config.Resolved) error {
	if s.Dir.Reveal() != "" {
		return errors.New("only here")
	}
	return nil
}

// TestNothingIsStartedThatThePolicyDenies: a denied run starts no server, even with
// VerifyFirst, and has a record.
func TestNothingIsStartedThatThePolicyDenies(t *testing.T) {
	var log frontendtest.Log
	audit := &gateway.Audit{Logger: log.Logger()}
	guard := approval.Guard(frontendtest.Compile(t, `{"rules":[{"name":"none","effect":"deny"}]}`), nil, &approval.Options{Logger: frontendtest.Quiet(), GuardOptions: policy.GuardOptions{OnDecision: audit.OnDecision}})
	rig := newRig(t, toolserver.Options{
		VerifyFirst: true, Middleware: []mcp.Middleware{audit.Middleware}, Guards: []mcp.Guard{guard},
		Launch: func(context.Context, *config.Resolved) error {
			t.Error("it is asked whether what is denied may be launched")
			return nil
		},
	})
	mark := filepath.Join(t.TempDir(), "mark")
	runner := rig.runner(t, "a", toolserver.ServerParams{Command: "/usr/bin/touch", Args: []string{mark}})
	_, err := runner.Run(t.Context(), "t", nil)
	wantCode(t, err, "forbidden")
	wantCode(t, runner.Approve(t.Context(), "t", nil), "forbidden")
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
	if n := len(log.Records(t, "call")); n != 2 {
		t.Errorf("there are %d records of 2 runs", n)
	}
}

// TestVerifyFirstWithoutGuards: VerifyFirst works without guards.
func TestVerifyFirstWithoutGuards(t *testing.T) {
	rig := newRig(t, toolserver.Options{VerifyFirst: true})
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "no-such-tool", nil)
	wantCode(t, err, "unknown_tool")
	wantCode(t, runner.Approve(t.Context(), "no-such-tool", nil), "unknown_tool")
	startOf(t, runner)
}

// TestIncompleteParams: params without a command or a URL are invalid.
func TestIncompleteParams(t *testing.T) {
	for name, params := range map[string]toolserver.ServerParams{
		"args": {Args: []string{"x"}}, "env": {Env: map[string]string{"A": "1"}}, "dir": {Dir: "/"}, "headers": {Headers: map[string]string{"A": "1"}},
	} {
		if _, err := toolserver.NewRunner("http://localhost", "s", &toolserver.RunnerOptions{Params: params}); err == nil {
			t.Errorf("%s alone are taken for nothing", name)
		}
	}
}

// TestLongestSecretsAreRedactedFirst: a secret that contains another is redacted completely.
func TestLongestSecretsAreRedactedFirst(t *testing.T) {
	rig := newRig(t, noGuards())
	for range 10 { // the order of a map varies
		params := toolserver.ServerParams{Command: "/no/such/password123", Env: map[string]string{"A": "pass", "B": "password123", "C": "word"}}
		_, err := rig.runner(t, "a", params).Run(t.Context(), "t", nil)
		wantCode(t, err, "start_failed")
		if err == nil || !strings.Contains(err.Error(), "/no/such/[redacted]:") {
			t.Fatalf("the error is %v", err)
		}
	}
}
