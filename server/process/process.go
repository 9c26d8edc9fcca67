package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/spawn"
)

// A Process is a command that has been started.
type Process struct {
	cmd      *exec.Cmd
	patience time.Duration
	input    *os.File // nil: it has none

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
}

// ErrNoInput is the error of writing to a command without input.
var ErrNoInput = errors.New("process: the command has no input")

// exited notes that the command has ended.
func (p *Process) exited(error) {
	p.mu.Lock()
	p.ended, p.exit.Code = true, code(p.cmd.ProcessState)
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
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
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
			spawn.Kill(p.cmd)
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
	spawn.Terminate(p.cmd)
	return true
}

// Write writes to the command's standard input. It waits until the command reads, or ends.
func (p *Process) Write(text []byte) (int, error) {
	if p.input == nil {
		return 0, ErrNoInput
	}
	return p.input.Write(text)
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
