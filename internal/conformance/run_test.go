package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseRuns(t *testing.T) {
	got, err := parseRuns("# a comment\n\nconformance server --suite all\n\tping 2\n\ttasks-x extension # 1 of 2\nconformance client --requirements x\n\tauth/x   3 skipping 1 # why\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []run{
		{serverSide, []string{"--suite", "all"}, []scenario{{"ping", 2, 0}, {"tasks-x", optional, 0}}},
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

// notImplemented are the scenarios of a client that test an extension that there is not:
// skills, which are files that a host fetches and compares. All others must pass.
var notImplemented = []string{
	"sep-2640-client-no-prefetch", "sep-2640-client-verify-digest", "sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter",
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
			extension := strings.HasPrefix(scenario.name, "tasks-")
			if run.side == clientSide {
				extension = slices.Contains(notImplemented, scenario.name)
			}
			if extension != (scenario.checks == optional) {
				t.Errorf("%q: %s is an extension that there is not: %v", run.arguments, scenario.name, extension)
			}
		}
		if slices.Contains(run.arguments, "--expected-failures") {
			t.Errorf("%q: no failure is expected", run.arguments)
		}
	}
}
