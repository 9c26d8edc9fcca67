package process

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// A Guard starts commands. Create one with [Main]. The zero value runs commands without a
// guard process.
type Guard struct {
	program string // the executable of this program; empty where there are no guard processes
}

// guardArgument is the first argument of a guard process.
const guardArgument = "dovetail-process-guard"

// Exit statuses as in a shell: 127 for a command that cannot be started, 128 plus the number
// of the signal for a command that a signal has ended.
const (
	statusNotStarted = 127
	signalBase       = 128
)

// Main returns the guard for the commands of this program. It must be the first call in main,
// or in TestMain: in a guard process, which is this program with special arguments, it
// supervises one command and does not return.
func Main() *Guard {
	if len(os.Args) > 4 && os.Args[1] == guardArgument {
		config, err := parseConfig(os.Args[2], os.Args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(statusNotStarted)
		}
		os.Exit(supervise(config, os.Args[4:]))
	}
	return &Guard{self}
}

// Wrap returns a command line that runs a program below a guard process. It is for code that
// starts programs itself, such as stdio.Command: the server and everything that it starts
// then end with the connection.
func (g *Guard) Wrap(path string, args ...string) (guard string, guardArgs []string) {
	return g.commandLine(config{DefaultGrace / 2, DefaultMaxProcesses}, path, args)
}

func (g *Guard) commandLine(c config, path string, args []string) (string, []string) {
	if g.program == "" {
		return path, args
	}
	return g.program, append([]string{guardArgument, c.grace.String(), strconv.Itoa(c.maxProcesses), path}, args...)
}

// config is passed to a guard process as arguments.
type config struct {
	grace        time.Duration
	maxProcesses int
}

func parseConfig(grace, maxProcesses string) (c config, err error) {
	if c.grace, err = time.ParseDuration(grace); err != nil {
		return c, fmt.Errorf("the grace of a guard: %w", err)
	}
	if c.maxProcesses, err = strconv.Atoi(maxProcesses); err != nil {
		return c, fmt.Errorf("the limit of a guard: %w", err)
	}
	return c, nil
}
