package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// childVariable is the environment variable that makes this program a child process with a task.
const childVariable = "DOVETAIL_BENCH_CHILD"

// An errand is what a child process does.
type errand struct {
	Peer string
	Task string
	Work Work
}

const (
	serveTask    = "serve"
	serveWebTask = "serve HTTP"
	registerTask = "register"
)

// child returns a command that runs this program with a task, or w.Program.
func child(ctx context.Context, task, peer string, w Work) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(errand{peer, task, w})
	if err != nil {
		return nil, err
	}
	if w.Program != "" {
		program = w.Program
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"="+string(encoded))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// runErrand does the task that the environment names. done is false if it names none.
func runErrand(ctx context.Context, peers []Peer) (done bool, err error) {
	encoded, ok := os.LookupEnv(childVariable)
	if !ok {
		return false, nil
	}
	os.Unsetenv(childVariable)
	var e errand
	if err := json.Unmarshal([]byte(encoded), &e); err != nil {
		return true, err
	}
	p := peerNamed(peers, e.Peer)
	switch e.Task {
	case serveTask:
		return true, p.Serve(ctx, e.Work)
	case serveWebTask:
		return true, serveWeb(p, e.Work, os.Stdin, os.Stdout)
	case registerTask:
		return true, register(p, e.Work, os.Stdout)
	}
	return true, fmt.Errorf("no task %q", e.Task)
}
