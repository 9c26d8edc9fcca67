package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/procgroup"
)

const (
	// testTimeout is how long the tests of a package may run.
	testTimeout = 3 * time.Minute
	// buildTimeout is how long a build and its tests may take in addition.
	buildTimeout = 10 * time.Minute
	// maxMemory is how many bytes of memory a test process may use. A loop that does not end may
	// also allocate.
	maxMemory = 6 << 30
	// memoryInterval is the time between two looks at the memory.
	memoryInterval = 500 * time.Millisecond
	// attempts is how often tests are run that fail without a mutation, or whose race detector crashes.
	attempts = 3
)

// A judge runs tests with mutations.
type judge struct {
	root      string // folder of the module
	scratch   string // folder for changed files
	timeout   time.Duration
	maxMemory int64
	checked   map[string]error // by package and pass: whether the tests pass without a mutation
}

// A pass is a run of a package's tests.
type pass struct {
	transport string // the only one that tests run over, "" for their default
	flags     []string
}

// passes returns the runs for a package, from the quickest. A later run is needed only if the
// tests pass in those before.
//
// In Go 1.26 the race detector may crash or hang in tests in virtual time if it has two
// processors. So the first run has one. The second has two, without which few tests notice that
// a lock is missing. The third is without the race detector, which some tests cannot run with.
func passes(p *testedPackage) []pass {
	if !p.concurrent {
		return []pass{{}}
	}
	first, second := pass{flags: []string{"-race", "-cpu=1"}}, pass{flags: []string{"-race", "-cpu=2"}}
	if p.overAll {
		first.transport = "pipe"
	}
	if p.plain {
		return []pass{first, second, {transport: first.transport}}
	}
	return []pass{first, second}
}

// judge runs the tests of the mutation's package with the mutation, until they fail.
func (j *judge) judge(ctx context.Context, m mutation, p *testedPackage) (result, error) {
	began := time.Now()
	overlay, err := j.overlay(m)
	if err != nil {
		return result{}, err
	}
	r := result{kind: m.kind, ID: m.id(), Source: p.sourceSum, Tests: p.testSum, Outcome: survived}
	for i, run := range passes(p) {
		if err := j.checkUnchanged(ctx, p, i, run); err != nil {
			return result{}, err
		}
		report, err := j.test(ctx, p, run, overlay)
		if err != nil {
			return result{}, err
		}
		// Only mutations that are likely to survive reach a later run. There, a test that fails by
		// chance is the more probable, so another failure has to confirm it.
		if outcome := report.outcome(); i > 0 && outcome != survived && outcome != byRace {
			if report, err = j.test(ctx, p, run, overlay); err != nil {
				return result{}, err
			}
		}
		if r.Outcome, r.Test = report.outcome(), report.failed; r.Outcome != survived {
			break
		}
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// overlay writes the changed file and returns the name of the file that go test takes as -overlay.
func (j *judge) overlay(m mutation) (string, error) {
	original := filepath.Join(j.root, filepath.FromSlash(m.path()))
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(j.scratch, "changed.go")
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(j.scratch, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// checkUnchanged runs a pass without a mutation, once for each package. Without this check, tests
// that fail in any case would notice every mutation.
func (j *judge) checkUnchanged(ctx context.Context, p *testedPackage, number int, run pass) error {
	key := fmt.Sprintf("%s %d", p.folder, number)
	if err, done := j.checked[key]; done {
		return err
	}
	var err error
	for range attempts {
		var r *report
		if r, err = j.test(ctx, p, run, ""); err != nil || r.outcome() == survived {
			break
		}
		err = fmt.Errorf("the tests of %s fail without a mutation (%s):\n%s", p.folder, r.outcome(), strings.Join(r.last, "\n"))
	}
	if ctx.Err() == nil {
		j.checked[key] = err
	}
	return err
}

// test runs the tests of a package.
func (j *judge) test(ctx context.Context, p *testedPackage, run pass, overlay string) (*report, error) {
	args := append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=" + j.timeout.String()}, run.flags...)
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	args = append(args, "./"+p.folder)
	for range attempts {
		r, err := j.runTests(ctx, args, run.transport)
		if err != nil || !r.crashed {
			return r, err
		}
	}
	return nil, fmt.Errorf("the race detector crashed %d times: go %s", attempts, strings.Join(args, " "))
}

func (j *judge) runTests(ctx context.Context, args []string, transport string) (*report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.timeout+buildTimeout, errors.New("the build and its tests took too long"))
	defer cancel()
	r := &report{}
	cmd := exec.Command("go", args...)
	cmd.Dir = j.root
	cmd.Env = os.Environ()
	if transport != "" {
		cmd.Env = append(cmd.Env, "DOVETAIL_TEST_TRANSPORT="+transport)
	}
	cmd.Stdout, cmd.Stderr = r, r
	ended := make(chan error, 1)
	child, err := procgroup.Launch(cmd, syscall.SIGKILL, func(err error) { ended <- err })
	if err != nil {
		return nil, err
	}
	look := time.NewTicker(memoryInterval)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			r.end()
			r.passed = err == nil
			return r, nil
		case <-look.C:
			if memoryOf(cmd.Process.Pid) > j.maxMemory {
				r.tooLarge = true
				child.Kill()
			}
		case <-ctx.Done():
			child.Kill()
			return nil, errors.Join(context.Cause(ctx), <-ended)
		}
	}
}

// memoryOf returns the bytes of physical memory of a process group, 0 where the system does not
// describe processes in files.
func memoryOf(group int) int64 {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	var pages int64
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// After the name of the program, which may have spaces: state, parent, group, and others.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 21 && fields[2] == strconv.Itoa(group) {
			resident, _ := strconv.ParseInt(fields[21], 10, 64)
			pages += resident
		}
	}
	return pages * int64(os.Getpagesize())
}
