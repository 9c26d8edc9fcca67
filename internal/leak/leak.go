// Package leak fails a package's tests when they leave goroutines behind.
//
//	func TestMain(m *testing.M) { leak.Main(m) }
package leak

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"
)

const (
	// patience is how long goroutines may take to end once the tests have.
	patience = 2 * time.Second
	// maxDump bounds the stacks that are looked at.
	maxDump = 16 << 20
)

// Main runs the tests and exits: with the tests' own code, or with 1 and the
// stacks on standard error when goroutines are left that neither the testing
// package nor the runtime started. Goroutines that are about to end have two
// seconds to do so.
func Main(m *testing.M) { MainOf(m.Run) }

// MainOf is [Main] for tests that are run in a way of their own.
func MainOf(tests func() int) {
	os.Exit(run(tests, os.Stderr, patience))
}

func run(tests func() int, report io.Writer, patience time.Duration) int {
	code := tests()
	if code != 0 {
		return code // a failed test may well leave goroutines: its own message matters
	}
	left := await(patience)
	if len(left) == 0 {
		return 0
	}
	fmt.Fprintf(report, "leak: %d goroutines outlive the tests:\n\n%s\n", len(left), bytes.Join(left, []byte("\n\n")))
	return 1
}

// await returns the goroutines that are still there when patience is at its end.
func await(patience time.Duration) [][]byte {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause *= 2 {
		left := ours()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(min(pause, 100*time.Millisecond))
	}
}

// ours returns the stacks of all goroutines but this one and those of the
// testing package and the runtime.
func ours() [][]byte {
	var left [][]byte
	for i, stack := range bytes.Split(stacks(), []byte("\n\n")) {
		if i > 0 && !foreign(stack) { // the first is the goroutine that asks
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

// foreign tells whether a stack belongs to a goroutine that no test has to end.
func foreign(stack []byte) bool {
	for _, mark := range []string{
		"\ntesting.(*",         // tests, benchmarks and fuzz workers
		"created by testing.",  // the runner's alarm and helpers
		"created by os/signal", // one for the process, once it has asked for signals
		"created by runtime",   // tracing and profiling
	} {
		if bytes.Contains(stack, []byte(mark)) {
			return true
		}
	}
	return false
}
