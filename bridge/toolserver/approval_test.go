package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
)

// TestSecretsAreRedacted: only the launched server gets the secrets of params.
func TestSecretsAreRedacted(t *testing.T) {
	const canary = "canary-of-the-params"
	opts := gated(t, approval.Options{}, false)
	rig := newRig(t, opts)
	approver := rig.approve(t)
	var texts []string
	for _, params := range []toolserver.ServerParams{
		childParams("serve", "API_KEY="+canary),
		childParams("exit", "API_KEY="+canary),
		{URL: "http://user:" + canary + "@127.0.0.1:1/mcp?key=" + canary + "#" + canary, Headers: map[string]string{"X-Key": canary}},
	} {
		runner := rig.runner(t, "a", params)
		failed := runLater(context.Background(), runner, "fail", nil)
		question := approver.next(t)
		approver.decide(t, question, "true")
		texts = append(texts, question.Params.Launch, waittest.Receive(t, "the end of the call", failed).Error(), fmt.Sprintf("%v %+v %#v %s", params, params, params, runner))
		if err := rig.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all := strings.Join(append(texts, rig.log.String()), "\n"); strings.Contains(all, canary) {
		t.Errorf("a secret is revealed:\n%s", all)
	}
	for i, want := range []string{"env API_KEY", "env API_KEY", "http http://[redacted]@127.0.0.1:1/mcp"} {
		if !strings.Contains(texts[3*i], want) {
			t.Errorf("the approver is shown %s, want %s in it", texts[3*i], want)
		}
	}
}

// TestApproversSeeWhatWouldRun: params that differ in anything are shown differently.
func TestApproversSeeWhatWouldRun(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	seen := make(map[string]bool)
	programs := []toolserver.ServerParams{
		{Command: "/bin/one"}, {Command: "/bin/one", Args: []string{"x y"}}, {Command: "/bin/one", Args: []string{"x", "y"}}, {Command: "/bin/one", Dir: "/"},
		{Command: "/bin/one", Env: map[string]string{"A": "1"}}, {Command: "/bin/one", Env: map[string]string{"A": "2"}},
		{URL: "http://127.0.0.1:1/mcp"}, {URL: "http://127.0.0.1:1/mcp?a"}, {URL: "http://127.0.0.1:1/mcp", Type: "sse"}, {URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"A": "1"}},
	}
	for _, params := range programs {
		failed := runLater(context.Background(), rig.runner(t, "a", params), "t", nil)
		question := approver.next(t)
		if seen[question.Params.Launch] {
			t.Errorf("two launches are shown alike: %s", question.Params.Launch)
		}
		seen[question.Params.Launch] = true
		approver.decide(t, question, "false")
		wantCode(t, waittest.Receive(t, "the end of the call", failed), toolserver.Rejected)
	}
}

// TestApprovalsAreSpent: a remembered approval of /approve does not apply to a run.
func TestApprovalsAreSpent(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{Remember: time.Hour}, false))
	approver := rig.approve(t)
	runner := rig.runner(t, "a", childParams("serve"))
	do := func(fn func() error, asks bool) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- fn() }()
		if asks {
			approver.decide(t, approver.next(t), `true,"remember":3600`)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	run := func() error {
		_, err := runner.Run(context.Background(), "tool-1", nil)
		return err
	}
	approve := func() error { return runner.Approve(context.Background(), "tool-1", nil) }
	do(approve, true)
	do(approve, false) // remembered
	do(run, true)      // not for a run
	do(run, false)
}

// TestOnlyTrueApproves: only the JSON value true approves.
func TestOnlyTrueApproves(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{Expiry: 200 * time.Millisecond}, false))
	approver := rig.approve(t)
	mark := filepath.Join(t.TempDir(), "mark")
	for _, result := range []string{`"true"`, `"yes"`, `1`, `{}`, `[true]`, `null`, `"false"`} {
		failed := runLater(context.Background(), rig.runner(t, "a", childParams("serve")), "touch", map[string]string{"path": mark})
		approver.decide(t, approver.next(t), result)
		if err := waittest.Receive(t, "the end of the call", failed); err == nil {
			t.Errorf("%s has approved", result)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the tool has run")
	}
}

// TestDisconnectWithdrawsTheRequest: if the client disconnects, a later approval has no effect.
func TestDisconnectWithdrawsTheRequest(t *testing.T) {
	withdrawn := make(withdrawals, 1)
	rig := newRig(t, gated(t, approval.Options{Journal: withdrawn}, false))
	approver := rig.approve(t)
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, hangUp := context.WithCancel(t.Context())
	runner := rig.runner(t, "a", childParams("serve"))
	failed := runLater(ctx, runner, "touch", map[string]string{"path": mark})
	question := approver.next(t)
	hangUp()
	if err := waittest.Receive(t, "the end of the call", failed); !errors.Is(err, context.Canceled) {
		t.Errorf("the runner's error is %v", err)
	}
	waittest.Receive(t, "the withdrawal", withdrawn)
	approver.decide(t, question, "true")
	failed = runLater(context.Background(), runner, "start", nil)
	approver.decide(t, approver.next(t), "true")
	if err := waittest.Receive(t, "the end of the call", failed); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the tool has run")
	}
}

// withdrawals is a journal that signals withdrawn requests.
type withdrawals chan struct{}

func (w withdrawals) Append(e approval.Entry) error {
	if e.Event == approval.EventWithdrawn {
		w <- struct{}{}
	}
	return nil
}

// TestUndecidedRequestDelaysNoOther: an open request does not delay others.
func TestUndecidedRequestDelaysNoOther(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	ctx, cancel := context.WithCancel(t.Context())
	undecided := runLater(ctx, rig.runner(t, "a", childParams("serve")), "start", nil)
	approver.next(t)
	for range 5 {
		done := runLater(t.Context(), rig.runner(t, "a", childParams("serve")), "tool-1", nil)
		approver.decide(t, approver.next(t), "true")
		if err := waittest.Receive(t, "the end of the call", done); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	waittest.Receive(t, "the undecided request", undecided)
}

// TestBrokenFramesOfApprovers: invalid frames do not close the channel.
func TestBrokenFramesOfApprovers(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	done := runLater(t.Context(), rig.runner(t, "a", childParams("serve")), "tool-1", nil)
	question := approver.next(t)
	for _, frame := range []string{`{`, `{"result":true}`, `[]`, `{"jsonrpc":"2.0","id":"unknown","result":true}`, `{"jsonrpc":"2.0","id":7}`} {
		if err := approver.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	approver.decide(t, question, "true")
	if err := waittest.Receive(t, "the end of the call", done); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFirstAsksAboutNoUnknownTool(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, true))
	approver := rig.approve(t)
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "tool_1", nil)
	wantCode(t, err, toolserver.UnknownTool)
	done := runLater(context.Background(), runner, "tool-1", nil)
	question := approver.next(t)
	if question.Params.Tool != "tool-1" || len(question.Params.Digest) != 64 {
		t.Errorf("the approver is asked about %+v", question.Params)
	}
	if err := rig.Reset(t.Context()); err != nil { // the call goes to a new process
		t.Fatal(err)
	}
	approver.decide(t, question, "true")
	if err := waittest.Receive(t, "the end of the call", done); err != nil {
		t.Error(err)
	}
}

// TestNothingIsStartedBeforeApproval: no server is started before the run is approved.
func TestNothingIsStartedBeforeApproval(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	failed := make(chan error, 1)
	mark := filepath.Join(t.TempDir(), "mark")
	go func() {
		_, err := rig.runner(t, "a", toolserver.ServerParams{Command: "/usr/bin/touch", Args: []string{mark}}).Run(context.Background(), "t", nil)
		failed <- err
	}()
	approver.decide(t, approver.next(t), "false")
	wantCode(t, waittest.Receive(t, "the end of the call", failed), toolserver.Rejected)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
}
