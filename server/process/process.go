package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/procgroup"
)

// A Process is a command that has been started.
type Process struct {
	cmd         *exec.Cmd
	child       *procgroup.Child
	stopTimeout time.Duration
	secrets     []string     // values that the output must not contain
	unread      atomic.Int32 // output streams that have not been read to their end
	input       *os.File     // nil without [Command].Input
	writing     sync.Mutex   // serializes writes, each of which has its own deadline

	mu    sync.Mutex
	ended bool
	exit  Exit // immutable once done is closed

	done chan struct{}
}

// An Exit describes how a command ended.
type Exit struct {
	// Code is the exit status. As in a shell, it is 128 plus the number of the signal that
	// ended the command, and 127 if the command could not be started.
	Code int
	// Stopped reports that [Process.Stop] was called before the command had ended.
	Stopped bool
	// Truncated reports that the end of the output is missing: it was not read in time, or a
	// process that has escaped holds the output open.
	Truncated bool
}

var (
	// ErrNoInput is returned by writes to a command without [Command].Input.
	ErrNoInput = errors.New("process: the command has no input")
	// ErrTruncated is returned by [Guard.Output] if [Exit.Truncated] is true.
	ErrTruncated = errors.New("process: the end of the command's output is missing")
)

// A FailedError is returned by [Guard.Output] for a command with a non-zero exit status.
type FailedError struct {
	Exit Exit
	// Stderr is the end of the command's standard error.
	Stderr string
}

// Error returns the command's standard error, or its exit status if that is empty.
func (e *FailedError) Error() string {
	if text := strings.TrimSpace(e.Stderr); text != "" {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return fmt.Sprintf("process: exit status %d", e.Exit.Code)
}

// Run runs a command to its end. If ctx ends first, Run stops the command and returns the
// cause of ctx with the exit.
func (g *Guard) Run(ctx context.Context, c *Command) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	p, err := g.Start(c)
	if err != nil {
		return Exit{}, fmt.Errorf("process: %w", err)
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		exit = p.Stop()
	}
	return exit, err
}

// Output runs a command to its end and returns the last limit bytes of its standard output, 0
// meaning 64 KiB. It ignores the command's Stdout and Stderr. A non-zero exit
// status is a *[FailedError], an output that could not be read completely [ErrTruncated].
func (g *Guard) Output(ctx context.Context, c *Command, limit int) (*Output, error) {
	command, stdout, stderr := *c, &Output{Max: limit}, &Output{}
	command.Stdout, command.Stderr = stdout, stderr
	exit, err := g.Run(ctx, &command)
	switch {
	case err != nil:
	case exit.Code != 0:
		err = &FailedError{exit, stderr.String()}
	case exit.Truncated:
		err = ErrTruncated
	}
	return stdout, err
}

// exited is called once, when the command has ended.
func (p *Process) exited(error) {
	p.mu.Lock()
	p.ended, p.exit.Code, p.exit.Truncated = true, exitCode(p.cmd.ProcessState), p.unread.Load() > 0
	p.mu.Unlock()
	_ = p.CloseInput()
	close(p.done)
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return procgroup.SignalBase + int(status.Signal())
	}
	return state.ExitCode()
}

// Done returns a channel that is closed when the command and all that it started have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the command has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits until the command has ended. If ctx ends first, Wait returns the cause of ctx
// and the command continues.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		if p.Running() {
			return Exit{}, context.Cause(ctx)
		}
	}
	return p.exit, nil
}

// Follow waits as [Process.Wait] does and reports progress: every interval, if outputs have
// received something since, and at the end. written is the number of bytes that outputs have
// received in total; last is the newest part of them that is still kept. Follow calls report
// synchronously.
func (p *Process) Follow(ctx context.Context, interval time.Duration, report func(written int64, last []byte), outputs ...*Output) (Exit, error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	seen := make([]int64, len(outputs))
	progress := func() {
		var written int64
		var last []byte
		for i, output := range outputs {
			text, now, _ := output.Since(seen[i])
			if len(text) > 0 {
				last = text
			}
			seen[i] = now
			written += now
		}
		if last != nil {
			report(written, last)
		}
	}
	for {
		select {
		case <-tick.C:
			progress()
		case <-p.done:
			progress()
			return p.Wait(ctx)
		case <-ctx.Done():
			return p.Wait(ctx)
		}
	}
}

// Interrupt sends SIGINT to the command's process group, as a terminal does for Ctrl+C. It does
// nothing after the command has ended. On Windows it kills the command.
func (p *Process) Interrupt() { p.child.Interrupt() }

// Stop sends SIGTERM to the command, kills what has not ended after its grace, and waits for
// the end. Further calls, and calls after the end, only wait.
func (p *Process) Stop() Exit {
	if p.terminate() {
		select {
		case <-p.done:
		case <-time.After(p.stopTimeout):
			p.child.Kill()
		}
	}
	<-p.done
	return p.exit
}

// terminate sends SIGTERM. It returns false if the command has ended or is being stopped.
func (p *Process) terminate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.exit.Stopped {
		return false
	}
	p.exit.Stopped = true
	p.child.Terminate()
	return true
}

// Write writes to the command's standard input. It blocks until the command has read the
// text or has ended.
func (p *Process) Write(text []byte) (int, error) { return p.WriteWithin(0, text) }

// WriteWithin is [Process.Write] with a timeout, 0 meaning none. After the timeout the error
// is os.ErrDeadlineExceeded; n bytes have been written, and the input stays open. Concurrent
// writes run one after the other. Windows ignores the timeout.
func (p *Process) WriteWithin(timeout time.Duration, text []byte) (n int, err error) {
	if p.input == nil {
		return 0, ErrNoInput
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	if err := p.input.SetWriteDeadline(deadline); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return 0, err
	}
	n, err = p.input.Write(text)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("process: the command does not read its input: wrote %d of %d bytes: %w", n, len(text), os.ErrDeadlineExceeded)
	case err != nil:
		err = fmt.Errorf("process: the command has closed its input: %w", err)
	}
	return n, err
}

// CloseInput closes the command's standard input.
func (p *Process) CloseInput() error {
	if p.input == nil {
		return nil
	}
	return p.input.Close()
}
