package gateway_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// newKnown is a directory of two servers.
func newKnown(t *testing.T) (*gateway.Directory, *shelf) {
	t.Helper()
	files := newShelf()
	known, err := gateway.NewDirectory(newBridge(t, to("files", files), to("tools", newTools())), nil)
	if err != nil {
		t.Fatal(err)
	}
	return known, files
}

// newKnownRig is a tool server with two servers of the operator's.
func newKnownRig(t *testing.T, opts gateway.ToolServerOptions) (*toolRig, *shelf) {
	t.Helper()
	known, files := newKnown(t)
	opts.Known = known
	return newToolRig(t, opts), files
}

func TestKnownServersAreCalledByName(t *testing.T) {
	rig, _ := newKnownRig(t, gateway.ToolServerOptions{})
	files := rig.runner(t, "files", gateway.ServerParams{})
	result, err := files.Run(t.Context(), "stat", nil)
	if err != nil || string(result) != `{ "size" : 12345678901234567890 }` {
		t.Errorf("the result is %s, %v", result, err)
	}
	_, err = files.Run(t.Context(), "fail", nil)
	wantKind(t, err, gateway.RunToolError)
	_, err = files.Run(t.Context(), "stat_", nil)
	wantKind(t, err, gateway.RunUnknownTool)
	_, err = rig.runner(t, "unknown", gateway.ServerParams{}).Run(t.Context(), "stat", nil)
	wantKind(t, err, gateway.RunUnknownServer)
	for _, body := range []string{
		`{"server_name":"files","tool_name":"nothing","tool_args":{}}`,
		`{"server_name":"files","server_params":null,"tool_name":"nothing","tool_args":{}}`,
	} {
		if _, answer, err := rig.send(t.Context(), "POST", "/run", body); err != nil || answer != `{"result":null}` {
			t.Errorf("%s: %s, %v", body, answer, err)
		}
	}
}

// The names of the operator's servers are the operator's.
func TestKnownServersAreNotShadowed(t *testing.T) {
	rig, files := newKnownRig(t, gateway.ToolServerOptions{Replace: true})
	_, err := rig.runner(t, "files", childParams("serve")).Run(t.Context(), "tool-1", nil)
	wantKind(t, err, gateway.RunConflict)
	if files.calls.Load() != 0 {
		t.Error("the operator's server was called")
	}
}

func TestResetEndsCallsOfKnownServers(t *testing.T) {
	rig, files := newKnownRig(t, gateway.ToolServerOptions{})
	failed := make(chan error, 1)
	go func() {
		_, err := rig.runner(t, "files", gateway.ServerParams{}).Run(context.Background(), "slow", nil)
		failed <- err
	}()
	<-files.entered
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, <-failed, gateway.RunReset)
	if cause := <-files.left; cause == nil {
		t.Error("the call goes on")
	}
	if _, err := rig.runner(t, "files", gateway.ServerParams{}).Run(t.Context(), "read", nil); err != nil {
		t.Error(err)
	}
}

// One chain is for both kinds of servers, and asks about the same that it decides about.
func TestOneChainIsForAllRuns(t *testing.T) {
	rules, err := policy.Parse([]byte(`{"rules":[
		{"name":"ask","effect":"ask","servers":["files","launched:mine"],"names":["read","touch"]},
		{"name":"rest","effect":"allow","names":["stat","tool-1"]}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	known, _ := newKnown(t)
	enforcer := &gateway.Enforcer{Policy: compiled, Locate: known.Locate}
	approver := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: r.Server == "files" && r.Tool == "read" && r.ToolDigest != "", Reason: r.Server + "." + r.Tool}, nil
	})
	gate := gateway.Gate(known.Describe, enforcer, approver, &approval.Options{Logger: quiet()})
	rig := newToolRig(t, gateway.ToolServerOptions{Known: known, Around: []mcp.Middleware{gate}})
	mark := filepath.Join(t.TempDir(), "mark")
	for _, c := range []struct {
		server string
		params gateway.ServerParams
		tool   string
		kind   gateway.RunKind
	}{
		{"files", gateway.ServerParams{}, "read", ""},
		{"files", gateway.ServerParams{}, "stat", ""},
		{"files", gateway.ServerParams{}, "echo", gateway.RunForbidden},
		{"mine", childParams("serve"), "tool-1", ""},
		{"mine", childParams("serve"), "touch", gateway.RunRejected},
		{"mine", childParams("serve"), "echo", gateway.RunForbidden},
	} {
		_, err := rig.runner(t, c.server, c.params).Run(t.Context(), c.tool, map[string]string{"path": mark})
		if c.kind == "" && err != nil || c.kind != "" && !errors.Is(err, c.kind) {
			t.Errorf("%s.%s: %v, want %q", c.server, c.tool, err, string(c.kind))
		}
	}
}

func TestAskingAboutAKnownToolRunsNothing(t *testing.T) {
	known, files := newKnown(t)
	opts := gatedBy(t, known.Describe, approval.Options{}, false)
	opts.Known = known
	rig := newToolRig(t, opts)
	approver := rig.approve(t)
	done := make(chan error, 1)
	go func() {
		done <- rig.runner(t, "files", gateway.ServerParams{}).Approve(context.Background(), "read", nil)
	}()
	question := approver.next(t)
	if !strings.Contains(question.Params.Launch, "nothing will be run") {
		t.Errorf("the approver is not told that nothing will be run: %q", question.Params.Launch)
	}
	approver.decide(t, question, "true")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if files.calls.Load() != 0 {
		t.Error("the tool was called")
	}
}
