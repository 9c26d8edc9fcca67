package process

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/procgroup"
)

// A Guard starts commands. Create one with [Main]. The zero value runs commands without a
// guard process.
type Guard struct {
	program string // the executable of this program; empty where there are no guard processes

	mu      sync.Mutex
	started map[*Process]struct{} // that run, and some that have ended
}

// Separate returns a guard that starts commands as g does. [Guard.Owns] distinguishes its commands from the commands of g.
func (g *Guard) Separate() *Guard { return &Guard{program: g.program} }

// Owns reports whether only commands that g has started, and their descendants, accept TCP connections to an address
// such as 127.0.0.1:8080. It is false for commands that have ended, and on systems other than Linux.
func (g *Guard) Owns(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && procgroup.Owns(g.pids(), at)
}

// add records a started command.
func (g *Guard) add(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeEnded()
	if g.started == nil {
		g.started = make(map[*Process]struct{})
	}
	g.started[p] = struct{}{}
}

// pids returns the processes of running commands.
func (g *Guard) pids() (pids []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeEnded()
	for p := range g.started {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

func (g *Guard) removeEnded() {
	for p := range g.started {
		if !p.Running() {
			delete(g.started, p)
		}
	}
}

// guardArgument is the first argument of a guard process.
const guardArgument = "dovetail-process-guard"

// Main returns the guard for the commands of this program. It must be the first call in main,
// or in TestMain: in a guard process, which is this program with special arguments, it
// supervises one command and does not return.
func Main() *Guard {
	if len(os.Args) > 4 && os.Args[1] == guardArgument {
		options, err := parseSupervision(os.Args[2], os.Args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(procgroup.StatusNotStarted)
		}
		os.Exit(procgroup.Supervise(options, os.Args[4:]))
	}
	return &Guard{program: procgroup.Self}
}

// Wrap returns a command line that runs a program below a guard process. It is for code that
// starts programs itself, such as stdio.Command: the server and everything that it starts
// then end with the connection.
func (g *Guard) Wrap(path string, args ...string) (guard string, guardArgs []string) {
	return g.commandLine(procgroup.Supervision{Grace: defaultGrace / 2, MaxProcesses: defaultMaxProcesses}, path, args)
}

func (g *Guard) commandLine(s procgroup.Supervision, path string, args []string) (string, []string) {
	if g.program == "" {
		return path, args
	}
	return g.program, append([]string{guardArgument, s.Grace.String(), strconv.Itoa(s.MaxProcesses), path}, args...)
}

// parseSupervision parses the arguments of a guard process.
func parseSupervision(grace, maxProcesses string) (options procgroup.Supervision, err error) {
	if options.Grace, err = time.ParseDuration(grace); err != nil {
		return options, fmt.Errorf("the grace of a guard: %w", err)
	}
	if options.MaxProcesses, err = strconv.Atoi(maxProcesses); err != nil {
		return options, fmt.Errorf("the limit of a guard: %w", err)
	}
	return options, nil
}
