package process

import (
	"context"
	"fmt"
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
// that is a *[FailedError].
func (g *Guard) Output(ctx context.Context, c *Command, most int) (string, error) {
	command, stdout, stderr := *c, &Output{Most: most}, &Output{}
	command.Stdout, command.Stderr = stdout, stderr
	exit, err := g.Run(ctx, &command)
	if err == nil && exit.Code != 0 {
		err = &FailedError{exit, stderr.String()}
	}
	return stdout.String(), err
}
