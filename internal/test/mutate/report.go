package main

import (
	"bytes"
	"regexp"
	"strings"
)

// Outcomes of a mutation.
const (
	byAssertion = "assertion" // a test failed
	byRace      = "race"      // the race detector found a data race
	byPanic     = "panic"     // the tests panicked, or the runtime ended them
	byLeak      = "leak"      // goroutines outlived the tests
	byHang      = "hang"      // the tests reached their timeout or the limit of memory
	survived    = "survived"  // the tests passed
	notCompiled = "not compiled"
)

func caughtBy() []string { return []string{byAssertion, byRace, byPanic, byLeak, byHang} }

// maxLine is the length at which a line of output is cut, in bytes.
const maxLine = 4096

// lastLines is how many lines of output a report keeps.
const lastLines = 40

// A report is what the output of go test for one package says. It is a writer, because the output
// of a loop that does not end is too large to keep.
type report struct {
	passed   bool
	tooLarge bool // the process was killed because of its memory

	failed                                     string // the first test that failed or was running
	broken, timedOut, raced, panicking, leaked bool
	crashed                                    bool // the race detector itself failed

	line []byte
	last []string
}

func (r *report) outcome() string {
	switch {
	case r.passed:
		return survived
	case r.broken:
		return notCompiled
	case r.timedOut, r.tooLarge:
		return byHang
	case r.raced:
		return byRace
	case r.panicking:
		return byPanic
	case r.leaked:
		return byLeak
	}
	return byAssertion
}

// Write reads the lines of the output.
func (r *report) Write(output []byte) (int, error) {
	for rest := output; len(rest) > 0; {
		text, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		r.line = append(r.line, text[:min(len(text), maxLine-len(r.line))]...)
		if whole {
			r.end()
		}
	}
	return len(output), nil
}

var (
	// failedTest matches the result of a test, and the list of running tests after a timeout.
	failedTest = regexp.MustCompile(`^(?:\s*--- FAIL: |\t+)((?:Test|Example|Fuzz)\S*) \(`)
	// broken matches the result of a package that does not compile.
	broken = regexp.MustCompile(`^FAIL\t\S+ \[(?:build|setup) failed\]$`)
)

// end ends the current line.
func (r *report) end() {
	line := string(r.line)
	r.line = r.line[:0]
	if match := failedTest.FindStringSubmatch(line); match != nil && r.failed == "" {
		r.failed = match[1]
	}
	switch {
	case broken.MatchString(line):
		r.broken = true
	case strings.HasPrefix(line, "panic: test timed out"):
		r.timedOut = true
	case strings.Contains(line, "WARNING: DATA RACE"):
		r.raced = true
	case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
		r.panicking = true
	case strings.HasPrefix(line, "leaktest: "):
		r.leaked = true
	case strings.Contains(line, "ThreadSanitizer"):
		r.crashed = true
	}
	if r.last = append(r.last, line); len(r.last) > lastLines {
		r.last = r.last[1:]
	}
}
