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
)

// Secrets of params reach the server, and nobody else.
func TestSecretsOfParamsAreNotTold(t *testing.T) {
	const canary = "canary-of-the-params"
	opts := gated(t, approval.Options{}, false)
	rig := newToolRig(t, opts)
	approver := rig.approve(t)
	var told []string
	for _, params := range []toolserver.ServerParams{
		childParams("serve", "API_KEY="+canary),
		childParams("exit", "API_KEY="+canary),
		{URL: "http://user:" + canary + "@127.0.0.1:1/mcp?key=" + canary + "#" + canary, Headers: map[string]string{"X-Key": canary}},
	} {
		runner := rig.runner(t, "a", params)
		failed := make(chan error, 1)
		go func() {
			_, err := runner.Run(context.Background(), "fail", nil)
			failed <- err
		}()
		question := approver.next(t)
		approver.decide(t, question, "true")
		told = append(told, question.Params.Launch, (<-failed).Error(), fmt.Sprintf("%v %+v %#v %s", params, params, params, runner))
		if err := rig.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all := strings.Join(append(told, rig.log.String()), "\n"); strings.Contains(all, canary) {
		t.Errorf("a secret is told:\n%s", all)
	}
	for i, want := range []string{"env API_KEY", "env API_KEY", "http http://[redacted]@127.0.0.1:1/mcp"} {
		if !strings.Contains(told[3*i], want) {
			t.Errorf("the approver is shown %s, want %s in it", told[3*i], want)
		}
	}
}

// What an approver is shown covers all that decides which program runs.
func TestApproversSeeWhatWouldRun(t *testing.T) {
	rig := newToolRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	seen := make(map[string]bool)
	programs := []toolserver.ServerParams{
		{Command: "/bin/one"}, {Command: "/bin/one", Args: []string{"x y"}}, {Command: "/bin/one", Args: []string{"x", "y"}}, {Command: "/bin/one", Dir: "/"},
		{Command: "/bin/one", Env: map[string]string{"A": "1"}}, {Command: "/bin/one", Env: map[string]string{"A": "2"}},
		{URL: "http://127.0.0.1:1/mcp"}, {URL: "http://127.0.0.1:1/mcp?a"}, {URL: "http://127.0.0.1:1/mcp", Type: "sse"}, {URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"A": "1"}},
	}
	for _, params := range programs {
		failed := make(chan error, 1)
		go func() {
			_, err := rig.runner(t, "a", params).Run(context.Background(), "t", nil)
			failed <- err
		}()
		question := approver.next(t)
		if seen[question.Params.Launch] {
			t.Errorf("two launches are shown alike: %s", question.Params.Launch)
		}
		seen[question.Params.Launch] = true
		approver.decide(t, question, "false")
		wantKind(t, <-failed, toolserver.Rejected)
	}
}

// An approval is for one run, and that of asking is for none.
func TestApprovalsAreSpent(t *testing.T) {
	rig := newToolRig(t, gated(t, approval.Options{Remember: time.Hour}, false))
	approver := rig.approve(t)
	runner := rig.runner(t, "a", childParams("serve"))
	do := func(fn func() error, asks bool) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- fn() }()
		if asks {
			approver.decide(t, approver.next(t), "true")
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
	do(approve, false) // it is remembered
	do(run, true)      // but not for a run
	do(run, false)
}

// Only the JSON value true approves.
func TestOnlyTrueApproves(t *testing.T) {
	rig := newToolRig(t, gated(t, approval.Options{Expiry: 200 * time.Millisecond}, false))
	approver := rig.approve(t)
	mark := filepath.Join(t.TempDir(), "mark")
	for _, result := range []string{`"true"`, `"yes"`, `1`, `{}`, `[true]`, `null`, `"false"`} {
		failed := make(chan error, 1)
		go func() {
			_, err := rig.runner(t, "a", childParams("serve")).Run(context.Background(), "touch", map[string]string{"path": mark})
			failed <- err
		}()
		approver.decide(t, approver.next(t), result)
		if err := <-failed; err == nil {
			t.Errorf("%s has approved", result)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the tool has run")
	}
}

// A client that goes takes its question with it: the tool does not run, even if somebody says
// yes afterwards.
func TestWhoHasGoneRunsNothing(t *testing.T) {
	withdrawn := make(withdrawals, 1)
	rig := newToolRig(t, gated(t, approval.Options{Journal: withdrawn}, false))
	approver := rig.approve(t)
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, hangUp := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	runner := rig.runner(t, "a", childParams("serve"))
	go func() {
		_, err := runner.Run(ctx, "touch", map[string]string{"path": mark})
		failed <- err
	}()
	question := approver.next(t)
	hangUp()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the runner's error is %v", err)
	}
	<-withdrawn
	approver.decide(t, question, "true")
	go func() {
		_, err := runner.Run(context.Background(), "start", nil)
		failed <- err
	}()
	approver.decide(t, approver.next(t), "true")
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the tool has run")
	}
}

// withdrawals is a journal that waits for requests to be withdrawn.
type withdrawals chan struct{}

func (w withdrawals) Append(e approval.Entry) error {
	if e.Event == approval.EventWithdrawn {
		w <- struct{}{}
	}
	return nil
}

// One undecided question delays no other.
func TestUndecidedQuestionDelaysNobody(t *testing.T) {
	rig := newToolRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	ctx, cancel := context.WithCancel(t.Context())
	undecided := make(chan error, 1)
	go func() {
		_, err := rig.runner(t, "a", childParams("serve")).Run(ctx, "start", nil)
		undecided <- err
	}()
	approver.next(t)
	for range 5 {
		done := make(chan error, 1)
		go func() {
			_, err := rig.runner(t, "a", childParams("serve")).Run(t.Context(), "tool-1", nil)
			done <- err
		}()
		approver.decide(t, approver.next(t), "true")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-undecided
}

// A frame that is none costs nobody the channel.
func TestBrokenFramesOfApproversCostNothing(t *testing.T) {
	rig := newToolRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	done := make(chan error, 1)
	go func() {
		_, err := rig.runner(t, "a", childParams("serve")).Run(t.Context(), "tool-1", nil)
		done <- err
	}()
	question := approver.next(t)
	for _, frame := range []string{`{`, `{"result":true}`, `[]`, `{"jsonrpc":"2.0","id":"unknown","result":true}`, `{"jsonrpc":"2.0","id":7}`} {
		if err := approver.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	approver.decide(t, question, "true")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFirstAsksAboutNoUnknownTool(t *testing.T) {
	rig := newToolRig(t, gated(t, approval.Options{}, true))
	approver := rig.approve(t)
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "tool_1", nil)
	wantKind(t, err, toolserver.UnknownTool)
	done := make(chan error, 1)
	go func() {
		_, err := runner.Run(context.Background(), "tool-1", nil)
		done <- err
	}()
	question := approver.next(t)
	if question.Params.Tool != "tool-1" || len(question.Params.Digest) != 64 {
		t.Errorf("the approver is asked about %+v", question.Params)
	}
	if err := rig.Reset(t.Context()); err != nil { // the call will be another process's
		t.Fatal(err)
	}
	approver.decide(t, question, "true")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Until a run has been approved, nothing is started for it.
func TestNothingIsStartedUnasked(t *testing.T) {
	rig := newToolRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	failed := make(chan error, 1)
	mark := filepath.Join(t.TempDir(), "mark")
	go func() {
		_, err := rig.runner(t, "a", toolserver.ServerParams{Command: "/usr/bin/touch", Args: []string{mark}}).Run(context.Background(), "t", nil)
		failed <- err
	}()
	approver.decide(t, approver.next(t), "false")
	wantKind(t, <-failed, toolserver.Rejected)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
}
