// Conformance runs the official conformance suite
// (https://github.com/modelcontextprotocol/conformance) against an MCP
// server or client, and compares the results with checks.txt:
//
//	conformance -server PROGRAM -suite FOLDER [-rounds N] [-without VERSION] [-- ARGUMENT…]
//	conformance -client PROGRAM -suite FOLDER [-rounds N]
//
// The suite starts a client for each scenario. FOLDER contains the suite and Node.js, as installed by npm. The server is started once,
// as PROGRAM -http 127.0.0.1:0 ARGUMENT…, for all runs of all rounds and all protocol versions. It
// must print its URL to standard error and end after an interrupt.
//
// Every check must succeed. A warning or a skipped check is a failure; there are no expected
// failures. The suite does not notice checks that a scenario never reaches, so checks.txt
// has the number of checks of each scenario. -without VERSION omits the runs of a version,
// for a proxy of a server that only supports older versions. Further rounds find rare
// errors, such as a lost notification.
//
// Standard output is the first round in the format of checks.txt. The exit status is 1 if a
// result differs.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

//go:embed checks.txt
var checks string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := conform(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// conform executes the command line.
func conform(ctx context.Context, line []string) (err error) {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	program := flags.String("server", "", "the `program` to test as a server")
	client := flags.String("client", "", "the `program` to test as a client")
	folder := flags.String("suite", "", "the `folder` in which npm has installed the suite")
	rounds := flags.Int("rounds", 1, "the `number` of rounds")
	without := flags.String("without", "", "a `version` whose runs are omitted")
	if err := flags.Parse(line); err != nil {
		return err
	}
	if (*program == "") == (*client == "") || *folder == "" || *rounds < 1 || flags.NArg() > 0 && *client != "" {
		flags.Usage()
		return fmt.Errorf("expected -server or -client PROGRAM and -suite FOLDER, got %q", line)
	}
	runs, err := parseRuns(checks)
	if err != nil {
		return err
	}
	side := serverSide
	if *client != "" {
		side = clientSide
	}
	runs = slices.DeleteFunc(runs, func(r run) bool { return r.side != side || slices.Contains(r.arguments, *without) })
	if side == clientSide {
		return runRounds(ctx, suite{*folder, *client}, runs, *rounds)
	}
	server, err := start(ctx, *program, flags.Args()...)
	if err != nil {
		return err
	}
	defer func() {
		if ended := server.stop(); err == nil {
			err = ended
		}
	}()
	return runRounds(ctx, suite{*folder, server.url}, runs, *rounds)
}

// runRounds executes all runs in each round. It stops after the first round with a problem.
func runRounds(ctx context.Context, suite suite, runs []run, rounds int) error {
	for round := 1; round <= rounds; round++ {
		problems, total := 0, 0
		for _, run := range runs {
			outcome, err := suite.execute(ctx, run)
			if err != nil {
				return err
			}
			found := run.problems(outcome)
			if round == 1 || len(found) > 0 {
				fmt.Print(run.report(outcome))
			}
			if len(found) > 0 {
				os.Stderr.Write(outcome.output)
			}
			for _, problem := range found {
				fmt.Fprintln(os.Stderr, problem)
			}
			problems += len(found)
			total += outcome.succeeded()
		}
		if problems > 0 {
			return fmt.Errorf("round %d of %d: %d problems", round, rounds, problems)
		}
		fmt.Printf("# round %d of %d: %d checks succeeded\n", round, rounds, total)
	}
	return nil
}
