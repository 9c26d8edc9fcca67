package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge/internal/transcript"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

var recordCommand = &command{
	name: "record", args: "[FLAGS] FILE TARGET", short: "relay a server on standard input and output, and record the session",
	long: `The transcript has one message on each line, secrets included. It replaces an older one in FILE. Use it in a client's configuration in
place of the server, or record one command with: dovetail call -record FILE TARGET …
` + targetHelp,
	run: runRecord,
}

func runRecord(ctx context.Context, env *environment, sub *command, line []string) error {
	c := &invocation{}
	flags := newFlags(sub, env.stderr)
	c.targetFlags(flags.FlagSet, 30*time.Second)
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return flags.usage()
	}
	dialer, several, err := c.soleTarget(ctx, env, flags, args[1:], child)
	if err != nil {
		return err
	}
	defer several.close()
	recorder, err := newRecorder(args[0])
	if err != nil {
		return err
	}
	defer recorder.close(env.stderr)
	return c.relay(ctx, dialer, recorder.server)
}

// A recorder records the messages of a session.
type recorder struct{ *transcript.Recorder }

func newRecorder(path string) (*recorder, error) {
	r, err := transcript.Create(path)
	return &recorder{r}, err
}

// client traces the connection of a client, and server traces the connection of a server.
func (r *recorder) client(_ string, sent bool, frame []byte) { r.Record(sent, frame) }
func (r *recorder) server(_ string, sent bool, frame []byte) { r.Record(!sent, frame) }

func (r *recorder) close(stderr io.Writer) {
	if err := r.Close(); err != nil {
		printError(stderr, err)
	}
}

var replayCommand = &command{
	name: "replay", args: "[FLAGS] FILE [TARGET]", short: "replay a transcript as a server, or against a server",
	long: `Without TARGET, it is a server on standard input and output that answers as the recorded one did. A
request is recognized by its method and params. With TARGET, it sends the recorded requests to that
server, and compares the answers with the recorded ones. The exit status is 2 if they differ.
` + targetHelp,
	run: runReplay,
}

// paths are the values of a repeatable flag.
type paths []string

func (p *paths) String() string { return strings.Join(*p, ", ") }

func (p *paths) Set(text string) error {
	*p = append(*p, text)
	return nil
}

func runReplay(ctx context.Context, env *environment, sub *command, line []string) error {
	c := &invocation{}
	var ignore paths
	flags := newFlags(sub, env.stderr)
	c.targetFlags(flags.FlagSet, time.Minute)
	flags.Var(&ignore, "ignore", "`path` in results that is not compared, such as structuredContent.time or content[*].text; repeatable")
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return flags.usage()
	}
	recorded, err := transcript.Load(args[0])
	if err != nil {
		return err
	}
	if len(args) == 1 && child == nil && c.target.config == "" {
		return stdio.Serve(ctx, recorded.Mock(func(method string) {
			fmt.Fprintf(env.stderr, "dovetail: the transcript has no such request: %s\n", peertext.Escape(method))
		}), nil)
	}
	dialer, several, err := c.soleTarget(ctx, env, flags, args[1:], child)
	if err != nil {
		return err
	}
	defer several.close()
	compared, found, err := recorded.Check(ctx, dialer, &transcript.CheckOptions{Ignore: ignore, Timeout: c.timeout})
	for _, d := range found {
		fmt.Fprintln(env.stdout, peertext.Escape(d.String()))
	}
	switch {
	case err != nil && compared == 0:
		return c.cannotConnect(err)
	case err != nil:
		return &unreachableError{err}
	}
	fmt.Fprintf(env.stdout, "%s compared, %s\n", count(compared, "answer"), count(len(found), "difference"))
	if len(found) > 0 {
		return checkFailed
	}
	return nil
}
