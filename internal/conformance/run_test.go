package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseRuns(t *testing.T) {
	got, err := parseRuns("# a comment\n\nconformance server --suite all\n\tping 2\n\ttasks-x extension # 1 of 2\nconformance server --requirements x\n\tping   3\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []run{
		{[]string{"--suite", "all"}, []scenario{{"ping", 2}, {"tasks-x", optional}}},
		{[]string{"--requirements", "x"}, []scenario{{"ping", 3}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParseRunsRefuses(t *testing.T) {
	const head = "conformance server --suite all\n"
	for text, want := range map[string]string{
		"":                            "no runs",
		"# nothing\n":                 "no runs",
		head:                          "no scenarios",
		head + head + "\tping 2\n":    "no scenarios",
		"\tping 2\n":                  "checks.txt:1: expected \"conformance server \"",
		head + "ping 2\n":             "checks.txt:2: expected \"conformance server \"",
		head + "\tping\n":             "expected a scenario and its number",
		head + "\tping 2 3\n":         "expected a scenario and its number",
		head + "\tping two\n":         "expected a positive number",
		head + "\tping 0\n":           "expected a positive number",
		head + "\tping -1\n":          "expected a positive number",
		head + "\tping 2\n\tping 2\n": "checks.txt:3: expected each scenario once",
	} {
		if _, err := parseRuns(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q", text, err, want)
		}
	}
}

// TestChecks: all that a core protocol has is expected, and only extensions of it
// are optional.
func TestChecks(t *testing.T) {
	runs, err := parseRuns(checks)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		for _, scenario := range run.scenarios {
			if scenario.checks == optional && !strings.HasPrefix(scenario.name, "tasks-") {
				t.Errorf("%q: %s is no extension", run.arguments, scenario.name)
			}
		}
		if slices.Contains(run.arguments, "--expected-failures") {
			t.Errorf("%q: no failure is expected", run.arguments)
		}
	}
}
