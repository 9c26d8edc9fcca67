package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/client"
)

// A command is a command line, taken apart.
type command struct {
	verb    string
	args    []string
	target  target
	era     client.Era
	timeout time.Duration
	verbose bool
}

// eras are the values of the flag -era.
var eras = [...]struct {
	name string
	era  client.Era
}{{"auto", client.Auto}, {"modern", client.Modern}, {"legacy", client.Legacy}}

func parseCommand(line []string, stderr io.Writer) (*command, error) {
	c := &command{}
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: inspect [flags] VERB [ARGS] URL")
		fmt.Fprintln(stderr, "       inspect [flags] VERB [ARGS] -- COMMAND [ARG…]")
		fmt.Fprintln(stderr, "verbs:", strings.Join(verbNames(), " "))
		flags.PrintDefaults()
	}
	era := flags.String("era", "auto", "protocol era: auto, modern or legacy")
	flags.DurationVar(&c.timeout, "timeout", time.Minute, "bound on the whole command; listen ends with it")
	flags.BoolVar(&c.verbose, "verbose", false, "show every message on standard error")
	flags.Var(&c.target.headers, "header", "`name: value` of an HTTP header, repeatable")
	if err := flags.Parse(line); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, exitStatus(0)
		}
		return nil, exitStatus(1)
	}
	known := false
	for _, e := range eras {
		if e.name == *era {
			c.era, known = e.era, true
		}
	}
	if !known {
		return nil, fmt.Errorf("-era %q: expected auto, modern or legacy", *era)
	}
	rest := flags.Args()
	if len(rest) == 0 {
		flags.Usage()
		return nil, exitStatus(1)
	}
	c.verb, rest = rest[0], rest[1:]
	if !slices.Contains(verbNames(), c.verb) {
		return nil, fmt.Errorf("unknown verb %q: expected one of %s", c.verb, strings.Join(verbNames(), ", "))
	}
	var err error
	c.args, err = c.target.take(rest)
	return c, err
}

// run runs one command line.
func run(ctx context.Context, line []string, stdout, stderr io.Writer) error {
	c, err := parseCommand(line, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	dialer, err := c.target.dialer(c.verbose, stderr)
	if err != nil {
		return err
	}
	changes := make(chan []byte, 64)
	session, err := client.Connect(ctx, dialer, c.options(changes, stderr))
	if err != nil {
		return err
	}
	defer session.Close()
	i := &inspection{session: session, out: stdout, changes: changes, bar: newBar(stderr)}
	return verbs[c.verb](ctx, i, c.args)
}
