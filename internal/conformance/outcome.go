package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An outcome is what the suite says of one run.
type outcome struct {
	checks map[string][]check // by scenario
	failed error              // of the suite as a whole
	output []byte             // what it printed
}

// A check is one line of a scenario's result.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	Description  string `json:"description"`
	ErrorMessage string `json:"errorMessage"`
}

const (
	success = "SUCCESS"
	info    = "INFO"    // says what was seen, and judges nothing
	skip    = "SKIPPED" // was not made
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

// problems says, a line each, how an outcome differs from what the run has to
// come to.
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
		switch {
		case !played:
			problem("%s: was not run", expected.name)
			continue
		case expected.checks == optional:
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

// report shows an outcome in the form of checks.txt: the scenarios in its order,
// and then those that it does not know.
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
		switch {
		case expected.checks == optional:
			line = fmt.Sprintf("\t%-46s extension # %d of %d succeed", name, t.succeeded, t.made)
		case t.succeeded != t.made || t.made != expected.checks || t.skipped != expected.skipped:
			line += fmt.Sprintf(" # %d succeed, expected %d", t.succeeded, expected.checks)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
