package process

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/dovetail-go/dovetail/internal/procgroup"
)

// A Guard starts commands. Create one with [Main]. The zero value runs commands without a
// guard process.
type Guard struct {
	program string // the executable of this program; empty where there are no guard processes
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
	return &Guard{procgroup.Self}
}

// Wrap returns a command line that runs a program below a guard process. It is for code that
// starts programs itself, such as stdio.Command: the server and everything that it starts
// then end with the connection.
func (g *Guard) Wrap(path string, args ...string) (guard string, guardArgs []string) {
	return g.commandLine(procgroup.Supervision{Grace: DefaultGrace / 2, MaxProcesses: DefaultMaxProcesses}, path, args)
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
