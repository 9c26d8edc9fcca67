package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport"
)

// targetHelp is the end of the help of each command with a target.
const targetHelp = `
TARGET is a URL, or the name of a server in a user's configuration file of a client (dovetail list
prints them), with -project in the clients' files of the current folder, or in the file of -config. Without TARGET, the command after -- is the server.
With -config and no TARGET, all servers of the file are one server, and a tool is named
ALIAS__TOOL.`

// argumentHelp explains ARGUMENTS.
const argumentHelp = `

ARGUMENTS is one JSON object, or words such as name=text and count:=3: the text after = is a string,
and the text after := is JSON.`

// clientCommands are the commands that open a session with a server.
func clientCommands() []*command {
	list := []*command{
		{name: "info", args: "[FLAGS] TARGET", short: "print name, version and capabilities of a server"},
		{name: "tools", args: "[FLAGS] TARGET", short: "list the tools of a server"},
		{name: "resources", args: "[FLAGS] TARGET", short: "list the resources of a server"},
		{name: "templates", args: "[FLAGS] TARGET", short: "list the resource templates of a server"},
		{name: "prompts", args: "[FLAGS] TARGET", short: "list the prompts of a server"},
		{name: "skills", args: "[FLAGS] TARGET", short: "list the skills of a server; read prints a file of one"},
		{name: "events", args: "[FLAGS] TARGET [NAME [ARGUMENTS]]", short: "list the events of a server, or print those with a name until interrupted or the timeout"},
		{name: "call", args: "[FLAGS] TARGET NAME [ARGUMENTS]", short: "call a tool"},
		{name: "read", args: "[FLAGS] TARGET URI", short: "read a resource"},
		{name: "prompt", args: "[FLAGS] TARGET NAME [ARGUMENTS]", short: "get a prompt"},
		{name: "complete", args: "[FLAGS] TARGET prompt|resource NAME ARG VALUE", short: "complete an argument of a prompt or a variable of a template"},
		{name: "watch", args: "[FLAGS] TARGET [URI…]", short: "print changes of lists and of these resources, until interrupted or the timeout"},
		{name: "ping", args: "[FLAGS] TARGET", short: "check that a server answers, and how fast"},
		{
			name: sessionVerb, args: "[FLAGS] TARGET", short: "read these commands from standard input, one per line, in one session",
			long: "A line is a command without TARGET, such as: call add a:=1. In a session, watch returns\nimmediately, and wait prints the next change. A line that begins with # is a comment. The lines\nafter a call answer the questions of the server. The exit status of a session\ndoes not depend on the exit statuses of its lines.",
		},
		{name: logoutVerb, args: "URL", short: "delete the token of an earlier -login, and revoke it"},
	}
	for _, c := range list {
		c.long = strings.TrimSpace(c.long+"\n"+targetHelp) + `

On a terminal the output is for people. Elsewhere, or with -json, it is one JSON document: the
result as the server sent it, with all pages of a list in one, or for watch one line per change.
The user answers questions of the server at the terminal. Without a terminal they are declined.`
		if strings.Contains(c.args, "ARGUMENTS") {
			c.long += argumentHelp
		}
		c.run = func(ctx context.Context, env *environment, c *command, line []string) error {
			return runClient(ctx, env, c.name, line)
		}
	}
	return list
}

// An invocation is a parsed command line of a command that opens a session.
type invocation struct {
	verb    string
	args    []string
	target  target
	era     client.Era
	timeout time.Duration
	verbose bool
	asJSON  bool
	asText  bool
	record  string
	trace   func(conn string, sent bool, frame []byte) // nil: none
}

// eras are the values of the flag -era.
var eras = [...]struct {
	name string
	era  client.Era
}{{"auto", client.Auto}, {"modern", client.Modern}, {"legacy", client.Legacy}}

// eraFlag is the flag -era.
type eraFlag struct{ era *client.Era }

func (f eraFlag) String() string {
	if f.era == nil {
		return client.Auto.String()
	}
	return f.era.String()
}

func (f eraFlag) Set(text string) error {
	for _, e := range eras {
		if e.name == text {
			*f.era = e.era
			return nil
		}
	}
	return fmt.Errorf("expected auto, modern or legacy")
}

// timeoutFlag is the flag -timeout.
type timeoutFlag time.Duration

func (f *timeoutFlag) String() string { return time.Duration(*f).String() }

func (f *timeoutFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("expected a positive duration such as 30s")
	}
	*f = timeoutFlag(d)
	return nil
}

// targetFlags defines the flags of commands with a target.
func (c *invocation) targetFlags(flags *flag.FlagSet, timeout time.Duration) {
	flags.Var(eraFlag{&c.era}, "era", "`protocol` to use: modern is from version 2026-07-28 on, legacy before it, auto finds out")
	c.timeout = timeout
	flags.Var((*timeoutFlag)(&c.timeout), "timeout", "bound on the command, in a session on each line, as a `duration`")
	flags.BoolVar(&c.verbose, "verbose", false, "show every message and the standard error of the server")
	flags.Var(&c.target.headers, "header", "`name: value` of an HTTP header, repeatable")
	flags.Func("header-env", "`name` of an environment variable with a header, as name: value; repeatable", func(name string) error {
		if err := c.target.headers.Set(os.Getenv(name)); err != nil {
			return fmt.Errorf("the variable is not set, or has no header: %w", err)
		}
		return nil
	})
	flags.BoolVar(&c.target.login, "login", false, "log in at a server at an http URL with a browser, and keep the token, encrypted; later commands use it without this flag")
	c.target.logins.flags(flags)
	flags.StringVar(&c.target.config, "config", "", "the configuration `file` with the server or servers")
	flags.BoolVar(&c.target.project, "project", false, "find the server in the clients' files of the current folder instead of the user's files")
}

func parseClient(name string, line []string, env *environment) (*invocation, error) {
	sub := &command{name: "COMMAND", args: "[FLAGS] TARGET …", short: "a command that uses a server"}
	if name != "" {
		sub = commands()[name]
	}
	c := &invocation{}
	flags := newFlags(sub, env.stderr)
	c.targetFlags(flags.FlagSet, time.Minute)
	flags.BoolVar(&c.asJSON, "json", false, "print JSON also on a terminal")
	flags.BoolVar(&c.asText, "text", false, "print text for people also if the output is no terminal")
	flags.StringVar(&c.record, "record", "", "write the messages to this transcript `file`, in place of an older one; see dovetail help replay")
	args, child, err := flags.parse(line)
	if err != nil {
		return nil, err
	}
	if name == "" {
		if len(args) == 0 {
			return nil, misuse("expected a command: one of %s", strings.Join(commandNames(), ", "))
		}
		name, args = args[0], args[1:]
		if _, ok := verbs[name]; !ok && name != sessionVerb && name != logoutVerb {
			return nil, unknownCommand(name, append(verbNames(), sessionVerb, logoutVerb))
		}
	}
	if c.asJSON && c.asText {
		return nil, misuse("-json and -text exclude each other")
	}
	c.verb = name
	if c.args, err = c.target.take(args, child); err != nil {
		return nil, err
	}
	v := verbs[name]
	switch name {
	case sessionVerb:
		v = &verb{usage: sessionVerb}
	case logoutVerb:
		v = &verb{usage: logoutVerb + " URL"}
	}
	if err := v.check(c.args); err != nil {
		return nil, c.target.unused(c.args, err)
	}
	if v.hasArguments() && len(c.args) > 0 {
		if _, err := object(c.args[1:]); err != nil {
			return nil, c.target.unused(c.args, err)
		}
	}
	return c, nil
}

func runClient(ctx context.Context, env *environment, name string, line []string) error {
	c, err := parseClient(name, line, env)
	if err != nil {
		return err
	}
	if c.verb == logoutVerb {
		return c.logOut(ctx, env.stdout)
	}
	var typed *lineReader
	p := &person{out: env.stderr}
	if typed = newLineReader(ctx, env.stdin, env.stderr); isTerminal(env.stdin) || c.verb == sessionVerb {
		p.input = typed
	}
	if c.record != "" {
		recorder, err := newRecorder(c.record)
		if err != nil {
			return err
		}
		defer recorder.close(env.stderr)
		c.trace = recorder.client
	}
	return c.withSession(ctx, env, p, func(ctx context.Context, i *inspection) error {
		if c.verb == sessionVerb {
			return c.converse(ctx, i, typed)
		}
		return verbs[c.verb].do(ctx, i, c.args)
	})
}

// withSession opens a session with the target and calls use.
func (c *invocation) withSession(ctx context.Context, env *environment, p *person, use func(context.Context, *inspection) error) error {
	if err := c.target.logIn(ctx, env.stderr); err != nil { // before the timeout starts: the user may take long
		return err
	}
	if c.verb != sessionVerb { // in a session, the timeout applies to each line
		bounded, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		ctx = bounded
	}
	dialer, several, err := c.dialer(ctx, env.stderr)
	if err != nil {
		return err
	}
	defer several.close()
	changes := make(chan []byte, maxChanges)
	began := time.Now()
	session, err := client.Connect(ctx, dialer, c.options(changes, p, env.stderr))
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.New("interrupted")
	}
	if err != nil {
		return c.cannotConnect(err)
	}
	defer session.Close()
	several.report(env.stderr)
	err = use(ctx, &inspection{
		session: session, servers: several, out: env.stdout, stderr: env.stderr, changes: changes, progress: newBar(env.terminal, env.stderr),
		text: c.asText || !c.asJSON && isTerminal(env.raw), verbose: c.verbose, connectTime: time.Since(began),
	})
	switch {
	case several == nil || c.verb == sessionVerb || !several.haveFailed():
		return err
	case err == nil:
		return unreachable // the errors of the servers are printed
	}
	return &unreachableError{err}
}

// dialer returns a dialer for the target: one server, or the servers of a file.
func (c *invocation) dialer(ctx context.Context, stderr io.Writer) (transport.Dialer, *servers, error) {
	if c.target.isOne() {
		dialer, err := c.target.dialer(ctx, c, stderr)
		return dialer, nil, err
	}
	several, err := openServers(ctx, c, stderr)
	if err != nil {
		return nil, nil, err
	}
	return transport.Pipe(several.server), several, nil
}

// traces returns the functions that are called for each message to and from the target, or nil.
func (c *invocation) traces(stderr io.Writer) func(conn string, sent bool, frame []byte) {
	if !c.verbose {
		return c.trace
	}
	show := trace(stderr)
	if c.trace == nil {
		return show
	}
	return func(conn string, sent bool, frame []byte) {
		c.trace(conn, sent, frame)
		show(conn, sent, frame)
	}
}
