package gateway_test

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
	"github.com/dovetail-go/dovetail/mcp"
)

// refuseDir lets nobody launch a server that runs elsewhere.
func refuseDir(_ context.Context, s *config.Resolved) error {
	if s.Dir.Reveal() != "" {
		return errors.New("only here")
	}
	return nil
}

// TestNothingIsStartedThatThePolicyDenies: neither to look for a tool, and there is a record of
// what was denied.
func TestNothingIsStartedThatThePolicyDenies(t *testing.T) {
	known := emptyDirectory(t)
	var log ledger
	audit := &gateway.Audit{Logger: log.logger(), Directory: known}
	enforcer := &gateway.Enforcer{Policy: compiled(t, `{"rules":[{"name":"none","effect":"deny"}]}`), Locate: known.Locate, Decided: audit.Decided}
	gate := gateway.Gate(known.Describe, enforcer, nil, &approval.Options{Logger: quiet()})
	rig := newToolRig(t, gateway.ToolServerOptions{
		Known: known, VerifyFirst: true, Around: []mcp.Middleware{audit.Intercept, enforcer.Intercept, gate},
		Launch: func(context.Context, *config.Resolved) error {
			t.Error("it is asked whether what is denied may be launched")
			return nil
		},
	})
	mark := filepath.Join(t.TempDir(), "mark")
	runner := rig.runner(t, "a", gateway.ServerParams{Command: "/usr/bin/touch", Args: []string{mark}})
	_, err := runner.Run(t.Context(), "t", nil)
	wantKind(t, err, gateway.RunForbidden)
	wantKind(t, runner.Approve(t.Context(), "t", nil), gateway.RunForbidden)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
	if n := len(log.records(t, "call")); n != 2 {
		t.Errorf("there are %d records of 2 runs", n)
	}
}

// TestVerifyFirstWithoutAGate: the tool is looked for all the same.
func TestVerifyFirstWithoutAGate(t *testing.T) {
	rig := newToolRig(t, gateway.ToolServerOptions{VerifyFirst: true})
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "no-such-tool", nil)
	wantKind(t, err, gateway.RunUnknownTool)
	wantKind(t, runner.Approve(t.Context(), "no-such-tool", nil), gateway.RunUnknownTool)
	startOf(t, runner)
}

// TestApproveNeedsItsMark: an approver who was not told that nothing would be run has approved
// something else.
func TestApproveNeedsItsMark(t *testing.T) {
	approve := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: true}, nil
	})
	gate := gateway.Gate(func(context.Context, *mcp.Call) (approval.Target, error) {
		return approval.Target{Server: "files", Tool: "read"}, nil
	}, nil, approve, &approval.Options{Logger: quiet()})
	rig, files := newKnownRig(t, gateway.ToolServerOptions{Around: []mcp.Middleware{gate}})
	runner := rig.runner(t, "files", gateway.ServerParams{})
	if err := runner.Approve(t.Context(), "read", nil); err == nil || files.calls.Load() != 0 {
		t.Errorf("it is approved, %v, after %d calls", err, files.calls.Load())
	}
	if _, err := runner.Run(t.Context(), "read", nil); err != nil {
		t.Error(err)
	}
}

// TestParamsThatAreMoreThanNothing do not stand for a known server.
func TestParamsThatAreMoreThanNothing(t *testing.T) {
	for name, params := range map[string]gateway.ServerParams{
		"args": {Args: []string{"x"}}, "env": {Env: map[string]string{"A": "1"}}, "dir": {Dir: "/"}, "headers": {Headers: map[string]string{"A": "1"}},
	} {
		if _, err := gateway.NewRunner("http://localhost", "s", &gateway.RunnerOptions{Params: params}); err == nil {
			t.Errorf("%s alone are taken for nothing", name)
		}
	}
}

// TestLongestSecretsAreTakenOutFirst: one that begins another leaves nothing of that.
func TestLongestSecretsAreTakenOutFirst(t *testing.T) {
	rig := newToolRig(t, gatedNever())
	for range 10 { // the order of variables is not always the same
		params := gateway.ServerParams{Command: "/no/such/password123", Env: map[string]string{"A": "pass", "B": "password123", "C": "word"}}
		_, err := rig.runner(t, "a", params).Run(t.Context(), "t", nil)
		wantKind(t, err, gateway.RunNotStarted)
		if err == nil || !strings.Contains(err.Error(), "/no/such/[redacted]:") {
			t.Fatalf("the error is %v", err)
		}
	}
}
