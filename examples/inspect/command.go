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
	"github.com/dovetail-go/dovetail/transport"
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
		fmt.Fprintln(stderr, "       inspect [flags] -config FILE VERB [ARGS]")
		fmt.Fprintln(stderr, "verbs:", strings.Join(verbNames(), " "), sessionVerb)
		flags.PrintDefaults()
	}
	era := flags.String("era", "auto", "protocol era: auto, modern or legacy")
	flags.DurationVar(&c.timeout, "timeout", time.Minute, "bound on the whole command, of a session on each line; listen ends with it")
	flags.BoolVar(&c.verbose, "verbose", false, "show every message on standard error")
	flags.Var(&c.target.headers, "header", "`name: value` of an HTTP header, repeatable")
	flags.BoolVar(&c.target.login, "login", false, "log in at the server with a browser, if it demands that")
	flags.StringVar(&c.target.config, "config", "", "look at all servers of this `file`, as one")
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
	if c.verb != sessionVerb && !slices.Contains(verbNames(), c.verb) {
		return nil, fmt.Errorf("unknown verb %q: expected one of %s, %s", c.verb, strings.Join(verbNames(), ", "), sessionVerb)
	}
	var err error
	c.args, err = c.target.take(rest)
	return c, err
}

// run runs one command line.
func run(ctx context.Context, line []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c, err := parseCommand(line, stderr)
	if err != nil {
		return err
	}
	if err := c.target.logIn(ctx, stderr); err != nil { // for which a person may take long
		return err
	}
	typed := newLines(ctx, stdin, stderr)
	p := &person{out: stderr}
	if isTerminal(stdin) || c.verb == sessionVerb {
		p.typed = typed
	}
	if c.verb != sessionVerb { // whose lines are bounded one by one
		bounded, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		ctx = bounded
	}
	dialer, several, err := c.dialer(ctx, stderr)
	if err != nil {
		return err
	}
	defer several.close()
	changes := make(chan []byte, maxChanges)
	session, err := client.Connect(ctx, dialer, c.options(changes, p, stderr))
	if err != nil {
		return err
	}
	defer session.Close()
	several.report(stderr)
	i := &inspection{session: session, servers: several, out: stdout, changes: changes, bar: newBar(stderr)}
	if c.verb == sessionVerb {
		return c.converse(ctx, i, typed)
	}
	return verbs[c.verb](ctx, i, c.args)
}

// dialer connects to the target: one server, or several behind one face.
func (c *command) dialer(ctx context.Context, stderr io.Writer) (transport.Dialer, *servers, error) {
	if c.target.config == "" {
		dialer, err := c.target.dialer(c.verbose, stderr)
		return dialer, nil, err
	}
	several, err := openServers(ctx, c, stderr)
	if err != nil {
		return nil, nil, err
	}
	return transport.Pipe(several.face), several, nil
}
