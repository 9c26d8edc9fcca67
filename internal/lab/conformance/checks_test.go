package main

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseRuns(t *testing.T) {
	got, err := parseRuns("# a comment\n\nconformance server --suite all\n\tping 2\n\ttasks-x 0 skipping 1\nconformance client --requirements x\n\tauth/x   3 skipping 1 # why\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []run{
		{serverSide, []string{"--suite", "all"}, []scenario{{"ping", 2, 0}, {"tasks-x", 0, 1}}},
		{clientSide, []string{"--requirements", "x"}, []scenario{{"auth/x", 3, 1}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParseRunsRefuses(t *testing.T) {
	const head = "conformance server --suite all\n"
	for text, want := range map[string]string{
		"":                                "no runs",
		"# nothing\n":                     "no runs",
		head:                              "no scenarios",
		head + head + "\tping 2\n":        "no scenarios",
		"\tping 2\n":                      "checks.txt:1: expected \"conformance server\"",
		head + "ping 2\n":                 "checks.txt:2: expected \"conformance server\"",
		head + "\tping\n":                 "expected a scenario and its number",
		head + "\tping 2 3\n":             "expected a scenario and its number",
		head + "\tping 2 and 3\n":         "expected a scenario and its number",
		head + "\tping 2 skipping 0\n":    "expected a positive number of skipped",
		"conformance proxy --suite all\n": "checks.txt:1: expected \"conformance server\" or",
		head + "\tping two\n":             "expected a positive number",
		head + "\tping 0\n":               "expected a positive number",
		head + "\tping -1\n":              "expected a positive number",
		head + "\tping 2\n\tping 2\n":     "checks.txt:3: expected each scenario once",
	} {
		if _, err := parseRuns(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q", text, err, want)
		}
	}
}

func TestChecks(t *testing.T) {
	runs, err := parseRuns(checks)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if slices.Contains(run.arguments, "--expected-failures") {
			t.Errorf("%q: no failure is expected", run.arguments)
		}
	}
}

var (
	good    = check{ID: "good", Status: "SUCCESS"}
	remark  = check{ID: "remark", Status: "INFO"}
	bad     = check{ID: "bad", Status: "FAILURE", Description: "d", ErrorMessage: "e"}
	doubt   = check{ID: "doubt", Status: "WARNING", Description: "d"}
	skipped = check{ID: "skipped", Status: "SKIPPED", Description: "d"}
)

func TestProblems(t *testing.T) {
	expected := run{serverSide, []string{"--suite", "all"}, []scenario{{"ping", 2, 0}}}
	for name, c := range map[string]struct {
		outcome outcome
		want    []string
	}{
		"as expected":                {outcome{checks: map[string][]check{"ping": {good, remark, good}}}, nil},
		"a failure":                  {outcome{checks: map[string][]check{"ping": {good, bad}}}, []string{"ping: bad: FAILURE: e"}},
		"a warning":                  {outcome{checks: map[string][]check{"ping": {good, doubt}}}, []string{"ping: doubt: WARNING: d"}},
		"a skipped check":            {outcome{checks: map[string][]check{"ping": {good, good, skipped}}}, []string{"ping: skipped: SKIPPED: d"}},
		"a check that only informs":  {outcome{checks: map[string][]check{"ping": {good, remark}}}, []string{"ping: made 1 checks, expected 2"}},
		"more checks than before":    {outcome{checks: map[string][]check{"ping": {good, good, good}}}, []string{"ping: made 3 checks, expected 2"}},
		"a scenario that crashed":    {outcome{checks: map[string][]check{"ping": nil}}, []string{"ping: made 0 checks, expected 2"}},
		"a scenario that is not run": {outcome{checks: map[string][]check{}}, []string{"ping: was not run"}},
		"a scenario that is unknown": {outcome{checks: map[string][]check{"ping": {good, good}, "new": {good}}}, []string{"new: is not in checks.txt"}},
		"the suite fails":            {outcome{checks: map[string][]check{"ping": {good, good}}, failed: errors.New("exit status 1")}, []string{"--suite all: exit status 1"}},
	} {
		if got := expected.problems(c.outcome); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A report has the format of checks.txt.
func TestReport(t *testing.T) {
	expected := run{serverSide, []string{"--suite", "all"}, []scenario{{"ping", 2, 0}, {"gone", 1, 0}}}
	found := outcome{checks: map[string][]check{"new": {good}, "ping": {good, bad, remark}}}
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
		"gone 0 # 0 succeed, expected 1",
		"new 1 # 1 succeed, expected 0",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
}
