package leaktest

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// blockVariable makes the test binary a process with a goroutine that is blocked forever.
const blockVariable = "LEAKTEST_BLOCK"

func TestMain(m *testing.M) {
	if os.Getenv(blockVariable) != "" {
		go func() { <-make(chan struct{}) }()
		for range 100 {
			runtime.Gosched() // until it is blocked
		}
		os.Exit(Check(os.Stderr))
	}
	Main(m)
}

// A goroutine that is blocked forever is found if the program can find it.
func TestCheck(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), blockVariable+"=1")
	output, err := cmd.CombinedOutput()
	if found := err != nil && strings.Contains(string(output), "1 goroutines are blocked forever"); found != Checks() {
		t.Errorf("found: %t, want %t\n%s", found, Checks(), output)
	}
}

func TestRun(t *testing.T) {
	const packageName = "github.com/dovetail-go/dovetail/internal/test/leaktest"
	release, ended := make(chan struct{}), make(chan struct{}, 2)
	leak := func() { go stayBehind(release, ended) }
	for name, test := range map[string]struct {
		start      func()
		testsCode  int
		timeout    time.Duration
		ignored    []string
		want       int
		wantReport []string
	}{
		"nothing is left":     {func() {}, 0, time.Minute, nil, 0, nil},
		"a goroutine ends":    {func() { go func() { <-time.After(20 * time.Millisecond) }() }, 0, time.Minute, nil, 0, nil},
		"a goroutine is left": {leak, 0, 10 * time.Millisecond, nil, 1, []string{"1 goroutines outlive", "stayBehind"}},
		"one is ignored":      {leak, 0, time.Minute, []string{packageName + ".stayBehind"}, 0, nil},
		"another is ignored":  {leak, 0, 10 * time.Millisecond, []string{packageName + ".stay", packageName + ".TestRun"}, 1, []string{"stayBehind"}},
		"the tests failed":    {leak, 7, 0, nil, 7, nil},
	} {
		leaks := test.want != 0 || test.ignored != nil
		var report bytes.Buffer
		code := run(func() int { test.start(); return test.testsCode }, &report, test.timeout, test.ignored)
		if code != test.want || (report.Len() > 0) != (test.wantReport != nil) {
			t.Errorf("%s: code %d, want %d, report:\n%s", name, code, test.want, &report)
		}
		for _, want := range test.wantReport {
			if !strings.Contains(report.String(), want) {
				t.Errorf("%s: the report lacks %q:\n%s", name, want, &report)
			}
		}
		if leaks {
			release <- struct{}{}
			<-ended
		}
	}
}

func stayBehind(release, ended chan struct{}) {
	<-release
	ended <- struct{}{}
}
