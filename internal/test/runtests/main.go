// Command runtests runs the tests of modules, each test once, in the mode that finds its faults:
//
//	go run ./internal/test/runtests [flags] [MODULE…]
//
// A MODULE is the folder of a go.mod file. The mode of a test follows from its source:
//
//   - A test that counts allocations, or that does not run under the race detector, runs without it.
//   - A test in virtual time runs with -race and GOMAXPROCS=1. With two processors, timers of one
//     testing/synctest bubble that fire at the same moment crash the runtime of Go 1.26.
//   - All other tests run with -race and two processors. With one processor, the detector does not
//     find a check that another goroutine invalidates before the action.
//
// A test without goroutines, of a package that starts none and imports no package for goroutines,
// connections or processes, runs without the race detector, unless this needed a binary more.
//
// With -plain, no test of a module runs with -race.
//
// Packages run in two lanes. Packages that start other processes run afterwards, one at a time.
// Tests are shuffled with the seed.
//
// A data race, a panic, a goroutine leak, a timeout and a failed build are failures. A test that
// only failed an assertion is repeated alone, 20 times on a busy machine and 20 times on an idle
// one, for at most 90 seconds; one that takes long at least 3 times on each. If it passes each time, the command prints FLAKY with the name, the
// seed and the output, and goes on. It does so for at most two tests.
//
// The last line has the numbers of tests that passed, failed and were skipped. The exit status is 1
// if a test failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A module is a folder with a go.mod file.
type module struct {
	dir       string
	workspace bool   // it is built with go.work
	plain     bool   // its tests run without the race detector
	root      string // GOROOT of its go command
}

type options struct {
	modules  []module
	binaries string        // folder for the test binaries
	build    bool          // build, and run nothing
	packages []string      // patterns
	alone    []string      // folders of packages that run one at a time, after the others
	flaky    string        // file that gets the tests that fail by chance
	lanes    int           // packages that run at the same time
	seed     int64         // of the order of tests
	timeout  time.Duration // of the tests of one package over one transport
	repeat   time.Duration // for all repetitions of failed tests
}

func main() {
	var o options
	flag.Func("workspace", "`module` that is built with go.work", func(dir string) error {
		o.modules = append(o.modules, module{dir: dir, workspace: true})
		return nil
	})
	flag.StringVar(&o.binaries, "binaries", "", "`folder` of test binaries; default: a folder that is removed")
	flag.BoolVar(&o.build, "build", false, "build the test binaries, and run no test")
	plain := flag.String("plain", "", "`folders` of modules whose tests run without the race detector, separated by spaces")
	packages := flag.String("packages", "./...", "`patterns` of packages in each module, separated by spaces")
	alone := flag.String("alone", "", "`folders` of packages that run one at a time, separated by spaces")
	flag.StringVar(&o.flaky, "flaky", "", "`file` that gets the tests that fail by chance; at most two, with the tests of earlier runs")
	flag.IntVar(&o.lanes, "lanes", 2, "`number` of packages that run at the same time")
	flag.Int64Var(&o.seed, "seed", 1, "`seed` of the order of tests")
	flag.DurationVar(&o.timeout, "timeout", 5*time.Minute, "`limit` of the tests of one package over one transport")
	flag.Parse()
	for _, dir := range flag.Args() {
		o.modules = append(o.modules, module{dir: dir})
	}
	if len(o.modules) == 0 {
		o.modules = []module{{dir: "."}}
	}
	for i, m := range o.modules {
		o.modules[i].plain = slices.Contains(strings.Fields(*plain), m.dir)
	}
	o.packages, o.alone = strings.Fields(*packages), strings.Fields(*alone)
	o.repeat = 90 * time.Second
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, o, os.Stdout)
	stop()
	os.Exit(code)
}

// run returns the exit status of the command.
func run(ctx context.Context, o options, out io.Writer) int {
	if o.binaries == "" {
		dir, err := os.MkdirTemp("", "runtests")
		if err != nil {
			fmt.Fprintln(out, err)
			return 1
		}
		defer os.RemoveAll(dir)
		o.binaries = dir
	}
	var all []*testPackage
	for i, m := range o.modules {
		packages, err := m.list(ctx, o.packages)
		if err == nil {
			err = m.build(ctx, packages, filepath.Join(o.binaries, fmt.Sprint(i)))
		}
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n", m.dir, err)
			return 1
		}
		all = append(all, packages...)
	}
	for _, folder := range o.alone {
		dir, err := filepath.Abs(folder)
		i := slices.IndexFunc(all, func(p *testPackage) bool { return p.dir == dir })
		if err != nil || i < 0 {
			fmt.Fprintf(out, "-alone: %s has no tests\n", folder)
			return 1
		}
		all[i].alone = true
	}
	if o.build {
		return 0
	}
	r := &runner{options: o, out: out}
	r.runAll(ctx, all)
	if err := r.repeatFailures(ctx); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	return r.report()
}
