// Dovetail operates MCP servers from the command line: it uses them, checks them, offers them
// to clients, and helps to develop them.
//
//	dovetail help
//	dovetail help COMMAND
//
// Standard output has results, standard error has progress, questions and errors. The exit
// status is one of those in [exitStatus].
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

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

func main() { os.Exit(int(runProcess())) }

// runProcess runs the command line of the process.
func runProcess() exitStatus {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		printError(peertext.Screen(os.Stderr), err)
	}
	return statusOf(err)
}

// An exitStatus is an exit status. As an error it ends the program without a message.
type exitStatus int

const (
	succeeded   exitStatus = 0
	failed      exitStatus = 1
	checkFailed exitStatus = 2 // a tool reported an error, or a check found a problem
	misused     exitStatus = 3 // the command line is wrong
	unreachable exitStatus = 4 // the server cannot be started or reached
	needsLogin  exitStatus = 5 // the server demands a login
)

// toolFailed is the status after a tool error, which is printed as a result.
const toolFailed = checkFailed

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// A usageError describes a mistake in the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// An unreachableError is why no session could be opened.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string { return e.cause.Error() }
func (e *unreachableError) Unwrap() error { return e.cause }

func statusOf(err error) exitStatus {
	var status exitStatus
	answer, answered := errors.AsType[*httptransport.StatusError](err)
	switch {
	case err == nil:
		return succeeded
	case errors.As(err, &status):
		return status
	case errors.As(err, new(*usageError)):
		return misused
	case answered && answer.Status == 401:
		return needsLogin
	case errors.As(err, new(*unreachableError)), errors.Is(err, transport.ErrNotReached):
		return unreachable
	}
	return failed
}

// maxError is how much of an error is printed, in bytes.
const maxError = 4 << 10

// printError prints an error, which may contain text of a server. Each line begins with the name
// of the program. An exit status has no message.
func printError(w io.Writer, err error) {
	if errors.As(err, new(exitStatus)) {
		return
	}
	for line := range strings.Lines(peertext.Cut(err.Error(), maxError)) {
		fmt.Fprintln(w, "dovetail:", strings.TrimSuffix(line, "\n"))
	}
}

// An environment has the streams of a command. Text for stdout and stderr is escaped. terminal is standard error
// without escaping.
type environment struct {
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	terminal io.Writer
	raw      io.Writer // standard output as it is
}

// A command is one of those that dovetail help lists.
type command struct {
	name  string
	args  string // the arguments in the usage line
	short string // one line
	long  string // the rest of the help
	run   func(ctx context.Context, env *environment, c *command, line []string) error
}

// A group is a heading of the help.
type group struct {
	title    string
	commands []*command
}

func groups() []group {
	return []group{
		{"Use a server", append(clientCommands(), completionCommand())},
		{"Offer servers", []*command{serveCommand, adminCommand, keyCommand, relayCommand, addCommand, removeCommand, listCommand}},
		{"Develop a server", []*command{devCommand, doctorCommand, recordCommand, replayCommand, genCommand, packCommand, migrateCommand}},
		{"Keep watch", []*command{policyCommand, pinsCommand, journalCommand}},
	}
}

// commands returns all commands by name.
func commands() map[string]*command {
	all := make(map[string]*command)
	for _, g := range groups() {
		for _, c := range g.commands {
			all[c.name] = c
		}
	}
	return all
}

// run runs one command line.
func run(ctx context.Context, line []string, stdin io.Reader, stdout, terminal io.Writer) error {
	env := &environment{stdin, peertext.Screen(stdout), peertext.Screen(terminal), terminal, stdout}
	if len(line) == 0 {
		printHelp(env.stderr)
		return misused
	}
	name := line[0]
	switch name {
	case "help", "-h", "-help", "--help":
		return help(env, line[1:])
	case "version", "-version", "--version":
		_, err := fmt.Fprintln(env.stdout, "dovetail", version())
		return err
	}
	if strings.HasPrefix(name, "-") { // flags of the commands that use a server may come first
		return runClient(ctx, env, "", line)
	}
	c, ok := commands()[name]
	if !ok {
		return unknownCommand(name, commandNames())
	}
	return c.run(ctx, env, c, line[1:])
}

// unknownCommand returns the error of a word that is none of the known commands.
func unknownCommand(name string, known []string) error {
	return misuse("unknown command %.100q%s", name, didYouMean(name, known, ": expected one of "+strings.Join(known, ", ")))
}

func commandNames() []string {
	var names []string
	for name := range commands() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func help(env *environment, line []string) error {
	if len(line) == 0 {
		printHelp(env.stdout)
		return nil
	}
	c, ok := commands()[line[0]]
	if !ok {
		return unknownCommand(line[0], commandNames())
	}
	err := c.run(context.Background(), &environment{env.stdin, env.stdout, env.stdout, env.stdout, env.stdout}, c, []string{"-help"})
	if statusOf(err) != succeeded {
		return err
	}
	return nil
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "Dovetail operates MCP servers.\n\nusage: dovetail COMMAND [FLAGS] [ARGUMENTS]\n")
	for _, g := range groups() {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, c := range g.commands {
			fmt.Fprintf(w, "  %-10s %s\n", c.name, c.short)
		}
	}
	fmt.Fprint(w, `
TARGET is a server: a URL (http, https, ws or wss), the name of a server in a configuration
file, or at the end of the line -- and a command that serves its standard streams.

Exit status: 0 success, 1 failure, 2 a tool reported an error or a check found a problem,
3 wrong command line, 4 the server cannot be started or reached, 5 the server demands a login.

dovetail help COMMAND explains a command. dovetail version prints the version.
`)
}

// A flagSet parses the flags of a command. They may come before, between and after arguments.
type flagSet struct {
	*flag.FlagSet
	command *command
	out     io.Writer
}

func newFlags(c *command, out io.Writer) *flagSet {
	f := &flagSet{flag.NewFlagSet(c.name, flag.ContinueOnError), c, out}
	f.SetOutput(io.Discard) // parse returns the error
	return f
}

// printHelp prints the help of the command.
func (f *flagSet) printHelp() {
	c := f.command
	fmt.Fprintf(f.out, "usage: dovetail %s %s\n\n%s.\n", c.name, c.args, strings.ToUpper(c.short[:1])+c.short[1:])
	if c.long != "" {
		fmt.Fprintf(f.out, "\n%s\n", strings.TrimSpace(c.long))
	}
	fmt.Fprint(f.out, "\nFlags:\n")
	f.SetOutput(f.out)
	f.PrintDefaults()
}

// parse returns the arguments, and the command after -- or nil. An argument that begins with -
// is a flag.
func (f *flagSet) parse(line []string) (args, command []string, err error) {
	if at := slices.Index(line, "--"); at >= 0 {
		line, command = line[:at], line[at+1:]
		if len(command) == 0 {
			return nil, nil, misuse("expected a command after --")
		}
	}
	for {
		if err := f.Parse(line); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				f.printHelp()
				return nil, nil, succeeded
			}
			return nil, nil, f.refused(err)
		}
		if f.NArg() == 0 {
			return args, command, nil
		}
		args, line = append(args, f.Arg(0)), f.Args()[1:]
	}
}

// refused returns the error of a flag that was not understood.
func (f *flagSet) refused(err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return misuse("%v; dovetail help %s lists the flags", err, f.command.name)
	}
	var known []string
	f.VisitAll(func(defined *flag.Flag) { known = append(known, "-"+defined.Name) })
	return misuse("unknown flag -%.100s%s", name, didYouMean("-"+name, known, "; dovetail help "+f.command.name+" lists the flags"))
}

// usage returns the error of wrong arguments.
func (f *flagSet) usage() error {
	return misuse("expected: dovetail %s %s", f.command.name, f.command.args)
}
