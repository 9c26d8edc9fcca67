package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	// maxFlaky is the number of tests in a run that may fail by chance.
	maxFlaky = 2
	// repetitions is the number of repetitions of a failed test on a busy machine, and on an idle one. A test that
	// takes long is repeated less often, and minRepetitions times at least.
	repetitions    = 20
	minRepetitions = 3
)

// A runner runs the tests of packages.
type runner struct {
	options
	out io.Writer

	mu       sync.Mutex
	failures []*process // failed assertions
	broken   bool       // a failure that is not repeated
	passed   int
	failed   int
	skipped  int
}

// runAll runs the packages in lanes, and then those that run alone.
func (r *runner) runAll(ctx context.Context, packages []*testPackage) {
	queue := make(chan *testPackage)
	var lanes sync.WaitGroup
	for range r.lanes {
		lanes.Go(func() {
			for p := range queue {
				r.run(ctx, p)
			}
		})
	}
	for _, p := range packages {
		if !p.alone {
			queue <- p
		}
	}
	close(queue)
	lanes.Wait()
	for _, p := range packages {
		if p.alone {
			r.run(ctx, p)
		}
	}
}

// run runs the tests of a package, one process for each mode.
func (r *runner) run(ctx context.Context, p *testPackage) {
	var elapsed, cpu time.Duration
	var counts []string
	ok := true
	for _, m := range p.modes() {
		proc := &process{pkg: p, mode: m}
		proc.run(ctx, p.tests[m], r.seed, r.timeout)
		elapsed, cpu = elapsed+proc.elapsed, cpu+proc.cpu
		counts = append(counts, fmt.Sprintf("%d %v", len(p.tests[m]), m))
		ok = r.note(proc) && ok
	}
	status := "ok"
	if !ok {
		status = "FAIL"
	}
	r.print("%-4s\t%s\t%.1fs\t%.1fs CPU\t%s\n", status, p.path, elapsed.Seconds(), cpu.Seconds(), strings.Join(counts, ", "))
}

// note counts the results of a process and prints its failures.
func (r *runner) note(p *process) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for result := range maps.Values(p.results) {
		switch result {
		case "PASS":
			r.passed++
		case "SKIP":
			r.skipped++
		}
	}
	failed := p.failed()
	r.failed += len(failed)
	if len(failed) == 0 && p.fault == "" {
		return true
	}
	if p.fault != "" {
		r.failed += 1 - min(1, len(failed))
		r.broken = true
	}
	r.failures = append(r.failures, p)
	fmt.Fprintf(r.out, "%s, %v tests, seed %d: %s\n%s", p.pkg.path, p.mode, r.seed,
		cmp.Or(p.fault, "failed "+strings.Join(failed, ", ")), p.report())
	return false
}

func (r *runner) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// repeatFailures repeats the tests that failed an assertion, unless the run has failed anyway.
func (r *runner) repeatFailures(ctx context.Context) error {
	known, err := r.flakyTests()
	if err != nil || r.broken {
		return err
	}
	count := len(known)
	for _, p := range r.failures {
		count += len(p.failed())
	}
	if count > maxFlaky {
		r.print("%d failures are too many for chance\n", count)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.repeat)
	defer cancel()
	for _, p := range r.failures {
		for _, name := range p.failed() {
			if !r.passesAgain(ctx, p, name) {
				continue
			}
			delete(p.results, name)
			r.failed--
			r.passed++
			r.print("FLAKY %s %d\n%s", name, r.seed, p.output[name])
			known = append(known, name)
		}
	}
	if r.flaky == "" {
		return nil
	}
	return os.WriteFile(r.flaky, []byte(strings.Join(known, "\n")), 0o600)
}

// flakyTests returns the tests that failed by chance in earlier commands of the run.
func (r *runner) flakyTests() ([]string, error) {
	text, err := os.ReadFile(r.flaky)
	if r.flaky == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}

// passesAgain reports whether a test passes in all repetitions within the limit of time.
func (r *runner) passesAgain(ctx context.Context, p *process, name string) bool {
	for _, busy := range []bool{true, false} {
		again := &process{pkg: p.pkg, mode: p.mode, args: []string{"-test.count=1"}}
		load, stop := context.WithCancel(ctx)
		var work sync.WaitGroup
		if busy {
			for range runtime.NumCPU() {
				work.Go(func() {
					for load.Err() == nil {
					}
				})
			}
		}
		share := time.Now().Add(r.repeat / (2 * maxFlaky))
		passed := true
		for n := 0; passed && n < repetitions && (n < minRepetitions || time.Now().Before(share)); n++ {
			again.run(ctx, []string{name}, r.seed, r.timeout)
			passed = again.fault == "" && again.results[name] == "PASS"
		}
		stop()
		work.Wait()
		if !passed {
			r.print("%s failed again, busy: %t: %s\n%s", name, busy, again.fault, again.report())
			return false
		}
	}
	return true
}

// report prints the numbers of tests and returns the exit status.
func (r *runner) report() int {
	for _, p := range r.failures {
		for _, name := range p.failed() {
			fmt.Fprintf(r.out, "FAILED %s %s\n", p.pkg.path, name)
		}
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 || r.broken || r.passed == 0 {
		return 1
	}
	return 0
}
