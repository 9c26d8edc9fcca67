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
	side      string   // what is tested, and the suite's command for that
	arguments []string // of the command, beside the URL or the program
	scenarios []scenario
}

// The sides that the suite tests.
const (
	serverSide = "server"
	clientSide = "client"
)

// A scenario of the suite makes a number of checks, not counting those that only
// inform, and skips some that make no sense for what is tested.
type scenario struct {
	name    string
	checks  int
	skipped int
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
const command = "conformance "

// parseRuns reads lines of the form "conformance server ARGUMENT…" or "conformance client
// ARGUMENT…", each followed by indented lines of the form "SCENARIO CHECKS", "SCENARIO
// CHECKS skipping CHECKS" or "SCENARIO extension". What follows a # is a comment.
func parseRuns(text string) ([]run, error) {
	var runs []run
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimRight(line, " \t\n")
		rest, isRun := strings.CutPrefix(line, command)
		var err error
		switch {
		case line == "":
		case isRun:
			words := strings.Fields(rest)
			if len(words) == 0 || words[0] != serverSide && words[0] != clientSide {
				err = fmt.Errorf("expected %q or %q", command+serverSide, command+clientSide)
				break
			}
			runs = append(runs, run{side: words[0], arguments: words[1:]})
		case len(runs) == 0 || !strings.HasPrefix(line, "\t"):
			err = fmt.Errorf("expected %q and arguments", command+serverSide)
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
	skipped := 0
	if len(fields) == 4 && fields[2] == "skipping" {
		var err error
		if skipped, err = strconv.Atoi(fields[3]); err != nil || skipped < 1 {
			return errors.New("expected a positive number of skipped checks")
		}
		fields = fields[:2]
	}
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
	r.scenarios = append(r.scenarios, scenario{name, count, skipped})
	return nil
}
