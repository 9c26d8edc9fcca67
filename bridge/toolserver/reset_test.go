package toolserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
)

// TestResetTellsWhatHasNotEnded: however often it is asked, and of calls and processes alike.
func TestResetTellsWhatHasNotEnded(t *testing.T) {
	entered, release := make(chan struct{}, 3), make(chan struct{})
	known, err := gateway.Pseudo(map[string]gateway.ToolFunc{
		"stuck": func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			entered <- struct{}{}
			<-release
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	rig := newToolRig(t, toolserver.Options{Server: serving(t, nil, known), Grace: 50 * time.Millisecond})
	done := make(chan error, 1)
	go func() {
		_, err := rig.runner(t, "stuck", toolserver.ServerParams{}).Run(context.Background(), "t", nil)
		done <- err
	}()
	<-entered
	for range 2 {
		if err := rig.Reset(t.Context()); err == nil {
			t.Error("it is over, while a call goes on")
		}
		if status, answer, err := rig.send(t.Context(), "PUT", "/reset", ""); status != 504 {
			t.Errorf("a caller is told %d %s, %v", status, answer, err)
		}
	}
	close(release)
	wantKind(t, <-done, toolserver.Reset)
	if err := rig.Reset(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestResetWaitsForProcessesThatStay(t *testing.T) {
	rig := newToolRig(t, toolserver.Options{Grace: 50 * time.Millisecond})
	mark := filepath.Join(t.TempDir(), "mark")
	stays := toolserver.ServerParams{Command: "/bin/sh", Args: []string{"-c", `echo $$ >` + mark + `.new; mv ` + mark + `.new ` + mark + `; while :; do sleep 0.1; done`}}
	done := make(chan error, 1)
	go func() {
		_, err := rig.runner(t, "a", stays).Run(context.Background(), "t", nil)
		done <- err
	}()
	awaitFile(t, mark)
	for range 2 {
		if err := rig.Reset(t.Context()); err == nil {
			t.Error("it is over, while a process runs")
		}
	}
	wantKind(t, <-done, toolserver.Reset)
	var pid int
	text, _ := os.ReadFile(mark)
	if err := json.Unmarshal(text, &pid); err != nil {
		t.Fatal(err)
	}
	await(t, "there is nothing to wait for", func() bool { return rig.Reset(t.Context()) == nil })
	if isRunning(pid) {
		t.Error("it is over, while the process runs")
	}
}

// TestResetEndsAllAtOnce: a call that takes its time keeps no other going.
func TestResetEndsAllAtOnce(t *testing.T) {
	entered, ended, release := make(chan struct{}, 3), make(chan struct{}, 3), make(chan struct{})
	known, err := gateway.Pseudo(map[string]gateway.ToolFunc{
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
	rig := newToolRig(t, toolserver.Options{Server: serving(t, nil, known), Grace: time.Minute})
	done := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := rig.runner(t, "slow", toolserver.ServerParams{}).Run(context.Background(), "t", nil)
			done <- err
		}()
		<-entered
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
	if err := <-reset; err != nil {
		t.Error(err)
	}
	for range 3 {
		wantKind(t, <-done, toolserver.Reset)
	}
}

// TestRoomIsMadeAmongOnesOwn: whoever needs a place gives up one of its own, if it has any.
func TestRoomIsMadeAmongOnesOwn(t *testing.T) {
	rig := newToolRig(t, toolserver.Options{MaxServers: 2})
	other := startOf(t, rig.runnerAs(t, "a-token-of-sandbox-two", "z", childParams("serve"))) // idle for longest
	first := startOf(t, rig.runnerAs(t, "a-token-of-sandbox-one", "a", childParams("serve")))
	startOf(t, rig.runnerAs(t, "a-token-of-sandbox-one", "b", childParams("serve")))
	if isRunning(first.PID) || !isRunning(other.PID) {
		t.Error("the room was made among another's servers")
	}
}

// TestNoPrincipalTakesAllPlaces: one that has as many servers as it may have makes room among its
// own, and leaves the others theirs.
func TestNoPrincipalTakesAllPlaces(t *testing.T) {
	rig := newToolRig(t, toolserver.Options{MaxServers: 3, MaxServersPerCaller: 2})
	const one, two = "a-token-of-sandbox-one", "a-token-of-sandbox-two"
	other := startOf(t, rig.runnerAs(t, two, "z", childParams("serve"))) // idle for longest
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
	wantKind(t, err, toolserver.Busy)
	startOf(t, rig.runnerAs(t, two, "z", childParams("serve")))
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
