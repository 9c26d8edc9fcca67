package toolserver_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newOperatorRig returns a tool server with two servers of the operator, with the same
// middleware and guards.
func newOperatorRig(t *testing.T, opts toolserver.Options) (*rig, *frontendtest.Upstream) {
	t.Helper()
	files := frontendtest.NewUpstream()
	known := frontendtest.Bridge(t, frontendtest.To("files", files), frontendtest.To("tools", newTools()))
	opts.States = known.States
	opts.Server = frontendtest.Operator(t, server.Options{Middleware: opts.Middleware, Guards: opts.Guards, CallMiddleware: opts.CallMiddleware}, known)
	return newRig(t, opts), files
}

func TestOperatorServersAreCalledByName(t *testing.T) {
	rig, _ := newOperatorRig(t, toolserver.Options{})
	files := rig.runner(t, "files", toolserver.ServerParams{})
	result, err := files.Run(t.Context(), "stat", nil)
	if err != nil || string(result) != `{ "size" : 12345678901234567890 }` {
		t.Errorf("the result is %s, %v", result, err)
	}
	_, err = files.Run(t.Context(), "fail", nil)
	wantCode(t, err, "tool_error")
	_, err = files.Run(t.Context(), "stat_", nil)
	wantCode(t, err, "unknown_tool")
	_, err = rig.runner(t, "unknown", toolserver.ServerParams{}).Run(t.Context(), "stat", nil)
	wantCode(t, err, "unknown_server")
	for _, body := range []string{
		`{"server_name":"files","tool_name":"nothing","tool_args":{}}`,
		`{"server_name":"files","server_params":null,"tool_name":"nothing","tool_args":{}}`,
	} {
		if _, answer, err := rig.send(t.Context(), "POST", "/run", body); err != nil || answer != `{"result":null}` {
			t.Errorf("%s: %s, %v", body, answer, err)
		}
	}
}

// TestOperatorServersAreNotShadowed: callers cannot launch servers under the names of the
// operator's servers.
func TestOperatorServersAreNotShadowed(t *testing.T) {
	rig, files := newOperatorRig(t, toolserver.Options{Conflict: toolserver.Restart})
	_, err := rig.runner(t, "files", childParams("serve")).Run(t.Context(), "tool-1", nil)
	wantCode(t, err, "conflict")
	if files.Calls.Load() != 0 {
		t.Error("the operator's server was called")
	}
}

func TestResetEndsCallsOfOperatorServers(t *testing.T) {
	rig, files := newOperatorRig(t, toolserver.Options{})
	failed := runLater(context.Background(), rig.runner(t, "files", toolserver.ServerParams{}), "slow", nil)
	waittest.Receive(t, "the request for a file", files.Entered)
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, waittest.Receive(t, "the end of the call", failed), "reset")
	if cause := waittest.Receive(t, "the end of the request for a file", files.Left); cause == nil {
		t.Error("the call goes on")
	}
	if _, err := rig.runner(t, "files", toolserver.ServerParams{}).Run(t.Context(), "read", nil); err != nil {
		t.Error(err)
	}
}

// TestResetLeavesRequestsForApproval: a run that waits for approval continues after a reset.
func TestResetLeavesRequestsForApproval(t *testing.T) {
	rig, files := newOperatorRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	for name, params := range map[string]toolserver.ServerParams{"files": {}, "mine": childParams("serve")} {
		done := runLater(context.Background(), rig.runner(t, name, params), map[string]string{"files": "read", "mine": "tool-1"}[name], nil)
		question := approver.next(t)
		if err := rig.Reset(t.Context()); err != nil {
			t.Error(err)
		}
		approver.decide(t, question, "true")
		if err := waittest.Receive(t, "the end of the call", done); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := files.Calls.Load(); n != 1 {
		t.Errorf("%d calls were made", n)
	}
}

// TestOneGuardForAllRuns: one guard decides and asks about both kinds of servers.
func TestOneGuardForAllRuns(t *testing.T) {
	rules := frontendtest.Compile(t, `{"rules":[
		{"name":"ask","effect":"ask","servers":["files","launched:mine"],"names":["read","touch"]},
		{"name":"rest","effect":"allow","names":["stat","tool-1"]}
	]}`)
	approver := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: r.Server == "files" && r.Tool == "read" && r.ToolDigest != "", Reason: r.Server + "." + r.Tool}, nil
	})
	guard := approval.Guard(rules, approver, &approval.Options{Logger: frontendtest.Quiet()})
	rig, _ := newOperatorRig(t, toolserver.Options{Guards: []mcp.Guard{guard}})
	mark := filepath.Join(t.TempDir(), "mark")
	for _, c := range []struct {
		server string
		params toolserver.ServerParams
		tool   string
		kind   string
	}{
		{"files", toolserver.ServerParams{}, "read", ""},
		{"files", toolserver.ServerParams{}, "stat", ""},
		{"files", toolserver.ServerParams{}, "echo", "forbidden"},
		{"mine", childParams("serve"), "tool-1", ""},
		{"mine", childParams("serve"), "touch", "rejected"},
		{"mine", childParams("serve"), "echo", "forbidden"},
	} {
		_, err := rig.runner(t, c.server, c.params).Run(t.Context(), c.tool, map[string]string{"path": mark})
		if codeOf(err) != c.kind || c.kind == "" && err != nil {
			t.Errorf("%s.%s: %v, want %q", c.server, c.tool, err, c.kind)
		}
	}
}

func TestApprovingAnOperatorToolRunsNothing(t *testing.T) {
	rig, files := newOperatorRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	done := make(chan error, 1)
	go func() {
		done <- rig.runner(t, "files", toolserver.ServerParams{}).Approve(context.Background(), "read", nil)
	}()
	question := approver.next(t)
	if !strings.Contains(question.Params.Launch, "nothing will be run") {
		t.Errorf("the question does not say that nothing will be run: %q", question.Params.Launch)
	}
	approver.decide(t, question, "true")
	if err := waittest.Receive(t, "the end of the call", done); err != nil {
		t.Error(err)
	}
	if files.Calls.Load() != 0 {
		t.Error("the tool was called")
	}
}

// TestHiddenToolIsUnknown: a tool that a guard hides is unknown on every route.
func TestHiddenToolIsUnknown(t *testing.T) {
	hides := mcp.Guard{Name: "hides", Visible: func(_ context.Context, c *mcp.Caller, t *mcp.Target) bool { return t.Origin.Name != "read" }}
	rig, files := newOperatorRig(t, toolserver.Options{Guards: []mcp.Guard{hides}})
	runner := rig.runner(t, "files", toolserver.ServerParams{})
	_, err := runner.Run(t.Context(), "read", nil)
	wantCode(t, err, "unknown_tool")
	wantCode(t, runner.Approve(t.Context(), "read", nil), "unknown_tool")
	if files.Calls.Load() != 0 {
		t.Error("the tool was called")
	}
}

// TestUnknownToolOfALaunchedServer: the code differs from the code for invalid arguments.
func TestUnknownToolOfALaunchedServer(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "no-such-tool", nil)
	wantCode(t, err, "unknown_tool")
	_, err = runner.Run(t.Context(), "picky", nil)
	wantCode(t, err, "invalid_params")

	// Other servers answer with a failure of the tool.
	runner = rig.runner(t, "b", childParams("fail for unknown tools"))
	_, err = runner.Run(t.Context(), "no-such-tool", nil)
	wantCode(t, err, "unknown_tool")
	_, err = runner.Run(t.Context(), "fail", nil)
	wantCode(t, err, "tool_error")
}

// TestAnyNameOfAServer: the name that a guard gets for a tool differs from the names of all other servers' tools.
func TestAnyNameOfAServer(t *testing.T) {
	var names []string
	guard := mcp.Guard{Name: "record", Check: func(_ context.Context, call *mcp.Call) error {
		names = append(names, call.Target().Name+" of "+call.Target().Origin.Server)
		return nil
	}}
	rig := newRig(t, toolserver.Options{Guards: []mcp.Guard{guard}, Launch: toolserver.LaunchAny})
	want := map[string]string{
		"tools":          "tools__tool-1 of launched:tools",
		"tools__tool":    "launched_tools__tool__tool-1_18f19d8f of launched:tools__tool",
		"@scope/tools 1": "launched__scope_tools_1__tool-1_297bf496 of launched:@scope/tools 1",
	}
	for name, want := range want {
		names = nil
		if _, err := rig.runner(t, name, childParams("serve")).Run(t.Context(), "tool-1", nil); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if len(names) != 1 || names[0] != want {
			t.Errorf("the guard got %q, want %q", names, want)
		}
	}
}

// TestRunsNameNoOtherTool: a run does not call a renamed tool by its new name.
func TestRunsNameNoOtherTool(t *testing.T) {
	files := frontendtest.NewUpstream()
	renamed := frontendtest.To("files", files)
	renamed.Rename = map[string]string{"read": "get"}
	known := frontendtest.Bridge(t, renamed)
	rig := newRig(t, toolserver.Options{Server: frontendtest.Operator(t, server.Options{}, known), States: known.States})
	_, err := rig.runner(t, "files", toolserver.ServerParams{}).Run(t.Context(), "get", nil)
	wantCode(t, err, "unknown_tool")
	if n := files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}
