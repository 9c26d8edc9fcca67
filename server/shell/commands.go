package shell

import (
	"context"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
)

// progressEvery is the interval of progress reports.
const progressEvery = 200 * time.Millisecond

// maxLast is how many bytes of the output a progress report has.
const maxLast = 2000

// commands is the service with run_command.
type commands struct{ shell *Shell }

// Annotations returns the annotations of all methods.
func (*commands) Annotations() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}}
}

type runCommandIn struct {
	_           server.ToolTag `idempotent:"false" tags:"commands"`
	Command     string         `json:"command" jsonschema:"minLength=1,maxLength=100000"`                   // shell command, run in the workspace
	Timeout     float64        `json:"timeout,omitempty" jsonschema:"minimum=0.1,maximum=3600,default=120"` // seconds until the command and its processes are killed
	Credentials []string       `json:"credentials,omitempty" jsonschema:"maxItems=8"`                       // names of credentials: each is an environment variable of the command
}

// A commandResult is the outcome of a command.
type commandResult struct {
	ExitCode  int    `json:"exit_code"` // 128 plus the signal number if a signal ended the command
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated"` // the output is incomplete; usually its end is kept
	TimedOut  bool   `json:"timed_out"`
}

// RunCommand runs a command and waits for its end. Processes that it leaves in the background
// are killed: use run_background for them. Each command is a new shell: use session_open for
// commands that share a directory and variables. The command has no standard input.
func (c *commands) RunCommand(ctx context.Context, r *server.Request, in runCommandIn) (commandResult, error) {
	ctx, end, err := c.shell.begin(ctx)
	if err != nil {
		return commandResult{}, err
	}
	defer end()
	command := c.shell.command(process.Shell(in.Command))
	if command.Secrets, err = c.shell.credentials.secrets(in.Credentials); err != nil {
		return commandResult{}, err
	}
	return c.shell.runToEnd(ctx, r, command, in.Timeout)
}

// runToEnd runs a command and waits for its end. After a timeout in seconds its processes are killed. The caller has called
// begin.
func (s *Shell) runToEnd(ctx context.Context, r *server.Request, command *process.Command, seconds float64) (commandResult, error) {
	timeout, cancel := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
	defer cancel()
	stdout, stderr := process.Output{Max: s.maxOutput}, process.Output{Max: s.maxOutput}
	command.Stdout, command.Stderr = &stdout, &stderr
	p, err := s.guard.Start(command)
	if err != nil {
		return commandResult{}, err
	}
	exit, err := p.Follow(timeout, progressEvery, progressOf(timeout, r), &stdout, &stderr)
	if err != nil {
		exit = p.Stop()
	}
	if ctx.Err() != nil {
		return commandResult{}, context.Cause(ctx) // the caller has cancelled the call, or the shell is closed
	}
	return commandResult{
		ExitCode: exit.Code, Stdout: stdout.Text(), Stderr: stderr.Text(),
		Truncated: exit.Truncated || max(stdout.Written(), stderr.Written()) > int64(s.maxOutput), TimedOut: err != nil,
	}, nil
}

// progressOf returns a function that reports the newest output of a command as progress.
func progressOf(ctx context.Context, r *server.Request) func(written int64, last []byte) {
	return func(written int64, last []byte) {
		last = last[max(0, len(last)-maxLast):]
		_ = r.Progress(ctx, float64(written), 0, strings.ToValidUTF8(strings.TrimSpace(string(last)), "\uFFFD")) // an error means that the caller does not listen
	}
}
