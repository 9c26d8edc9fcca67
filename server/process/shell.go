package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Shell is a command that the user's kind of shell runs: bash or sh, on Windows cmd.
func Shell(script string) *Command {
	if runtime.GOOS == "windows" {
		return &Command{Path: "cmd", Args: []string{"/c", script}}
	}
	path := "sh"
	if _, err := exec.LookPath("bash"); err == nil {
		path = "bash"
	}
	return &Command{Path: path, Args: []string{"-c", script}}
}

// Variables are those variables of this process's environment that have one of the names and
// are set, for [Command.Env].
func Variables(names ...string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// A FailedError is the error of a command that has run and failed.
type FailedError struct {
	Exit Exit
	// Stderr is the end of what it wrote there.
	Stderr string
}

// Error is what the command said, or its exit status.
func (e *FailedError) Error() string {
	if said := strings.TrimSpace(e.Stderr); said != "" {
		return strings.ToValidUTF8(said, "\uFFFD")
	}
	return fmt.Sprintf("process: exit status %d", e.Exit.Code)
}

// Output runs a command, whose Stdout and Stderr are not looked at, and returns what it
// writes to its standard output: the last most bytes, 0 being [DefaultKept]. When it fails,
// that is a *[FailedError]; when something that it has written could not be read in time,
// [ErrCut].
func (g *Guard) Output(ctx context.Context, c *Command, most int) (*Output, error) {
	command, stdout, stderr := *c, &Output{Most: most}, &Output{}
	command.Stdout, command.Stderr = stdout, stderr
	exit, err := g.Run(ctx, &command)
	switch {
	case err != nil:
	case exit.Code != 0:
		err = &FailedError{exit, stderr.String()}
	case exit.Cut:
		err = ErrCut
	}
	return stdout, err
}
