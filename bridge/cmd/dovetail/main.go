// Dovetail is a command line client for any MCP server:
//
//	dovetail [flags] VERB [ARGS] TARGET
//
// TARGET is the URL of a server (http, https, ws or wss), or -- and a command that
// serves its standard streams. With a configuration file,
//
//	dovetail -config mcp.json [flags] VERB [ARGS]
//
// connects to all servers of the file, whose tools are named alias__tool. The verbs are
//
//	info                                  name, version and capabilities of the server
//	tools | resources | templates | prompts | skills
//	call NAME [JSON]                      call a tool
//	read URI                              read a resource
//	prompt NAME [JSON]                    get a prompt
//	complete prompt NAME ARG VALUE        complete a prompt's argument
//	complete resource TEMPLATE ARG VALUE  complete a template's variable
//	listen [URI…]                         show changes until interrupted
//	ping                                  check that the server responds
//	session                               read verbs from standard input, one per line
//	logout                                delete the token of a login, and revoke it
//
// With -login, the program obtains an access token for a server at an http URL: it opens a
// browser for the login and stores the token, encrypted, for later runs. logout ends that login.
//
// In a session, listen returns at once and wait prints the next change. A line that begins
// with # is a comment. The lines after a call answer the questions of the server. Without a
// session, the user answers at the terminal; without a terminal, questions are declined.
//
// Standard output is one JSON document, with all pages of a list merged; for listen it is
// one line per change. Standard error shows progress and errors. The exit status is 0, or 2
// if a tool reported an error, or 1 for any other error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/transport"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	var status exitStatus
	switch {
	case errors.As(err, &status):
		stop()
		os.Exit(int(status))
	case err != nil:
		printError(peertext.Screen(os.Stderr), err)
		stop()
		os.Exit(1)
	}
}

// maxError is how much of an error is printed, in bytes.
const maxError = 4 << 10

// printError prints an error, which may contain text of a server. Each line begins with the name
// of the program.
func printError(w io.Writer, err error) {
	for line := range strings.Lines(peertext.Cut(err.Error(), maxError)) {
		fmt.Fprintln(w, "dovetail:", strings.TrimSuffix(line, "\n"))
	}
}

// An exitStatus ends the program without a message.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// toolFailed is the status after a tool error, which is printed as a result.
const toolFailed exitStatus = 2

// A command is a parsed command line.
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
	flags := flag.NewFlagSet("dovetail", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: dovetail [flags] VERB [ARGS] URL")
		fmt.Fprintln(stderr, "       dovetail [flags] VERB [ARGS] -- COMMAND [ARG…]")
		fmt.Fprintln(stderr, "       dovetail [flags] -config FILE VERB [ARGS]")
		fmt.Fprintln(stderr, "verbs:", strings.Join(verbNames(), " "), sessionVerb, logoutVerb)
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
	if all := append(verbNames(), sessionVerb, logoutVerb); !slices.Contains(all, c.verb) {
		return nil, fmt.Errorf("unknown verb %q: expected one of %s", c.verb, strings.Join(all, ", "))
	}
	var err error
	c.args, err = c.target.take(rest)
	return c, err
}

// run runs one command line. Everything that it writes to stdout and the terminal of standard error
// is escaped; a progress bar escapes its text itself.
func run(ctx context.Context, line []string, stdin io.Reader, stdout, terminal io.Writer) error {
	stderr := peertext.Screen(terminal)
	c, err := parseCommand(line, stderr)
	if err != nil {
		return err
	}
	if c.verb == logoutVerb {
		return c.logOut(ctx, stdout, stderr)
	}
	if err := c.target.logIn(ctx, stderr); err != nil { // before the timeout starts: the user may take long
		return err
	}
	typed := newLines(ctx, stdin, stderr)
	p := &person{out: stderr}
	if isTerminal(stdin) || c.verb == sessionVerb {
		p.typed = typed
	}
	if c.verb != sessionVerb { // in a session, the timeout applies to each line
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
	i := &inspection{session: session, servers: several, out: peertext.Screen(stdout), changes: changes, bar: newBar(terminal, stderr)}
	if c.verb == sessionVerb {
		return c.converse(ctx, i, typed)
	}
	return verbs[c.verb](ctx, i, c.args)
}

// dialer returns a dialer for the target: one server, or the servers of a file.
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
