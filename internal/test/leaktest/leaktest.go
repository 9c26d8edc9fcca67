package leaktest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"testing"
	"time"
)

const (
	// timeout is how long goroutines may take to end after the tests.
	timeout = 2 * time.Second
	// maxDump bounds the dump of all stacks, in bytes.
	maxDump = 16 << 20
)

// Main runs the tests and exits. If the tests pass and goroutines are left two seconds
// later, it prints their stacks to standard error and exits with 1. It ignores goroutines
// that the testing package or the runtime started, and those that run one of the functions in
// ignored, which other libraries leave behind. Their names are like those in stacks, such as
// "example.com/package.(*T).method".
func Main(m *testing.M, ignored ...string) { MainOf(m.Run, ignored...) }

// MainOf is [Main] with a function that runs the tests.
func MainOf(tests func() int, ignored ...string) {
	os.Exit(run(tests, os.Stderr, timeout, ignored))
}

func run(tests func() int, report io.Writer, timeout time.Duration, ignored []string) int {
	code := tests()
	if code != 0 {
		return code // a failed test often leaves goroutines, but its own message matters
	}
	left := await(timeout, ignored)
	if len(left) == 0 {
		return Check(report)
	}
	fmt.Fprintf(report, "leaktest: %d goroutines outlive the tests:\n\n%s\n", len(left), bytes.Join(left, []byte("\n\n")))
	return 1
}

// Check looks for goroutines that are blocked forever. If there are any, it writes their stacks
// to report and returns 1. It is for processes that end while other goroutines run, such as
// servers; [Main] calls it too. It needs a program that was built with
// GOEXPERIMENT=goroutineleakprofile, and otherwise returns 0; see [Checks].
func Check(report io.Writer) (code int) {
	profile := pprof.Lookup(leakProfile)
	if profile == nil {
		return 0
	}
	var stacks bytes.Buffer
	if err := profile.WriteTo(&stacks, 1); err != nil { // detects them
		fmt.Fprintf(report, "leaktest: %v\n", err)
		return 1
	}
	if count := profile.Count(); count > 0 {
		fmt.Fprintf(report, "leaktest: %d goroutines are blocked forever:\n\n%s\n", count, &stacks)
		return 1
	}
	return 0
}

// Checks reports whether [Check] can find anything in this program.
func Checks() bool { return pprof.Lookup(leakProfile) != nil }

// leakProfile is the name of the profile of goroutines that are blocked forever.
const leakProfile = "goroutineleak"

// await returns the stacks of goroutines that are left after the timeout.
func await(timeout time.Duration, ignored []string) [][]byte {
	deadline := time.Now().Add(timeout)
	for pause := time.Millisecond; ; pause *= 2 {
		left := ours(ignored)
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(min(pause, 100*time.Millisecond))
	}
}

// ours returns the stacks of all goroutines, except for this one, the goroutines of the
// testing package and the runtime, and those that run an ignored function.
func ours(ignored []string) [][]byte {
	var left [][]byte
	for i, stack := range bytes.Split(stacks(), []byte("\n\n")) {
		if i > 0 && !foreign(stack) && !runs(stack, ignored) { // the first is this goroutine
			left = append(left, bytes.TrimSpace(stack))
		}
	}
	return left
}

func stacks() []byte {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || size >= maxDump {
			return buf[:n]
		}
	}
}

// foreign reports whether the testing package or the runtime started a goroutine.
func foreign(stack []byte) bool {
	for _, mark := range []string{
		"\ntesting.(*",         // tests, benchmarks and fuzz workers
		"created by testing.",  // the runner's timer and helpers
		"created by os/signal", // one per process that handles signals
		"created by runtime",   // tracing and profiling
	} {
		if bytes.Contains(stack, []byte(mark)) {
			return true
		}
	}
	return false
}

// runs reports whether a goroutine runs one of the functions.
func runs(stack []byte, functions []string) bool {
	return slices.ContainsFunc(functions, func(name string) bool { return bytes.Contains(stack, []byte("\n"+name+"(")) })
}
