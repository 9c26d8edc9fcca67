//go:build soak

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// example is a module with a package without locks, and one with a lock.
var example = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",

	"sum/sum.go": `package sum

import "strings"

func Sum(list []int) int {
	sum, left := 0, len(list)
	for left > 0 {
		sum += list[left-1]
		left--
	}
	return sum
}

func Upper(text string) string {
	text = strings.ToUpper(text)
	return text
}

func Untested(a bool) int {
	if a {
		return 1
	}
	return 2
}
`,
	"sum/sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	if got := Sum([]int{1, 2}); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}
`,

	"counter/counter.go": `package counter

import "sync"

type Counter struct {
	mu sync.Mutex
	n  int
}

func (c *Counter) Add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}
`,
	"counter/counter_test.go": `package counter

import (
	"sync"
	"testing"
)

func TestAdd(t *testing.T) {
	var c Counter
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 1000 {
				c.Add()
			}
		})
	}
	group.Wait()
	if got := c.Add(); got != 4001 {
		t.Errorf("got %d, want 4001", got)
	}
}
`,

	// The test fails once, if the function is changed and there are two processors.
	"flaky/flaky.go": "package flaky\n\nimport _ \"sync\"\n\nfunc F() int {\n\treturn 1\n}\n",
	"flaky/flaky_test.go": `package flaky

import (
	"os"
	"runtime"
	"testing"
)

func TestF(t *testing.T) {
	if F() != 1 && runtime.GOMAXPROCS(0) == 2 && os.Mkdir("failed", 0o700) == nil {
		t.Error("by chance")
	}
}
`,

	"failing/failing.go":      "package failing\n\nfunc F() int {\n\treturn 1\n}\n",
	"failing/failing_test.go": "package failing\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tt.Fatal(\"as planned\")\n}\n",

	"untested/untested.go": "package untested\n",
}

// inExample makes a new copy of the example the current folder.
func inExample(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs go test")
	}
	dir := t.TempDir()
	for name, text := range example {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
}

// newJudge returns a judge for the module in the current folder.
func newJudge(t *testing.T) *judge {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return &judge{root: root, scratch: t.TempDir(), timeout: time.Minute, maxMemory: maxMemory, checked: map[string]error{}}
}

// find returns the mutation with a description.
func find(t *testing.T, p *testedPackage, kind, what string) mutation {
	t.Helper()
	i := slices.IndexFunc(p.mutations, func(m mutation) bool { return m.kind == kind && strings.HasPrefix(m.what, what) })
	if i < 0 {
		t.Fatalf("no mutation of kind %s begins with %q: %q", kind, what, p.mutations)
	}
	return p.mutations[i]
}

func load(t *testing.T, folder string) *testedPackage {
	t.Helper()
	p, err := loadPackage(".", folder)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOutcomesOfMutations(t *testing.T) {
	inExample(t)
	j := newJudge(t)
	for _, test := range []struct {
		folder, kind, what, outcome, failed string
		timeout                             time.Duration
	}{
		{folder: "sum", kind: arithmetic, what: "`sum += list[left-1]`", outcome: byAssertion, failed: "TestSum"},
		{folder: "sum", kind: arithmetic, what: "`left-1`", outcome: byPanic, failed: "TestSum"},
		{folder: "sum", kind: statement, what: "removed `left--`", outcome: byHang, failed: "TestSum", timeout: 2 * time.Second},
		{folder: "sum", kind: statement, what: "removed `text = strings", outcome: notCompiled},
		{folder: "sum", kind: condition, what: "negated `a`", outcome: survived},
	} {
		j.timeout = time.Minute
		if test.timeout != 0 {
			j.timeout = test.timeout
		}
		p := load(t, test.folder)
		r, err := j.judge(t.Context(), find(t, p, test.kind, test.what), p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != test.outcome || r.Test != test.failed {
			t.Errorf("%s: %s: got %s in %q, want %s in %q", test.kind, test.what, r.Outcome, r.Test, test.outcome, test.failed)
		}
	}
	for name, want := range example {
		if got, err := os.ReadFile(filepath.FromSlash(name)); string(got) != want {
			t.Errorf("%s has changed: %v", name, err)
		}
	}
}

func TestRemovedLockIsCaught(t *testing.T) {
	inExample(t)
	p := load(t, "counter")
	r, err := newJudge(t).judge(t.Context(), find(t, p, lock, "removed `c.mu.Lock()`"), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != byRace || r.Test != "TestAdd" {
		t.Errorf("got %s in %q, want %s in TestAdd", r.Outcome, r.Test, byRace)
	}
}

// Tests in virtual time need one processor, tests of locks two, and tests of allocations no race
// detector. Tests that dial run over the pipe first.
func TestPasses(t *testing.T) {
	race1, race2 := []string{"-race", "-cpu=1"}, []string{"-race", "-cpu=2"}
	for _, test := range []struct {
		p    testedPackage
		want []pass
	}{
		{testedPackage{}, []pass{{}}},
		{testedPackage{plain: true}, []pass{{}}},
		{testedPackage{concurrent: true}, []pass{{"", race1}, {"", race2}}},
		{testedPackage{concurrent: true, plain: true}, []pass{{"", race1}, {"", race2}, {"", nil}}},
		{testedPackage{concurrent: true, overAll: true}, []pass{{"pipe", race1}, {"", race2}}},
		{testedPackage{concurrent: true, overAll: true, plain: true}, []pass{{"pipe", race1}, {"", race2}, {"pipe", nil}}},
	} {
		if got := passes(&test.p); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%+v: got %v, want %v", test.p, got, test.want)
		}
	}
}

// A test that fails by chance has not noticed the mutation.
func TestLateFailuresAreConfirmed(t *testing.T) {
	inExample(t)
	p := load(t, "flaky")
	r, err := newJudge(t).judge(t.Context(), find(t, p, constant, "`1` becomes `2`"), p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("flaky/failed"); err != nil {
		t.Errorf("the test has not failed: %v", err)
	}
	if r.Outcome != survived || r.Test != "" {
		t.Errorf("got %s in %q, want that it survived", r.Outcome, r.Test)
	}
}

// A process that uses too much memory is killed, and its tests count as hanging.
func TestLargeProcessesAreKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory is measured only on Linux")
	}
	inExample(t)
	j := newJudge(t)
	j.maxMemory = 1
	p := load(t, "sum")
	overlay, err := j.overlay(find(t, p, statement, "removed `left--`")) // ends only because it is killed
	if err != nil {
		t.Fatal(err)
	}
	report, err := j.test(t.Context(), p, pass{}, overlay)
	if err != nil {
		t.Fatal(err)
	}
	if report.outcome() != byHang || !report.tooLarge || report.timedOut {
		t.Errorf("got %s, too large %t, timed out %t", report.outcome(), report.tooLarge, report.timedOut)
	}
}

func TestJudgeEndsWithItsContext(t *testing.T) {
	inExample(t)
	j := newJudge(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	p := load(t, "sum")
	if _, err := j.judge(ctx, p.mutations[0], p); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("got %v, want the cause of the end", err)
	}
}

// A run prints each mutation and the score, and a second run with the same file of results
// repeats only what the tests may notice now.
func TestRunIsResumed(t *testing.T) {
	inExample(t)
	const file = "results.jsonl"
	args := []string{"-n=4", "-seed=1", "-package=sum", "-kind=condition", "-resume=" + file}
	judged := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), &out, args)
		return regexp.MustCompile(`, \d+s\n`).ReplaceAllString(out.String(), "\n"), err
	}
	first, err := judged(args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"sum/sum.go:7:6: condition: negated `left > 0`: caught by assertion in TestSum\n",
		"sum/sum.go:20:5: condition: negated `a`: SURVIVED\n",
		"50.0 %\n",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("printed\n%s\nwant a line %q", first, want)
		}
	}
	if _, err := judged(append(args, "-want=50")...); err != nil {
		t.Errorf("the score is as wanted: %v", err)
	}
	if _, err := judged(append(args, "-want=51")...); !errors.Is(err, errScore) {
		t.Errorf("the score is too low: %v", err)
	}

	path := os.Getenv("PATH")
	t.Setenv("PATH", "") // without the go command, nothing can be judged
	if again, err := judged(args...); err != nil || again != first {
		t.Errorf("resumed: %v, printed\n%s\nwant\n%s", err, again, first)
	}

	t.Setenv("PATH", path)
	test := strings.ReplaceAll(example["sum/sum_test.go"], "TestSum", "TestMore") + `
func TestUntested(t *testing.T) {
	if got := Untested(true); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}
`
	if err := os.WriteFile("sum/sum_test.go", []byte(test), 0o666); err != nil {
		t.Fatal(err)
	}
	more, err := judged(args...)
	if err != nil || !strings.Contains(more, "negated `left > 0`: caught by assertion in TestSum\n") ||
		!strings.Contains(more, "negated `a`: caught by assertion in TestUntested\n") {
		t.Errorf("with other tests: %v, printed\n%s\nwant the old result of what was caught, and a new one", err, more)
	}

	if err := os.WriteFile("sum/sum.go", []byte(example["sum/sum.go"]+"\nvar A int\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	changed, err := judged(args...)
	if err != nil || !strings.Contains(changed, "negated `left > 0`: caught by assertion in TestMore\n") {
		t.Errorf("with other source: %v, printed\n%s\nwant new results", err, changed)
	}
}

// Tests that fail in any case catch nothing.
func TestRunNeedsPassingTests(t *testing.T) {
	inExample(t)
	var out strings.Builder
	err := run(t.Context(), &out, []string{"-package=failing"})
	if err == nil || errors.Is(err, errScore) || !strings.Contains(err.Error(), "fail without a mutation") || !strings.Contains(err.Error(), "as planned") {
		t.Errorf("got %v, want the output of the failing tests", err)
	}
}

func TestRunRefusesArguments(t *testing.T) {
	inExample(t)
	for args, want := range map[string]string{
		"-package=none":           "package none",
		"-package=untested":       "has no tests",
		"-package=sum -kind=typo": `the kind is "typo"`,
		"-n=-1":                   "not negative",
		"sum":                     "expected no arguments",
	} {
		var out strings.Builder
		if err := run(t.Context(), &out, strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", args, err, want)
		}
	}
}

// The list has the mutations that are judged, without judging them.
func TestList(t *testing.T) {
	inExample(t)
	t.Setenv("PATH", "")
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"-list", "-package=sum,counter", "-kind=lock"}); err != nil {
		t.Fatal(err)
	}
	if want := "counter/counter.go:11:2: lock: removed `c.mu.Lock()` from Counter.Add\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
