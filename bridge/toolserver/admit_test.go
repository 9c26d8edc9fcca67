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
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
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
	var log ledger
	audit := &gateway.Audit{Logger: log.logger()}
	guard := approval.Guard(compiled(t, `{"rules":[{"name":"none","effect":"deny"}]}`), nil, &approval.Options{Logger: quiet(), GuardOptions: policy.GuardOptions{Decided: audit.Decided}})
	rig := newToolRig(t, toolserver.Options{
		VerifyFirst: true, Middleware: []mcp.Middleware{audit.Intercept}, Guards: []mcp.Guard{guard},
		Launch: func(context.Context, *config.Resolved) error {
			t.Error("it is asked whether what is denied may be launched")
			return nil
		},
	})
	mark := filepath.Join(t.TempDir(), "mark")
	runner := rig.runner(t, "a", toolserver.ServerParams{Command: "/usr/bin/touch", Args: []string{mark}})
	_, err := runner.Run(t.Context(), "t", nil)
	wantKind(t, err, toolserver.Forbidden)
	wantKind(t, runner.Approve(t.Context(), "t", nil), toolserver.Forbidden)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
	if n := len(log.records(t, "call")); n != 2 {
		t.Errorf("there are %d records of 2 runs", n)
	}
}

// TestVerifyFirstWithoutAGate: the tool is looked for all the same.
func TestVerifyFirstWithoutAGate(t *testing.T) {
	rig := newToolRig(t, toolserver.Options{VerifyFirst: true})
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "no-such-tool", nil)
	wantKind(t, err, toolserver.UnknownTool)
	wantKind(t, runner.Approve(t.Context(), "no-such-tool", nil), toolserver.UnknownTool)
	startOf(t, runner)
}

// TestParamsThatAreMoreThanNothing do not stand for a known server.
func TestParamsThatAreMoreThanNothing(t *testing.T) {
	for name, params := range map[string]toolserver.ServerParams{
		"args": {Args: []string{"x"}}, "env": {Env: map[string]string{"A": "1"}}, "dir": {Dir: "/"}, "headers": {Headers: map[string]string{"A": "1"}},
	} {
		if _, err := toolserver.NewRunner("http://localhost", "s", &toolserver.RunnerOptions{Params: params}); err == nil {
			t.Errorf("%s alone are taken for nothing", name)
		}
	}
}

// TestLongestSecretsAreTakenOutFirst: one that begins another leaves nothing of that.
func TestLongestSecretsAreTakenOutFirst(t *testing.T) {
	rig := newToolRig(t, gatedNever())
	for range 10 { // the order of variables is not always the same
		params := toolserver.ServerParams{Command: "/no/such/password123", Env: map[string]string{"A": "pass", "B": "password123", "C": "word"}}
		_, err := rig.runner(t, "a", params).Run(t.Context(), "t", nil)
		wantKind(t, err, toolserver.NotStarted)
		if err == nil || !strings.Contains(err.Error(), "/no/such/[redacted]:") {
			t.Fatalf("the error is %v", err)
		}
	}
}
