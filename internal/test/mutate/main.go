// Mutate measures what the tests of the core packages notice. It makes small changes in their
// source, one at a time, and runs the tests of the changed package for each. .ci/mutate runs it:
//
//	mutate -n 100 -seed S [-package FOLDER,FOLDER] [-kind KIND] [-want 85] [-resume FILE]
//	mutate -n 100 -seed S -list
//
// The changed source reaches the compiler as an overlay. The files of the module stay as they
// are. Changes that do not compile are replaced by others. The program prints one line for each
// change, a table and the score, which is the percentage of changes that made a test fail. It
// exits with 1 if the score is below -want, and with 2 if it could not be determined.
//
// A seed stands for an order of all possible changes. The order does not depend on lines, so
// an edit of one function does not affect the choice in others.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// errScore reports that the tests noticed too little.
var errScore = errors.New("the score is too low")

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Stdout, os.Args[1:])
	if err == nil {
		return
	}
	log.Print(err)
	stop()
	if errors.Is(err, errScore) {
		os.Exit(1)
	}
	os.Exit(2)
}

// run works in the module of the current folder.
func run(ctx context.Context, w io.Writer, args []string) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	count := flags.Int("n", 100, "how many mutations to judge, 0 for all")
	seed := flags.String("seed", "", "a `text` that determines which mutations are chosen")
	only := flags.String("package", "", "choose only from the packages in these `folders`, separated by commas")
	kind := flags.String("kind", "", "choose only mutations of this `kind`")
	list := flags.Bool("list", false, "print the first mutations in their order, and do not judge them")
	want := flags.Float64("want", 0, "the least score, in percent")
	resume := flags.String("resume", "", "a `file` with the results of earlier runs, which are used and extended")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *count < 0 {
		return errors.New("expected no arguments, and a number of mutations that is not negative")
	}
	folders := corePackages()
	if *only != "" {
		folders = strings.Split(*only, ",")
	}

	root, err := os.Getwd()
	if err != nil {
		return err
	}
	packages := map[string]*testedPackage{}
	var candidates []mutation
	for _, folder := range folders {
		p, err := loadPackage(root, filepath.ToSlash(filepath.Clean(folder)))
		if err != nil {
			return err
		}
		packages[p.folder] = p
		candidates = append(candidates, p.mutations...)
	}
	if *kind != "" {
		if !slices.Contains(kinds(), *kind) {
			return fmt.Errorf("the kind is %q, expected one of %q", *kind, kinds())
		}
		candidates = slices.DeleteFunc(candidates, func(m mutation) bool { return m.kind != *kind })
	}
	ordered := order(candidates, *seed)
	limit := cmp.Or(*count, len(ordered))
	if *list {
		for _, m := range ordered[:min(limit, len(ordered))] {
			fmt.Fprintln(w, m)
		}
		return nil
	}

	saved, err := openResults(*resume)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	j := &judge{root: root, scratch: scratch, timeout: testTimeout, maxMemory: maxMemory, checked: map[string]error{}}
	results, err := judgeAll(ctx, w, j, ordered, packages, saved, limit)
	err = errors.Join(err, saved.close(), os.RemoveAll(scratch))
	score := writeTable(w, results)
	if err == nil && score < *want {
		err = fmt.Errorf("%w: %.1f %%, expected %.1f %%", errScore, score, *want)
	}
	return err
}

// judgeAll judges mutations in their order until limit of them have compiled, and prints them.
func judgeAll(ctx context.Context, w io.Writer, j *judge, ordered []mutation, packages map[string]*testedPackage, saved *results, limit int) ([]result, error) {
	var counted []result
	for _, m := range ordered {
		if len(counted) == limit {
			break
		}
		p := packages[m.folder]
		r, known := saved.lookup(m, p)
		if !known {
			var err error
			if r, err = j.judge(ctx, m, p); err != nil {
				return counted, err
			}
			if err := saved.add(r); err != nil {
				return counted, err
			}
		}
		if r.Outcome == notCompiled {
			continue
		}
		counted = append(counted, r)
		fmt.Fprintf(w, "%3d %s: %s, %.0fs\n", len(counted), m, r, r.Seconds)
	}
	return counted, nil
}
