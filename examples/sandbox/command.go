package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
)

const (
	maxOutput     = 64 << 10               // bytes that are kept of what a command writes to each stream
	progressEvery = 200 * time.Millisecond // how often callers are told how a command gets on
)

// Commands are the tools that run programs, below a guard: what they start ends with them.
type Commands struct {
	guard *process.Guard
	dir   string

	mu  sync.Mutex
	env []string
}

// Annotations: a command may do anything.
func (*Commands) Annotations() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}}
}

// RunCommandIn are the arguments of [Commands.RunCommand].
type RunCommandIn struct {
	_       server.ToolTag `idempotent:"false" tags:"commands"`
	Command string         `json:"command" jsonschema:"minLength=1,maxLength=100000"`                   // what the shell runs, in the workspace
	Timeout float64        `json:"timeout,omitempty" jsonschema:"minimum=0.1,maximum=3600,default=120"` // seconds until it is ended, with all that it has started
}

// A CommandResult is how a command ended.
type CommandResult struct {
	ExitCode  int    `json:"exit_code"` // 128 and the number of the signal that ended it
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated"` // something of what it wrote is missing: mostly only the end is kept
	TimedOut  bool   `json:"timed_out"`
}

// RunCommand runs a command and waits for its end. What it leaves in the background is ended
// too: use run_background for a program that goes on. It has no input.
func (c *Commands) RunCommand(ctx context.Context, r *server.Request, in RunCommandIn) (CommandResult, error) {
	timeout, cancel := context.WithTimeout(ctx, time.Duration(in.Timeout*float64(time.Second)))
	defer cancel()
	stdout, stderr := process.Output{Most: maxOutput}, process.Output{Most: maxOutput}
	command := c.in(process.Shell(in.Command))
	command.Stdout, command.Stderr = &stdout, &stderr
	p, err := c.guard.Start(command)
	if err != nil {
		return CommandResult{}, err
	}
	exit, err := p.Follow(timeout, progressEvery, func(written int64, last []byte) {
		last = last[max(0, len(last)-workspace.MaxLine):]
		_ = r.Progress(timeout, float64(written), 0, strings.ToValidUTF8(strings.TrimSpace(string(last)), "\uFFFD")) // who does not listen need not
	}, &stdout, &stderr)
	if err != nil {
		exit = p.Stop()
	}
	if ctx.Err() != nil {
		return CommandResult{}, context.Cause(ctx) // nobody waits for it
	}
	return CommandResult{
		ExitCode: exit.Code, Stdout: stdout.Text(), Stderr: stderr.Text(),
		Truncated: exit.Cut || stdout.Written() > maxOutput || stderr.Written() > maxOutput, TimedOut: err != nil,
	}, nil
}

// in has a command run in the workspace, with the variables that commands get.
func (c *Commands) in(command *process.Command) *process.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	command.Dir, command.Env = c.dir, slices.Concat(c.env, command.Env)
	return command
}

// set gives later commands one more variable, or another value of it.
func (c *Commands) set(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env = append(slices.DeleteFunc(c.env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), name+"="+value)
}
