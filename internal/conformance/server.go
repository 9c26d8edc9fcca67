package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

const (
	// startTime is how long the server may take until it says its URL.
	startTime = 10 * time.Second
	// stopTime is how long it may take to end once it was told to.
	stopTime = 10 * time.Second
)

// A process is the server that is tested.
type process struct {
	url    string
	cancel context.CancelFunc
	ended  chan struct{} // closed when it has ended and state is set
	state  *os.ProcessState
}

// serverURL is what a server says of where it serves.
var serverURL = regexp.MustCompile(`http://\S+`)

// start starts the server and returns as soon as it says its URL. What else it
// says goes to standard error.
func start(ctx context.Context, program string) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, "-http", "127.0.0.1:0") //nolint:gosec // the command line says which program
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}

	p := &process{cancel: cancel, ended: make(chan struct{})}
	url := make(chan string, 1)
	go func() {
		defer close(p.ended)
		defer cancel()
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			fmt.Fprintln(os.Stderr, lines.Text())
			if found := serverURL.FindString(lines.Text()); found != "" && len(url) == 0 {
				url <- found
			}
		}
		_, _ = io.Copy(os.Stderr, stderr) // after a line that was too long; ends with the server
		_ = cmd.Wait()                    // the state says how it ended
		p.state = cmd.ProcessState
	}()
	select {
	case p.url = <-url:
		return p, nil
	case <-p.ended:
		return nil, errors.Join(fmt.Errorf("%s ended before it said its URL", program), p.stop())
	case <-time.After(startTime):
		return nil, errors.Join(fmt.Errorf("%s did not say its URL within %v", program, startTime), p.stop())
	}
}

// stop tells the server to end, and waits for it. The error says that it had
// ended before, or how it ended if not well.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the server ended by itself: %v", p.state)
	default:
	}
	p.cancel()
	<-p.ended
	if !p.state.Success() {
		return fmt.Errorf("the server did not end well: %v", p.state)
	}
	return nil
}
