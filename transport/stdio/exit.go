package stdio

import (
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// An ExitError says how a server's process has ended.
type ExitError struct {
	// Err is how, as exec.Cmd.Wait says; nil for exit status 0.
	Err error
	// Stderr is the end of what the process wrote to standard error.
	Stderr string
}

// Error is the process's end and the last line it wrote to standard error.
func (e *ExitError) Error() string {
	how := "exit status 0"
	if e.Err != nil {
		how = e.Err.Error()
	}
	if line := lastLine(e.Stderr); line != "" {
		return fmt.Sprintf("the server's process has ended: %s: %.256q", how, line)
	}
	return "the server's process has ended: " + how
}

// Unwrap returns how the process ended, and that the connection is closed.
func (e *ExitError) Unwrap() []error {
	if e.Err == nil {
		return []error{jsonrpc.ErrClosed}
	}
	return []error{jsonrpc.ErrClosed, e.Err}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
