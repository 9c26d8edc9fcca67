package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

var doctorCommand = &command{
	name: "doctor", args: "[FLAGS] TARGET", short: "check a server: versions, capabilities, login, headers, timing and schemas",
	long: `Each finding says what to do. No tool is called. The exit status is 2 if there is a problem; advice
does not change it.
` + targetHelp,
	run: runDoctor,
}

// A level is how serious a finding is.
type level string

const (
	fine    level = "ok"
	advice  level = "advice"
	problem level = "problem"
)

// A finding is the result of one check.
type finding struct {
	Level  level  `json:"level"`
	Check  string `json:"check"`
	Found  string `json:"found"`
	Advice string `json:"do,omitempty"`
}

// A doctor collects findings.
type doctor struct {
	c        *invocation
	env      *environment
	findings []finding
}

// maxFindings bounds the number of findings.
const maxFindings = 500

func (d *doctor) add(l level, check, do, format string, args ...any) {
	if len(d.findings) < maxFindings {
		d.findings = append(d.findings, finding{l, check, peertext.Escape(peertext.Cut(fmt.Sprintf(format, args...), maxText)), do})
	}
}

func runDoctor(ctx context.Context, env *environment, sub *command, line []string) error {
	c := &invocation{}
	asJSON := false
	flags := newFlags(sub, env.stderr)
	c.targetFlags(flags.FlagSet, time.Minute)
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if args, err = c.target.take(args, child); err != nil {
		return err
	}
	if len(args) > 0 || !c.target.isOne() {
		return c.target.unused(args, flags.usage())
	}
	if err := c.target.logIn(ctx, env.stderr); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	d := &doctor{c: c, env: env}
	if session := d.connect(ctx); session != nil {
		d.server(session)
		d.ping(ctx, session)
		d.lists(ctx, session)
		d.unknown(ctx, session)
		d.end(session)
		d.otherEra(ctx, session.Era())
	}
	if r := c.target.resolved; r != nil && strings.HasPrefix(r.URL.Reveal(), "http") {
		d.web(ctx)
	}
	return d.print(asJSON)
}

// print prints the findings.
func (d *doctor) print(asJSON bool) error {
	problems := 0
	for _, f := range d.findings {
		if f.Level == problem {
			problems++
		}
		if asJSON {
			continue
		}
		fmt.Fprintf(d.env.stdout, "%-8s %s: %s\n", f.Level, f.Check, f.Found)
		if f.Advice != "" {
			fmt.Fprintf(d.env.stdout, "         → %s\n", f.Advice)
		}
	}
	if asJSON {
		text, err := json.MarshalIndent(d.findings, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(d.env.stdout, "%s\n", text)
	} else {
		fmt.Fprintln(d.env.stdout, count(problems, "problem"))
	}
	if problems > 0 {
		return checkFailed
	}
	return nil
}

// dialer returns a dialer for the target.
func (d *doctor) dialer(ctx context.Context) (transport.Dialer, error) {
	return d.c.target.dialer(ctx, d.c, d.env.stderr)
}

// connect opens a session, or says why it cannot be opened.
func (d *doctor) connect(ctx context.Context) *client.Session {
	dialer, err := d.dialer(ctx)
	if err != nil {
		d.add(problem, "target", "correct the command line or the configuration", "%v", err)
		return nil
	}
	began := time.Now()
	session, err := client.Connect(ctx, dialer, d.options(d.c.era))
	took := time.Since(began).Round(time.Millisecond)
	if err == nil {
		l, do := fine, ""
		if took > 5*time.Second {
			l, do = advice, "clients wait 30 to 60 seconds for a server at most: load what takes long after the start"
		}
		d.add(l, "connection", do, "opened in %v", took)
		return session
	}
	do := "run the server with -verbose to see its messages and its standard error"
	answer, answered := errors.AsType[*httptransport.StatusError](err)
	exit, exited := errors.AsType[*stdio.ExitError](err)
	dial, unconnected := errors.AsType[*net.OpError](err)
	switch {
	case answered && answer.Status == 401:
		do = "log in with -login, or send a key with -header 'Authorization: Bearer …'"
		if demanded, ok := errors.AsType[*loginError](err); ok && demanded.command == "" {
			do = "send the token or key with -header 'Authorization: Bearer …': the server offers no login"
		}
		if answer.Header.Get("WWW-Authenticate") == "" {
			do = "the server must send WWW-Authenticate with the status 401, so that clients find out how to log in (RFC 9728); send a key with -header"
		}
	case answered && answer.Status == 403:
		do = "the token or key lacks a permission, or the server refuses the Host or Origin"
	case answered && (answer.Status == 404 || answer.Status == 405):
		do = "check the path of the URL: most servers use /mcp"
	case exited:
		do = "the program ended before it answered: see its standard error"
		if exit.Err == nil {
			do = "the program ended with success before it answered: it must read standard input until that is closed"
		}
	case errors.Is(err, context.DeadlineExceeded):
		do = "the server did not answer: it must write one JSON message per line to standard output and flush it, or raise -timeout"
	case unconnected && dial.Op == "dial":
		do = "start the server there, or check the URL"
	case errors.As(err, new(*fs.PathError)):
		do = "check the path of the program"
	case strings.Contains(err.Error(), "executable file not found"):
		do = "install the program, or name its complete path: clients often start with another PATH than a shell"
	}
	d.add(problem, "connection", do, "failed after %v: %v", took, err)
	return nil
}

func (d *doctor) options(era client.Era) *client.Options {
	return &client.Options{
		Info: mcp.Implementation{Name: "dovetail", Version: version()}, Era: era, ConnectTimeout: d.c.timeout,
		Logger: slog.New(slog.NewTextHandler(d.env.stderr, &slog.HandlerOptions{Level: slog.LevelError})), NoReconnect: true,
	}
}

// server checks the server's description of itself.
func (d *doctor) server(s *client.Session) {
	d.add(fine, "version", "", "protocol %s (%s era)", s.Version(), s.Era())
	info := s.Server()
	if info.Name == "" || info.Version == "" {
		d.add(advice, "name", "set name and version, so that users can report problems", "the server is %q, version %q", info.Name, info.Version)
	} else {
		d.add(fine, "name", "", "%s %s", info.Name, info.Version)
	}
	if s.Instructions() == "" {
		d.add(advice, "instructions", "set instructions: they tell the model when to use the server", "there are none")
	}
	capabilities, err := json.Marshal(s.Capabilities())
	if err == nil {
		d.add(fine, "capabilities", "", "%s", capabilities)
	}
}

// ping measures how fast the server answers.
func (d *doctor) ping(ctx context.Context, s *client.Session) {
	const times = 3
	slowest := time.Duration(0)
	for range times {
		began := time.Now()
		if err := s.Ping(ctx); err != nil {
			d.add(problem, "ping", "answer ping with an empty result: clients use it to find out whether the server lives", "%v", err)
			return
		}
		slowest = max(slowest, time.Since(began))
	}
	l, do := fine, ""
	if slowest > time.Second {
		l, do = advice, "answer requests concurrently, so that a slow one does not delay the others"
	}
	d.add(l, "timing", do, "%d pings took at most %v each", times, slowest.Round(10*time.Microsecond))
}

// unknown checks the answer to an unknown method.
func (d *doctor) unknown(ctx context.Context, s *client.Session) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := s.Call(ctx, "dovetail/unknown", nil, nil)
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ok && answer.Code == jsonrpc.MethodNotFound:
		d.add(fine, "unknown methods", "", "refused with %d", answer.Code)
	case ok:
		d.add(advice, "unknown methods", "refuse them with the code -32601, so that clients recognize what is not supported", "refused with %d: %s", answer.Code, answer.Message)
	case err == nil:
		d.add(problem, "unknown methods", "refuse them with the code -32601", "they succeed")
	default:
		d.add(problem, "unknown methods", "refuse them with the code -32601; some clients send methods of newer versions first", "%v", err)
	}
}

// end checks that the server ends when its input ends.
func (d *doctor) end(s *client.Session) {
	began := time.Now()
	_ = s.Close()
	if took := time.Since(began); d.c.target.resolved.Type == "stdio" && took > 2*time.Second {
		d.add(advice, "shutdown", "end the program when standard input is closed", "it took %v, and a signal was needed", took.Round(time.Millisecond))
	}
}

// otherEra checks whether the server also speaks the other family of protocol versions.
func (d *doctor) otherEra(ctx context.Context, era client.Era) {
	if d.c.era != client.Auto {
		return
	}
	other, do := client.Legacy, "support versions until 2025-11-25 too: many clients have no newer one"
	if era == client.Legacy {
		other, do = client.Modern, "update the SDK of the server to support version 2026-07-28"
	}
	dialer, err := d.dialer(ctx)
	if err != nil {
		return
	}
	session, err := client.Connect(ctx, dialer, d.options(other))
	if err != nil {
		d.add(advice, "other versions", do, "the %s era is not supported", other)
		return
	}
	d.add(fine, "other versions", "", "%s is supported too", session.Version())
	_ = session.Close()
}
