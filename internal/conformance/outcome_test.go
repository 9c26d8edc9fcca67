package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

var (
	good    = check{ID: "good", Status: "SUCCESS"}
	remark  = check{ID: "remark", Status: "INFO"}
	bad     = check{ID: "bad", Status: "FAILURE", Description: "d", ErrorMessage: "e"}
	doubt   = check{ID: "doubt", Status: "WARNING", Description: "d"}
	skipped = check{ID: "skipped", Status: "SKIPPED", Description: "d"}
)

func TestProblems(t *testing.T) {
	expected := run{serverSide, []string{"--suite", "all"}, []scenario{{"ping", 2, 0}, {"tasks-x", optional, 0}}}
	for name, c := range map[string]struct {
		outcome outcome
		want    []string
	}{
		"all is well":                 {outcome{checks: map[string][]check{"ping": {good, remark, good}, "tasks-x": {bad}}}, nil},
		"an extension says nothing":   {outcome{checks: map[string][]check{"ping": {good, good}, "tasks-x": nil}}, nil},
		"a failure":                   {outcome{checks: map[string][]check{"ping": {good, bad}, "tasks-x": nil}}, []string{"ping: bad: FAILURE: e"}},
		"a warning":                   {outcome{checks: map[string][]check{"ping": {good, doubt}, "tasks-x": nil}}, []string{"ping: doubt: WARNING: d"}},
		"a skipped check":             {outcome{checks: map[string][]check{"ping": {good, good, skipped}, "tasks-x": nil}}, []string{"ping: skipped: SKIPPED: d"}},
		"a check that only informs":   {outcome{checks: map[string][]check{"ping": {good, remark}, "tasks-x": nil}}, []string{"ping: made 1 checks, expected 2"}},
		"more checks than before":     {outcome{checks: map[string][]check{"ping": {good, good, good}, "tasks-x": nil}}, []string{"ping: made 3 checks, expected 2"}},
		"a scenario that broke down":  {outcome{checks: map[string][]check{"ping": nil, "tasks-x": nil}}, []string{"ping: made 0 checks, expected 2"}},
		"a scenario that is not run":  {outcome{checks: map[string][]check{"tasks-x": nil}}, []string{"ping: was not run"}},
		"an extension is not run":     {outcome{checks: map[string][]check{"ping": {good, good}}}, []string{"tasks-x: was not run"}},
		"a scenario that is unknown":  {outcome{checks: map[string][]check{"ping": {good, good}, "tasks-x": nil, "new": {good}}}, []string{"new: is not in checks.txt"}},
		"the suite itself is unhappy": {outcome{checks: map[string][]check{"ping": {good, good}, "tasks-x": nil}, failed: errors.New("exit status 1")}, []string{"--suite all: exit status 1"}},
	} {
		if got := expected.problems(c.outcome); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestReport: what is printed has the form of checks.txt.
func TestReport(t *testing.T) {
	expected := run{serverSide, []string{"--suite", "all"}, []scenario{{"ping", 2, 0}, {"tasks-x", optional, 0}, {"gone", 1, 0}}}
	found := outcome{checks: map[string][]check{"new": {good}, "ping": {good, bad, remark}, "tasks-x": {bad, good}}}
	report := expected.report(found)
	if _, err := parseRuns(strings.ReplaceAll(report, "gone  ", "# gone")); err != nil {
		t.Errorf("%v\n%s", err, report)
	}
	var lines []string
	for line := range strings.Lines(report) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"conformance server --suite all",
		"ping 2 # 1 succeed, expected 2",
		"tasks-x extension # 1 of 2 succeed",
		"gone 0 # 0 succeed, expected 1",
		"new 1 # 1 succeed, expected 0",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
}
