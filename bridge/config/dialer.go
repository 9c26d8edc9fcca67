package config

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// DialOptions say what a file cannot. The zero value is good; each field is as in
// the options of the transport that has it.
type DialOptions struct {
	// Wrap replaces the command line of a child, to run it below another program: such as
	// server/process's Guard.Wrap, so that nothing that it starts outlives it. By default
	// it is run as it is.
	Wrap func(path string, args ...string) (wrapped string, wrappedArgs []string)
	// Dir is the working directory of children without one. By default it is this
	// process's.
	Dir string
	// Stderr takes what children write to standard error.
	Stderr io.Writer
	// HTTPClient makes the requests.
	HTTPClient *http.Client
	// Header may add to the headers of a request, or replace those of the file.
	Header func(ctx context.Context, header http.Header) error
	// MaxMessage is the longest message in bytes.
	MaxMessage int64
	// Conn are the limits of each connection. Its CallTimeout, when zero, is that of
	// the server's options.
	Conn jsonrpc.Options
	// Logger is told of what is out of order.
	Logger *slog.Logger
}

// Dialer returns the way to the server. Nothing is started or sent before Dial.
//
// A child gets the few variables of [stdio.CommandOptions] that find programs and
// the user's files, or with InheritEnv all of this process, and r.Env. A server at a
// URL gets the headers with each request, within its origin. The error is one of a
// type that is not known.
func (r *Resolved) Dialer(opts *DialOptions) (transport.Dialer, error) {
	var o DialOptions
	if opts != nil {
		o = *opts
	}
	if o.Conn.CallTimeout == 0 {
		o.Conn.CallTimeout = r.Options.CallTimeout
	}
	remote := streamable.DialOptions{
		HTTPClient: o.HTTPClient, Header: r.header(o.Header), MaxMessage: o.MaxMessage, Conn: o.Conn, Logger: o.Logger,
	}
	switch r.Type {
	case Stdio:
		return r.command(&o), nil
	case HTTP:
		return streamable.Dial(r.URL.Reveal(), &remote), nil
	case SSE:
		return sse.Dial(r.URL.Reveal(), (*sse.DialOptions)(&remote)), nil
	case WebSocket:
		return ws.Dial(r.URL.Reveal(), &ws.DialOptions{
			HTTPClient: o.HTTPClient, Header: remote.Header, MaxMessage: o.MaxMessage, Conn: o.Conn, Logger: o.Logger,
		}), nil
	}
	return nil, fmt.Errorf("server %s: expected stdio, http, sse or ws as its type", r.Alias)
}

func (r *Resolved) command(o *DialOptions) transport.Dialer {
	args := make([]string, len(r.Args))
	for i, arg := range r.Args {
		args[i] = arg.Reveal()
	}
	env := make([]string, 0, len(r.Env))
	for _, name := range sortedKeys(r.Env) {
		env = append(env, name+"="+r.Env[name].Reveal())
	}
	path := r.Command.Reveal()
	if o.Wrap != nil {
		path, args = o.Wrap(path, args...)
	}
	return &quietDialer{r, stdio.Command(path, args, &stdio.CommandOptions{
		Env: env, InheritEnv: r.Options.InheritEnv, Dir: cmp.Or(r.Dir.Reveal(), o.Dir), Stderr: o.Stderr, MaxLine: int(o.MaxMessage), Conn: o.Conn,
	})}
}

// A quietDialer fails with what may be shown of the command and its folder: the errors of
// the operating system name both.
type quietDialer struct {
	server *Resolved
	dialer transport.Dialer
}

func (d *quietDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := d.dialer.Dial(ctx, handler)
	if err == nil {
		return conn, nil
	}
	quiet := &quietError{err.Error(), err}
	for _, s := range []Secret{d.server.Dir, d.server.Command} {
		if text := s.Reveal(); text != "" {
			quiet.text = strings.ReplaceAll(quiet.text, text, s.shown)
		}
	}
	return nil, quiet
}

// A quietError prints as another text than its reason.
type quietError struct {
	text   string
	reason error
}

func (e *quietError) Error() string { return e.text }
func (e *quietError) Unwrap() error { return e.reason }

// header adds the file's headers, and then what the program has to add.
func (r *Resolved) header(more func(context.Context, http.Header) error) func(context.Context, http.Header) error {
	if len(r.Headers) == 0 {
		return more
	}
	return func(ctx context.Context, header http.Header) error {
		for name, value := range r.Headers {
			header.Set(name, value.Reveal())
		}
		if more == nil {
			return nil
		}
		return more(ctx, header)
	}
}
