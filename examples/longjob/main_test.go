package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

// TestMain runs the program if a test or the program has started this process.
func TestMain(m *testing.M) {
	if os.Getenv("LONGJOB_TEST") != "" {
		main()
		return
	}
	leaktest.Main(m)
}

// The second client gets the result of the job that the first one has started, from where it is.
func TestResultArrivesAtTheSecondClient(t *testing.T) {
	program := exec.CommandContext(t.Context(), os.Args[0], "-time", "6s")
	program.Env = append(os.Environ(), "LONGJOB_TEST=1")
	output, err := program.CombinedOutput()
	want := regexp.MustCompile(`(?s)^the server is at http://\S+\n.*\[#+-+\] +\d+ % indexed \d+ of 200 files\n.*` +
		`the client was killed; another one starts\n.*\[#+-*\] +\d+ % indexed \d+ of 200 files\n.*indexed all 200 files\n$`)
	if err != nil || !want.Match(output) {
		t.Errorf("%v, got:\n%s\nwant %s", err, output, want)
	}
}
