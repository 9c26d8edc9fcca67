package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxOutput bounds what is printed of the output of one process, in bytes.
const maxOutput = 64 << 10

// A process is one execution of a test binary.
type process struct {
	pkg  *testPackage
	mode mode
	args []string // further flags

	results map[string]string // PASS, FAIL or SKIP by the name of the test; FAIL wins over several transports
	output  map[string][]byte // by the name of the test; what is outside of tests has the name ""
	fault   string            // why a failure is no matter of chance; "" for a failed assertion
	elapsed time.Duration
	cpu     time.Duration
}

// failed returns the names of the tests that failed.
func (p *process) failed() []string {
	var names []string
	for name, result := range p.results {
		if result == "FAIL" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// run runs tests of the package, and returns when the process has ended.
func (p *process) run(ctx context.Context, names []string, seed int64, timeout time.Duration) {
	args := append([]string{
		"-test.v=test2json", "-test.paniconexit0", fmt.Sprintf("-test.timeout=%v", timeout), fmt.Sprintf("-test.shuffle=%d", seed),
		"-test.run=^(" + strings.Join(names, "|") + ")$",
	}, p.args...)
	// Each transport has the timeout. A process that does not end then prints its goroutines.
	ctx, cancel := context.WithTimeout(ctx, 6*timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.pkg.binaries[p.mode.race()], args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = p.pkg.dir
	// A process with the race detector waits for a second before it ends, unless told otherwise.
	// A program that was built with -trimpath does not know where the standard library is. The flag
	// -test.cpu would repeat the tests in each pass over another transport.
	cmd.Env = append(p.pkg.module.environ(), "PWD="+p.pkg.dir, "GOROOT="+p.pkg.module.root, "GORACE=atexit_sleep_ms=20",
		fmt.Sprintf("GOMAXPROCS=%d", p.mode.processors()))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	began := time.Now()
	err := cmd.Run()
	p.elapsed = time.Since(began)
	if cmd.ProcessState != nil {
		p.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	p.read(output.Bytes())
	p.judge(err, names)
}

// result matches the line with the result of a test.
var result = regexp.MustCompile(`^\x16?--- (PASS|FAIL|SKIP): ([^ /]+) \(`)

// start matches the lines that say which test writes the following ones.
var start = regexp.MustCompile(`^\x16?=== (?:RUN|CONT|NAME|PAUSE) +([^ /\n]*)`)

// read takes the results of the tests from the output of the process.
func (p *process) read(output []byte) {
	p.results, p.output = map[string]string{}, map[string][]byte{}
	current := ""
	for line := range bytes.Lines(output) {
		if m := start.FindSubmatch(line); m != nil {
			current = string(m[1])
		}
		if m := result.FindSubmatch(line); m != nil {
			current = string(m[2])
			if p.results[current] != "FAIL" {
				p.results[current] = string(m[1])
			}
		}
		if line = bytes.TrimPrefix(line, []byte{0x16}); !bytes.HasPrefix(line, []byte("=== NAME ")) {
			p.output[current] = append(p.output[current], line...)
		}
	}
}

// faults are texts that tell a fault from a failed assertion.
var faults = []struct{ text, fault string }{
	{"WARNING: DATA RACE", "data race"},
	{"panic: test timed out after", "timeout"},
	{"SIGQUIT: quit", "timeout"},
	{"leaktest: ", "goroutine leak"},
	{"\npanic: ", "panic"},
	{"panic: ", "panic"},
	{"fatal error: ", "crash of the runtime"},
}

// judge finds out why the process failed.
func (p *process) judge(err error, names []string) {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return p.results[name] != "" })
	if err == nil {
		if len(missing) > 0 {
			p.fault = fmt.Sprintf("tests that did not run: %s", strings.Join(missing, ", "))
		}
		return
	}
	for _, f := range faults {
		for _, text := range p.output {
			if bytes.HasPrefix(text, []byte(f.text)) || bytes.Contains(text, []byte("\n"+f.text)) {
				p.fault = f.fault
				return
			}
		}
	}
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit):
		p.fault = err.Error()
	case len(p.failed()) == 0 || len(missing) > 0:
		p.fault = "the process ended: " + err.Error()
	}
}

// report returns the output of the failed tests, and all of it if the fault has another cause.
func (p *process) report() string {
	var text bytes.Buffer
	for _, name := range p.failed() {
		text.Write(p.output[name])
	}
	if p.fault != "" {
		for name, output := range p.output {
			if p.results[name] == "" {
				text.Write(output)
			}
		}
	}
	if text.Len() > maxOutput {
		text.Truncate(maxOutput)
		text.WriteString("\n… the output is longer\n")
	}
	return text.String()
}
