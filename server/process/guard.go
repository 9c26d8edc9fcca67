package process

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// A Guard starts commands. Make one with [Main].
type Guard struct {
	program string // this one; "" where there are no guards
}

// role is the first argument of a program that is a guard.
const role = "dovetail-process-guard"

// As shells have it, an exit status is 127 for a command that cannot be started, and 128
// and its number for a signal.
const (
	notStarted = 127
	signalled  = 128
)

// Main returns the guard of this program's commands. It must be called first of all in
// main, or TestMain: it is how the program becomes the guard of a command, and does not
// return then.
func Main() *Guard {
	if len(os.Args) > 4 && os.Args[1] == role {
		o, err := parseOrders(os.Args[2], os.Args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(notStarted)
		}
		os.Exit(o.guard(os.Args[4:]))
	}
	return &Guard{self}
}

// Wrap returns the command line by which this program runs another below a guard, for what
// starts programs itself, such as stdio.Command: a server, and all that it starts, ends with
// its connection.
func (g *Guard) Wrap(path string, args ...string) (guard string, guardArgs []string) {
	return g.command(orders{DefaultGrace / 2, DefaultProcesses}, path, args)
}

func (g *Guard) command(o orders, path string, args []string) (string, []string) {
	if g.program == "" {
		return path, args
	}
	return g.program, append([]string{role, o.grace.String(), strconv.Itoa(o.processes), path}, args...)
}

// orders are what a guard is told.
type orders struct {
	grace     time.Duration
	processes int
}

func parseOrders(grace, processes string) (o orders, err error) {
	if o.grace, err = time.ParseDuration(grace); err != nil {
		return o, fmt.Errorf("the grace of a guard: %w", err)
	}
	if o.processes, err = strconv.Atoi(processes); err != nil {
		return o, fmt.Errorf("the limit of a guard: %w", err)
	}
	return o, nil
}
