package toolserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestResetReportsWhatHasNotEnded: every reset reports calls and processes that have not ended.
func TestResetReportsWhatHasNotEnded(t *testing.T) {
	entered, release := make(chan struct{}, 3), make(chan struct{})
	known, err := gateway.NewPseudo(map[string]gateway.ToolFunc{
		"stuck": func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			entered <- struct{}{}
			<-release
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	rig := newRig(t, toolserver.Options{Server: frontendtest.Operator(t, server.Options{}, known), Grace: 50 * time.Millisecond})
	done := runLater(context.Background(), rig.runner(t, "stuck", toolserver.ServerParams{}), "t", nil)
	waittest.Receive(t, "the entry into the handler", entered)
	for range 2 {
		if err := rig.Reset(t.Context()); err == nil {
			t.Error("it is over, while a call goes on")
		}
		if status, answer, err := rig.send(t.Context(), "PUT", "/reset", ""); status != 504 {
			t.Errorf("the response is %d %s, %v", status, answer, err)
		}
	}
	close(release)
	wantCode(t, waittest.Receive(t, "the end of the call", done), "reset")
	if err := rig.Reset(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestResetWaitsForProcessesThatStay(t *testing.T) {
	rig := newRig(t, toolserver.Options{Grace: 50 * time.Millisecond})
	mark := filepath.Join(t.TempDir(), "mark")
	stays := toolserver.ServerParams{Command: "/bin/sh", Args: []string{"-c", `echo $$ >` + mark + `.new; mv ` + mark + `.new ` + mark + `; while :; do sleep 0.1; done`}}
	done := runLater(context.Background(), rig.runner(t, "a", stays), "t", nil)
	awaitFile(t, mark)
	for range 2 {
		if err := rig.Reset(t.Context()); err == nil {
			t.Error("it is over, while a process runs")
		}
	}
	wantCode(t, waittest.Receive(t, "the end of the call", done), "reset")
	var pid int
	text, _ := os.ReadFile(mark)
	if err := json.Unmarshal(text, &pid); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "there is nothing to wait for", func() bool { return rig.Reset(t.Context()) == nil })
	if isRunning(pid) {
		t.Error("it is over, while the process runs")
	}
}

// TestResetEndsAllConcurrently: a slow call does not delay the end of others.
func TestResetEndsAllConcurrently(t *testing.T) {
	entered, ended, release := make(chan struct{}, 3), make(chan struct{}, 3), make(chan struct{})
	known, err := gateway.NewPseudo(map[string]gateway.ToolFunc{
		"slow": func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			entered <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			<-release
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	rig := newRig(t, toolserver.Options{Server: frontendtest.Operator(t, server.Options{}, known), Grace: time.Minute})
	done := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := rig.runner(t, "slow", toolserver.ServerParams{}).Run(context.Background(), "t", nil)
			done <- err
		}()
		waittest.Receive(t, "the entry into the handler", entered)
	}
	reset := make(chan error, 1)
	go func() { reset <- rig.Reset(context.Background()) }()
	for range 3 {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("a call goes on until another one has ended")
		}
	}
	close(release)
	if err := waittest.Receive(t, "the reset", reset); err != nil {
		t.Error(err)
	}
	for range 3 {
		wantCode(t, waittest.Receive(t, "the end of the call", done), "reset")
	}
}

// TestCloseAtApproval: a call that is approved while the tool server is closed is either not
// executed, or not reported as not executed.
func TestCloseAtApproval(t *testing.T) {
	for range 300 {
		var executed atomic.Bool
		known, err := gateway.NewPseudo(map[string]gateway.ToolFunc{
			"known": func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
				executed.Store(true)
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		asked, approve := make(chan struct{}), make(chan struct{})
		approver := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			close(asked)
			<-approve
			return approval.Answer{Approved: true}, nil
		})
		guard := approval.Guard(frontendtest.Compile(t, askAlways), approver, &approval.Options{Logger: frontendtest.Quiet()})
		tools, err := toolserver.New(&toolserver.Options{Server: frontendtest.Operator(t, server.Options{Guards: []mcp.Guard{guard}}, known), Logger: frontendtest.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		response := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			body := strings.NewReader(`{"server_name":"known","server_params":{},"tool_name":"t","tool_args":{}}`)
			request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/run", body)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+tools.Authenticator().Token())
			tools.ServeHTTP(response, request)
		}()
		waittest.Receive(t, "the question", asked)
		go close(approve)
		if err := tools.Close(); err != nil {
			t.Error(err)
		}
		waittest.Receive(t, "the end of the call", done)
		if text := response.Body.String(); executed.Load() && strings.Contains(text, "not executed") || !strings.Contains(text, "closed") {
			t.Fatalf("executed %v: %s", executed.Load(), text)
		}
	}
}

// TestRoomIsMadeAmongOwnServers: a principal's own idle server is stopped first.
func TestRoomIsMadeAmongOwnServers(t *testing.T) {
	rig := newRig(t, toolserver.Options{MaxServers: 2})
	other := startOf(t, rig.runnerAs(t, frontendtest.TokenTwo, "z", childParams("serve"))) // the longest idle
	first := startOf(t, rig.runnerAs(t, frontendtest.TokenOne, "a", childParams("serve")))
	startOf(t, rig.runnerAs(t, frontendtest.TokenOne, "b", childParams("serve")))
	if isRunning(first.PID) || !isRunning(other.PID) {
		t.Error("the room was made among another's servers")
	}
}

// TestNoPrincipalTakesAllServers: a principal at its limit stops one of its own servers only.
func TestNoPrincipalTakesAllServers(t *testing.T) {
	rig := newRig(t, toolserver.Options{MaxServers: 3, MaxServersPerCaller: 2})
	const one, two = frontendtest.TokenOne, frontendtest.TokenTwo
	other := startOf(t, rig.runnerAs(t, two, "z", childParams("serve"))) // the longest idle
	first := startOf(t, rig.runnerAs(t, one, "a", childParams("serve")))
	startOf(t, rig.runnerAs(t, one, "b", childParams("serve")))
	startOf(t, rig.runnerAs(t, one, "c", childParams("serve")))
	if isRunning(first.PID) || !isRunning(other.PID) {
		t.Error("the room was made among another's servers")
	}
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, name := range []string{"b", "c"} {
		go func() {
			_, err := rig.runnerAs(t, one, name, childParams("serve")).Run(ctx, "wait", map[string]string{"path": mark + name})
			ended <- err
		}()
		awaitFile(t, mark+name)
	}
	_, err := rig.runnerAs(t, one, "d", childParams("serve")).Run(t.Context(), "start", nil)
	wantCode(t, err, "busy")
	startOf(t, rig.runnerAs(t, two, "z", childParams("serve")))
	cancel()
	for range 2 {
		if err := waittest.Receive(t, "the end of the call", ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestInterruptedRunsSayWhetherTheyWereExecuted: a run that ends before its call was sent says so.
func TestInterruptedRunsSayWhetherTheyWereExecuted(t *testing.T) {
	const unsent, maybe = "the call was not executed", "the call may have been executed"
	check := func(t *testing.T, err error, code string, want string) {
		t.Helper()
		wantCode(t, err, code)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %q, want one that says %q", err, want)
		}
	}
	silent := func(mark string) toolserver.ServerParams {
		return toolserver.ServerParams{Command: "/bin/sh", Args: []string{"-c", `echo 1 >` + mark + `; exec sleep 60`}}
	}
	t.Run("closed before", func(t *testing.T) {
		rig := newRig(t, toolserver.Options{})
		startOf(t, rig.runner(t, "a", childParams("serve")))
		if err := rig.Close(); err != nil {
			t.Fatal(err)
		}
		for _, params := range []toolserver.ServerParams{childParams("serve"), {}} {
			_, err := rig.runner(t, "a", params).Run(t.Context(), "start", nil)
			check(t, err, "closed", unsent)
		}
	})
	for name, interrupt := range map[string]struct {
		fn   func(*rig) error
		code string
	}{
		"closed": {func(r *rig) error { return r.Close() }, "closed"},
		"reset":  {func(r *rig) error { return r.Reset(context.Background()) }, "reset"},
	} {
		t.Run(name+" while the server starts", func(t *testing.T) {
			rig := newRig(t, toolserver.Options{})
			mark := filepath.Join(t.TempDir(), "mark")
			failed := runLater(context.Background(), rig.runner(t, "a", silent(mark)), "t", nil)
			awaitFile(t, mark)
			if err := interrupt.fn(rig); err != nil {
				t.Fatal(err)
			}
			check(t, waittest.Receive(t, "the end of the call", failed), interrupt.code, unsent)
		})
		t.Run(name+" while the tool runs", func(t *testing.T) {
			rig := newRig(t, toolserver.Options{})
			mark := filepath.Join(t.TempDir(), "mark")
			failed := runLater(context.Background(), rig.runner(t, "a", childParams("serve")), "wait", map[string]string{"path": mark})
			awaitFile(t, mark)
			if err := interrupt.fn(rig); err != nil {
				t.Fatal(err)
			}
			check(t, waittest.Receive(t, "the end of the call", failed), interrupt.code, maybe)
		})
	}
	t.Run("closed while a person decides", func(t *testing.T) {
		rig := newRig(t, gated(t, approval.Options{}, false))
		approver := rig.approve(t)
		failed := runLater(context.Background(), rig.runner(t, "a", childParams("serve")), "start", nil)
		approver.next(t)
		if err := rig.Close(); err != nil {
			t.Fatal(err)
		}
		check(t, waittest.Receive(t, "the end of the call", failed), "closed", unsent)
	})
	t.Run("replaced while it starts", func(t *testing.T) {
		rig := newRig(t, toolserver.Options{Conflict: toolserver.Restart})
		mark := filepath.Join(t.TempDir(), "mark")
		failed := runLater(context.Background(), rig.runner(t, "a", silent(mark)), "t", nil)
		awaitFile(t, mark)
		startOf(t, rig.runner(t, "a", childParams("serve")))
		check(t, waittest.Receive(t, "the end of the call", failed), "conflict", unsent)
	})
	t.Run("too slow while it starts", func(t *testing.T) {
		rig := newRig(t, toolserver.Options{CallTimeout: 200 * time.Millisecond})
		failed := runLater(context.Background(), rig.runner(t, "a", silent(filepath.Join(t.TempDir(), "mark"))), "t", nil)
		check(t, waittest.Receive(t, "the end of the call", failed), "call_timeout", unsent)
	})
}
