package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A run is one call of the suite, and what has to come of it.
type run struct {
	arguments []string // of its command "server", beside the URL
	scenarios []scenario
}

// A scenario of the suite makes a number of checks, not counting those that only
// inform.
type scenario struct {
	name   string
	checks int
}

// optional is the number of checks of a scenario that tests an extension of the
// protocol: the suite runs it and does not score it, and neither do we.
const optional = -1

// once says whether the run belongs into the first round only: for an extension
// that is not there, the suite waits long, and other runs repeat the rest.
func (r run) once() bool {
	return slices.ContainsFunc(r.scenarios, func(s scenario) bool { return s.checks == optional })
}

// command begins the line of a run.
const command = "conformance server "

// parseRuns reads lines of the form "conformance server ARGUMENT…", each followed
// by indented lines of the form "SCENARIO CHECKS" or "SCENARIO extension". What
// follows a # is a comment.
func parseRuns(text string) ([]run, error) {
	var runs []run
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimRight(line, " \t\n")
		arguments, isRun := strings.CutPrefix(line, command)
		var err error
		switch {
		case line == "":
		case isRun:
			runs = append(runs, run{arguments: strings.Fields(arguments)})
		case len(runs) == 0 || !strings.HasPrefix(line, "\t"):
			err = fmt.Errorf("expected %q and arguments", command)
		default:
			err = runs[len(runs)-1].expect(strings.Fields(line))
		}
		if err != nil {
			return nil, fmt.Errorf("checks.txt:%d: %w, got %q", number, err, line)
		}
	}
	for _, run := range runs {
		if len(run.scenarios) == 0 {
			return nil, fmt.Errorf("checks.txt: the run %q has no scenarios", run.arguments)
		}
	}
	if len(runs) == 0 {
		return nil, errors.New("checks.txt: there are no runs")
	}
	return runs, nil
}

// expect adds a scenario.
func (r *run) expect(fields []string) error {
	if len(fields) != 2 {
		return errors.New("expected a scenario and its number of checks")
	}
	name, count := fields[0], optional
	if fields[1] != "extension" {
		var err error
		if count, err = strconv.Atoi(fields[1]); err != nil || count < 1 {
			return errors.New(`expected a positive number of checks or "extension"`)
		}
	}
	if slices.ContainsFunc(r.scenarios, func(s scenario) bool { return s.name == name }) {
		return errors.New("expected each scenario once")
	}
	r.scenarios = append(r.scenarios, scenario{name, count})
	return nil
}
