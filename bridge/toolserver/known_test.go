package toolserver_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newKnownRig is a tool server with two servers of the operator's, behind the same middleware
// and guards.
func newKnownRig(t *testing.T, opts toolserver.Options) (*toolRig, *shelf) {
	t.Helper()
	files := newShelf()
	known := newBridge(t, to("files", files), to("tools", newTools()))
	opts.States = known.States
	opts.Server = serving(t, &server.Options{Middleware: opts.Middleware, Guards: opts.Guards, CallMiddleware: opts.CallMiddleware}, known)
	return newToolRig(t, opts), files
}

func TestKnownServersAreCalledByName(t *testing.T) {
	rig, _ := newKnownRig(t, toolserver.Options{})
	files := rig.runner(t, "files", toolserver.ServerParams{})
	result, err := files.Run(t.Context(), "stat", nil)
	if err != nil || string(result) != `{ "size" : 12345678901234567890 }` {
		t.Errorf("the result is %s, %v", result, err)
	}
	_, err = files.Run(t.Context(), "fail", nil)
	wantKind(t, err, toolserver.ToolError)
	_, err = files.Run(t.Context(), "stat_", nil)
	wantKind(t, err, toolserver.UnknownTool)
	_, err = rig.runner(t, "unknown", toolserver.ServerParams{}).Run(t.Context(), "stat", nil)
	wantKind(t, err, toolserver.UnknownServer)
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
	rig, files := newKnownRig(t, toolserver.Options{Replace: true})
	_, err := rig.runner(t, "files", childParams("serve")).Run(t.Context(), "tool-1", nil)
	wantKind(t, err, toolserver.Conflict)
	if files.calls.Load() != 0 {
		t.Error("the operator's server was called")
	}
}

func TestResetEndsCallsOfKnownServers(t *testing.T) {
	rig, files := newKnownRig(t, toolserver.Options{})
	failed := make(chan error, 1)
	go func() {
		_, err := rig.runner(t, "files", toolserver.ServerParams{}).Run(context.Background(), "slow", nil)
		failed <- err
	}()
	<-files.entered
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, <-failed, toolserver.Reset)
	if cause := <-files.left; cause == nil {
		t.Error("the call goes on")
	}
	if _, err := rig.runner(t, "files", toolserver.ServerParams{}).Run(t.Context(), "read", nil); err != nil {
		t.Error(err)
	}
}

// A run that waits for a person goes on after a reset, of whichever server its tool is.
func TestResetLeavesQuestions(t *testing.T) {
	rig, files := newKnownRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	for name, params := range map[string]toolserver.ServerParams{"files": {}, "mine": childParams("serve")} {
		done := make(chan error, 1)
		go func() {
			_, err := rig.runner(t, name, params).Run(context.Background(), map[string]string{"files": "read", "mine": "tool-1"}[name], nil)
			done <- err
		}()
		question := approver.next(t)
		if err := rig.Reset(t.Context()); err != nil {
			t.Error(err)
		}
		approver.decide(t, question, "true")
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := files.calls.Load(); n != 1 {
		t.Errorf("%d calls were made", n)
	}
}

// One guard is for both kinds of servers, and asks about the same that it decides about.
func TestOneGuardIsForAllRuns(t *testing.T) {
	rules := compiled(t, `{"rules":[
		{"name":"ask","effect":"ask","servers":["files","launched:mine"],"names":["read","touch"]},
		{"name":"rest","effect":"allow","names":["stat","tool-1"]}
	]}`)
	approver := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: r.Server == "files" && r.Tool == "read" && r.ToolDigest != "", Reason: r.Server + "." + r.Tool}, nil
	})
	guard := approval.Guard(rules, approver, &approval.Options{Logger: quiet()})
	rig, _ := newKnownRig(t, toolserver.Options{Guards: []mcp.Guard{guard}})
	mark := filepath.Join(t.TempDir(), "mark")
	for _, c := range []struct {
		server string
		params toolserver.ServerParams
		tool   string
		kind   toolserver.Kind
	}{
		{"files", toolserver.ServerParams{}, "read", ""},
		{"files", toolserver.ServerParams{}, "stat", ""},
		{"files", toolserver.ServerParams{}, "echo", toolserver.Forbidden},
		{"mine", childParams("serve"), "tool-1", ""},
		{"mine", childParams("serve"), "touch", toolserver.Rejected},
		{"mine", childParams("serve"), "echo", toolserver.Forbidden},
	} {
		_, err := rig.runner(t, c.server, c.params).Run(t.Context(), c.tool, map[string]string{"path": mark})
		if c.kind == "" && err != nil || c.kind != "" && !errors.Is(err, c.kind) {
			t.Errorf("%s.%s: %v, want %q", c.server, c.tool, err, string(c.kind))
		}
	}
}

func TestAskingAboutAKnownToolRunsNothing(t *testing.T) {
	rig, files := newKnownRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	done := make(chan error, 1)
	go func() {
		done <- rig.runner(t, "files", toolserver.ServerParams{}).Approve(context.Background(), "read", nil)
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

// A tool that a caller cannot see is unknown to it, by whatever route.
func TestHiddenToolIsUnknown(t *testing.T) {
	hides := mcp.Guard{Name: "hides", Visible: func(_ context.Context, c *mcp.Caller, t *mcp.Target) bool { return t.Origin.Name != "read" }}
	rig, files := newKnownRig(t, toolserver.Options{Guards: []mcp.Guard{hides}})
	runner := rig.runner(t, "files", toolserver.ServerParams{})
	_, err := runner.Run(t.Context(), "read", nil)
	wantKind(t, err, toolserver.UnknownTool)
	wantKind(t, runner.Approve(t.Context(), "read", nil), toolserver.UnknownTool)
	if files.calls.Load() != 0 {
		t.Error("the tool was called")
	}
}

// A tool that a launched server does not have is told apart from arguments that it refuses.
func TestUnknownToolOfALaunchedServer(t *testing.T) {
	rig := newToolRig(t, toolserver.Options{})
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "no-such-tool", nil)
	wantKind(t, err, toolserver.UnknownTool)
	_, err = runner.Run(t.Context(), "picky", nil)
	wantKind(t, err, "invalid_params")
}

// A run by the name that the bridge has for a renamed tool is of no tool.
func TestRunsNameNoOtherTool(t *testing.T) {
	files := newShelf()
	renamed := to("files", files)
	renamed.Rename = map[string]string{"read": "get"}
	known := newBridge(t, renamed)
	rig := newToolRig(t, toolserver.Options{Server: serving(t, nil, known), States: known.States})
	_, err := rig.runner(t, "files", toolserver.ServerParams{}).Run(t.Context(), "get", nil)
	wantKind(t, err, toolserver.UnknownTool)
	if n := files.calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}
