package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A run is one execution of the suite with its expected results.
type run struct {
	side      string   // serverSide or clientSide, which is also the suite's command
	arguments []string // of the command, except for the URL or the program
	scenarios []scenario
}

// The sides that the suite tests.
const (
	serverSide = "server"
	clientSide = "client"
)

// A scenario is a scenario of the suite with the expected numbers of checks.
type scenario struct {
	name    string
	checks  int // without skipped and informational checks
	skipped int
}

// isForced reports whether the run names the scenarios that it consists of, such as the scenarios of an
// extension, which belong to no suite and no version.
func (r run) isForced() bool { return slices.Contains(r.arguments, "--force") }

// command is the beginning of a run's line in checks.txt.
const command = "conformance "

// parseRuns reads lines of the form "conformance server ARGUMENT…" or "conformance client
// ARGUMENT…", each followed by indented lines of the form "SCENARIO CHECKS" or
// "SCENARIO CHECKS skipping CHECKS". With the argument --force, the suite is called for each scenario. A # begins a comment.
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
			err = runs[len(runs)-1].addScenario(strings.Fields(line))
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

// addScenario adds the scenario of a line.
func (r *run) addScenario(fields []string) error {
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
	name := fields[0]
	count, err := strconv.Atoi(fields[1])
	if err != nil || count < 0 || count == 0 && skipped == 0 {
		return errors.New("expected a positive number of checks")
	}
	if slices.ContainsFunc(r.scenarios, func(s scenario) bool { return s.name == name }) {
		return errors.New("expected each scenario once")
	}
	r.scenarios = append(r.scenarios, scenario{name, count, skipped})
	return nil
}

// An outcome is the result of one run.
type outcome struct {
	checks map[string][]check // by scenario
	failed error              // the exit status of the suite, nil for 0
	output []byte             // what the suite printed
}

// A check is one check in the result of a scenario.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	Description  string `json:"description"`
	ErrorMessage string `json:"errorMessage"`
}

const (
	success = "SUCCESS"
	info    = "INFO"    // an observation without a judgement
	skip    = "SKIPPED" // not made
)

// A tally counts the checks of one scenario.
type tally struct{ succeeded, made, skipped int }

func count(checks []check) tally {
	var t tally
	for _, check := range checks {
		switch check.Status {
		case info:
		case skip:
			t.skipped++
		case success:
			t.succeeded++
			t.made++
		default:
			t.made++
		}
	}
	return t
}

// succeeded counts the checks of all scenarios that succeeded.
func (o outcome) succeeded() int {
	total := 0
	for _, checks := range o.checks {
		total += count(checks).succeeded
	}
	return total
}

// problems returns the differences between an outcome and the expected results, one line
// each.
func (r run) problems(o outcome) []string {
	var list []string
	problem := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if o.failed != nil {
		problem("%s: %v", strings.Join(r.arguments, " "), o.failed)
	}
	unexpected := maps.Clone(o.checks)
	for _, expected := range r.scenarios {
		checks, played := unexpected[expected.name]
		delete(unexpected, expected.name)
		if !played {
			problem("%s: was not run", expected.name)
			continue
		}
		t := count(checks)
		for _, check := range checks {
			if check.Status != success && check.Status != info && (check.Status != skip || t.skipped != expected.skipped) {
				problem("%s: %s: %s: %s", expected.name, check.ID, check.Status, cmp.Or(check.ErrorMessage, check.Description))
			}
		}
		if t.made != expected.checks {
			problem("%s: made %d checks, expected %d", expected.name, t.made, expected.checks)
		}
		if t.skipped < expected.skipped {
			problem("%s: skipped %d checks, expected %d", expected.name, t.skipped, expected.skipped)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unexpected)) {
		problem("%s: is not in checks.txt", name)
	}
	return list
}

// report formats an outcome like checks.txt: the expected scenarios in their order, followed
// by unexpected ones.
func (r run) report(o outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s %s\n", command, r.side, strings.Join(r.arguments, " "))
	known := map[string]scenario{}
	names := make([]string, 0, len(o.checks))
	for _, expected := range r.scenarios {
		known[expected.name] = expected
		names = append(names, expected.name)
	}
	for _, name := range slices.Sorted(maps.Keys(o.checks)) {
		if _, ok := known[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		t, expected := count(o.checks[name]), known[name]
		line := fmt.Sprintf("\t%-46s %d", name, t.made)
		if t.skipped > 0 {
			line += fmt.Sprintf(" skipping %d", t.skipped)
		}
		if t.succeeded != t.made || t.made != expected.checks || t.skipped != expected.skipped {
			line += fmt.Sprintf(" # %d succeed, expected %d", t.succeeded, expected.checks)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
