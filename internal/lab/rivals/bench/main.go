// Bench does the same work with this library, with other libraries for MCP and with the bare transport, and
// compares what it costs. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	done, err := runErrand(ctx, peers())
	if !done {
		err = run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	var (
		rounds = flag.Int("rounds", 5, "number of rounds")
		each   = flag.Duration("time", 300*time.Millisecond, "time of each peer in a round")
		only   = flag.String("only", "", "run only the benchmarks whose names match this regular expression")
		pages  = flag.Bool("pages", false, "write the tables to README.md and GOALS.md in the current folder")
		strict = flag.Bool("goals", false, "print also the table of growth, and fail if a goal is missed")
	)
	flag.Parse()
	if *rounds < 1 || flag.NArg() > 0 {
		return errors.New("expected at least one round, and no arguments")
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(benchmarks(), func(b Benchmark) bool { return !pattern.MatchString(b.Name) })
	result, err := runAll(ctx, schedule{*rounds, *each}, chosen)
	resultTables(os.Stdout, result)
	goalsTable(os.Stdout, result)
	if err != nil {
		return err
	}
	if *pages {
		err = errors.Join(writePage("README.md", resultTables, result), writePage("GOALS.md", goalsTable, result))
	}
	if *strict {
		err = errors.Join(err, missed(result.Verdicts), printGrowth(ctx))
	}
	return err
}

// runAll prints its progress to standard error. If there is an error, the result has what came before.
func runAll(ctx context.Context, s schedule, chosen []Benchmark) (*Result, error) {
	result := &Result{Machine: thisMachine(s)}
	for i, b := range chosen {
		fmt.Fprintf(os.Stderr, "%d/%d %s, %s\n", i+1, len(chosen), b.Table, b.Name)
		r, err := s.run(ctx, b, peers())
		if err != nil {
			return result, err
		}
		result.Benchmarks = append(result.Benchmarks, *r)
		for _, v := range r.Variants {
			if v.Failure != "" {
				fmt.Fprintf(os.Stderr, "\t%s: %s\n", v.Name, v.Failure)
			}
		}
		for _, g := range goals() {
			if g.Benchmark != b.Name {
				continue
			}
			verdict, err := g.judge(r)
			if err != nil {
				return result, err
			}
			result.Verdicts = append(result.Verdicts, verdict)
		}
	}
	return result, nil
}

// printGrowth runs the tests that print what an operation costs with many of something.
func printGrowth(ctx context.Context) error {
	source, err := sourceFolder(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "soak", "-timeout", "20m", "-count", "1", "-v", "./internal/test/growth")
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(source, "../../../.."), os.Stdout, os.Stderr
	return cmd.Run()
}
