package main

import (
	"strings"
	"testing"
)

// Outputs of go test, as they come.
func TestReportsOfOutput(t *testing.T) {
	for _, test := range []struct{ name, output, outcome, failed string }{
		{"assertion", "--- FAIL: TestA (0.00s)\n    a_test.go:5: panic: 2, want 3\nFAIL\nFAIL\texample.com/a\t0.002s\nFAIL\n", byAssertion, "TestA"},
		{"subtest", "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\n", byAssertion, "TestA"},
		{"example", "--- FAIL: ExampleA (0.00s)\ngot:\n1\nwant:\n2\nFAIL\n", byAssertion, "ExampleA"},
		{"race", "==================\nWARNING: DATA RACE\nWrite at 0x00c by goroutine 8:\n==================\n--- FAIL: TestA (0.00s)\n    testing.go:1617: race detected during execution of test\nFAIL\n", byRace, "TestA"},
		{"panic", "--- FAIL: TestA (0.00s)\npanic: runtime error: index out of range [recovered, repanicked]\n\ngoroutine 7 [running]:\n", byPanic, "TestA"},
		{"fatal error", "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\n", byPanic, ""},
		{"hang", "panic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n\ngoroutine 17 [running]:\n", byHang, "TestA"},
		{"leak", "PASS\nleaktest: 1 goroutines outlive the tests:\n\ngoroutine 9:\nFAIL\texample.com/a\t2.1s\n", byLeak, ""},
		{"not compiled", "# example.com/a\n./a.go:3:2: undefined: b\nFAIL\texample.com/a [build failed]\nFAIL\n", notCompiled, ""},
		{"without a line end", "--- FAIL: TestA (0.00s)", byAssertion, "TestA"},
	} {
		r := &report{}
		for chunk := range strings.SplitAfterSeq(test.output, "a") { // lines in pieces
			if n, err := r.Write([]byte(chunk)); n != len(chunk) || err != nil {
				t.Fatal(n, err)
			}
		}
		r.end()
		if r.outcome() != test.outcome || r.failed != test.failed || r.crashed {
			t.Errorf("%s: got %s in %q, want %s in %q", test.name, r.outcome(), r.failed, test.outcome, test.failed)
		}
	}
}

func TestReportOfCrashedRaceDetector(t *testing.T) {
	r := &report{}
	_, _ = r.Write([]byte("ThreadSanitizer: CHECK failed: tsan_rtl.cpp:42\n"))
	if !r.crashed {
		t.Error("a crash of the race detector is taken for one of the tests")
	}
}

// Output that does not end uses little memory.
func TestReportIsBounded(t *testing.T) {
	r := &report{}
	for range 1000 {
		_, _ = r.Write([]byte(strings.Repeat("x", 10_000)))
		_, _ = r.Write([]byte("\nline\n"))
	}
	if len(r.last) != lastLines || cap(r.line) > 2*maxLine {
		t.Errorf("keeps %d lines and a line of %d bytes", len(r.last), cap(r.line))
	}
}
