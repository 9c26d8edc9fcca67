// Conformance runs the official conformance suite
// (https://github.com/modelcontextprotocol/conformance) against an MCP server,
// and compares what comes of it with checks.txt,
//
//	conformance -server PROGRAM -suite FOLDER [-rounds N] [-without VERSION]
//	conformance -client PROGRAM -suite FOLDER [-rounds N]
//
// or against a client, which is started by the suite for each scenario.
//
// FOLDER is where npm has installed the suite, and the Node.js that runs it. The
// server is started once, as PROGRAM -http 127.0.0.1:0, for all runs of all
// rounds: nothing tells it which version of the protocol comes next. It has to
// print its URL to standard error, and to end when it is told to.
//
// Every check has to succeed. A warning is not enough, nor is a check that was
// skipped; there are no expected failures. Since a check that a scenario does not
// come to is not missed by the suite, checks.txt also says how many there must be.
// With -without, a version's runs are left out: those that a server of older versions,
// reached through a proxy, has no words for.
// More rounds find what is lost only now and then, such as a notification; they
// leave out runs with an extension that the server does not have.
//
// Standard output shows the first round in the form of checks.txt. The exit
// status is 1 when anything differs.
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

// conform does what the command line says.
func conform(ctx context.Context, line []string) (err error) {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	program := flags.String("server", "", "the `program` to test as a server")
	guest := flags.String("client", "", "the `program` to test as a client")
	folder := flags.String("suite", "", "the `folder` in which npm has installed the suite")
	rounds := flags.Int("rounds", 1, "how `often` to run everything")
	without := flags.String("without", "", "a `version` whose runs are left out")
	if err := flags.Parse(line); err != nil {
		return err
	}
	if (*program == "") == (*guest == "") || *folder == "" || *rounds < 1 || flags.NArg() > 0 {
		flags.Usage()
		return fmt.Errorf("expected -server or -client PROGRAM and -suite FOLDER, got %q", line)
	}
	runs, err := parseRuns(checks)
	if err != nil {
		return err
	}
	side := serverSide
	if *guest != "" {
		side = clientSide
	}
	runs = slices.DeleteFunc(runs, func(r run) bool { return r.side != side || slices.Contains(r.arguments, *without) })
	if side == clientSide {
		return play(ctx, suite{*folder, *guest}, runs, *rounds)
	}
	server, err := start(ctx, *program)
	if err != nil {
		return err
	}
	defer func() {
		if ended := server.stop(); err == nil {
			err = ended
		}
	}()
	return play(ctx, suite{*folder, server.url}, runs, *rounds)
}

// play runs everything in each round, up to the end of the first round in which
// something was wrong.
func play(ctx context.Context, suite suite, runs []run, rounds int) error {
	for round := 1; round <= rounds; round++ {
		problems, total := 0, 0
		for _, run := range runs {
			if round > 1 && run.once() {
				continue
			}
			outcome, err := suite.play(ctx, run)
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
