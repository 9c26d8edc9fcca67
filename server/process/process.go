package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/spawn"
)

// A Process is a command that has been started.
type Process struct {
	cmd      *exec.Cmd
	child    *spawn.Child
	patience time.Duration
	unread   atomic.Int32 // streams of output whose ends have not been seen
	input    *os.File     // nil: it has none
	writing  sync.Mutex   // of who writes to it, so that each has its own deadline

	mu    sync.Mutex
	ended bool
	exit  Exit // does not change once it has ended

	done chan struct{}
}

// An Exit is how a command ended.
type Exit struct {
	// Code is its exit status. As in a shell, it is 128 and the number of the signal when
	// a signal ended it, and 127 when it could not be started.
	Code int
	// Stopped says that it was told to end.
	Stopped bool
	// Cut says that the end of what it has written is missing: nobody read it in time, or
	// what has escaped holds the output open.
	Cut bool
}

var (
	// ErrNoInput is the error of writing to a command without input.
	ErrNoInput = errors.New("process: the command has no input")
	// ErrCut is the error of [Guard.Output] when [Exit.Cut] is true.
	ErrCut = errors.New("process: the end of what the command has written is missing")
)

// exited notes that the command has ended.
func (p *Process) exited(error) {
	p.mu.Lock()
	p.ended, p.exit.Code, p.exit.Cut = true, code(p.cmd.ProcessState), p.unread.Load() > 0
	p.mu.Unlock()
	_ = p.CloseInput()
	close(p.done)
}

// code is as a shell has it.
func code(state *os.ProcessState) int {
	if status, ok := state.Sys().(interface {
		Signaled() bool
		Signal() syscall.Signal
	}); ok && status.Signaled() {
		return signalled + int(status.Signal())
	}
	return state.ExitCode()
}

// Done is closed when the command has ended, and with it all that it started.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running says whether the command runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits until the command has ended, and says how. The error is ctx's: then it still
// runs.
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

// Stop tells the command to end, kills what has not ended after its grace, and waits. It
// may be called more than once, and when the command has ended.
func (p *Process) Stop() Exit {
	if p.terminate() {
		timer := time.NewTimer(p.patience)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
			p.child.Kill()
		}
	}
	<-p.done
	return p.exit
}

// terminate asks the command to end, unless somebody has, or it has ended.
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

// Write writes to the command's standard input. It waits until the command reads, or ends.
func (p *Process) Write(text []byte) (int, error) { return p.WriteWithin(0, text) }

// WriteWithin is Write that waits no longer than for a while, 0 being for ever: the error says
// how much has been written then, and is os.ErrDeadlineExceeded. The input stays open. Writes
// follow one another. Windows waits for ever.
func (p *Process) WriteWithin(while time.Duration, text []byte) (int, error) {
	if p.input == nil {
		return 0, ErrNoInput
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	var deadline time.Time
	if while > 0 {
		deadline = time.Now().Add(while)
	}
	if err := p.input.SetWriteDeadline(deadline); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return 0, err
	}
	n, err := p.input.Write(text)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("process: the command does not read: %d of %d bytes are written: %w", n, len(text), os.ErrDeadlineExceeded)
	case err != nil:
		err = fmt.Errorf("process: the command reads no more: %w", err)
	}
	return n, err
}

// CloseInput ends the command's standard input.
func (p *Process) CloseInput() error {
	if p.input == nil {
		return nil
	}
	return p.input.Close()
}

// Run runs a command until it ends, or ctx does and it is stopped.
func (g *Guard) Run(ctx context.Context, c *Command) (Exit, error) {
	if err := ctx.Err(); err != nil {
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
