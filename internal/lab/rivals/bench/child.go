package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// childVariable holds an errand, in the environment of a process that is to do it
// instead of the measurement.
const childVariable = "DOVETAIL_BENCH_CHILD"

// An errand is what a child process does.
type errand struct {
	Peer string
	Task string
	Work Work
}

const (
	serveTask = "serve"
	buildTask = "build"
	idleTask  = "idle"
)

// child is this program once more, as a process that does a task. It has not been started.
func child(ctx context.Context, task, peer string, w Work) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(errand{peer, task, w})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"="+string(encoded))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// runErrand does what the environment says; done is false when it says nothing.
func runErrand(ctx context.Context, peers []Peer) (done bool, err error) {
	said, ok := os.LookupEnv(childVariable)
	if !ok {
		return false, nil
	}
	os.Unsetenv(childVariable)
	var e errand
	if err := json.Unmarshal([]byte(said), &e); err != nil {
		return true, err
	}
	for _, p := range peers {
		if p.Name() == e.Peer {
			return true, e.run(ctx, p)
		}
	}
	return true, fmt.Errorf("there is no peer %q", e.Peer)
}

func (e *errand) run(ctx context.Context, p Peer) error {
	switch e.Task {
	case serveTask:
		return p.Serve(ctx, e.Work)
	case buildTask:
		return build(p.(coldStarter), e.Work, os.Stdout)
	case idleTask:
		return idle(p.(idler), e.Work, os.Stdin, os.Stdout)
	}
	return fmt.Errorf("there is no task %q", e.Task)
}
