package config

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// DialOptions configure connections, in addition to the file. The zero value is ready for use. A field without a
// documented default has the default of the transport.
type DialOptions struct {
	// Wrap replaces the command line of a child process, to run it under another program, as Guard.Wrap in
	// server/process does. Default: the command line is used as it is.
	Wrap func(path string, args ...string) (wrapped string, wrappedArgs []string)
	// Dir is the working directory of child processes without one. Default: the working directory of this process.
	Dir string
	// Stderr receives the standard error of child processes as [stdio.CommandOptions].Stderr
	// does: as escaped lines that begin with the alias of the server, at a limited rate, and
	// without the values of env and of expanded arguments. Children write to it concurrently.
	// Default: it is discarded.
	Stderr io.Writer
	// HTTPClient makes the requests to remote servers.
	HTTPClient *http.Client
	// Header is called before each request and may add headers or replace headers of the file.
	Header func(ctx context.Context, header http.Header) error
	// Authorizer, if set, returns what authorizes the requests to a remote server, such as an
	// *oauth.Client, or nil. It is not called for a server with [AuthNone].
	Authorizer func(server *Resolved) httptransport.Authorizer
	// DialAs returns the [bridge.ProxyOptions].DialAs of a server for which [Auth.IsOfUser] holds. Without it, [Resolved.Bridge] returns an
	// error for such a server.
	DialAs func(server *Resolved) func(ctx context.Context, principal string) (transport.Dialer, error)
	// MaxMessage is the length of the longest message, in bytes.
	MaxMessage int64
	// Conn are the limits of each connection. If its CallTimeout is zero, the CallTimeout of the server's options is
	// used.
	Conn jsonrpc.Options
	// Logger logs irregularities of the transport.
	Logger *slog.Logger
}

// Dialer returns a dialer that connects to the server. opts may be nil. The error says that
// the type is unknown.
//
// A child process gets r.Env and the few variables of [stdio.CommandOptions], or with
// InheritEnv all variables of this process. A remote server gets the headers with each
// request to its origin.
func (r *Resolved) Dialer(opts *DialOptions) (transport.Dialer, error) {
	var o DialOptions
	if opts != nil {
		o = *opts
	}
	if o.Conn.CallTimeout == 0 {
		o.Conn.CallTimeout = r.Options.CallTimeout
	}
	var authorizer httptransport.Authorizer
	if o.Authorizer != nil && r.Type != typeStdio && r.Options.Auth != AuthNone {
		authorizer = o.Authorizer(r)
	}
	remote := streamable.DialOptions{
		HTTPClient: o.HTTPClient, Header: r.header(o.Header), Authorizer: authorizer, MaxMessage: o.MaxMessage, Conn: o.Conn, Logger: o.Logger,
	}
	switch r.Type {
	case typeStdio:
		return r.command(&o), nil
	case typeHTTP:
		return streamable.Dial(r.URL.Reveal(), &remote), nil
	case typeSSE:
		return sse.Dial(r.URL.Reveal(), (*sse.DialOptions)(&remote)), nil
	case typeWebSocket:
		return ws.Dial(r.URL.Reveal(), &ws.DialOptions{
			HTTPClient: o.HTTPClient, Header: remote.Header, Authorizer: authorizer, MaxMessage: o.MaxMessage, Conn: o.Conn, Logger: o.Logger,
		}), nil
	}
	return nil, fmt.Errorf("server %s: expected stdio, http, sse or ws as its type", r.Alias)
}

// Secrets returns the values that are not shown when the server is printed: those of environment variables and headers, the secret
// of the registration, and arguments and parts of the URL with expanded variables.
func (r *Resolved) Secrets() []string {
	var secrets []string
	for _, values := range []map[string]Secret{r.Env, r.Headers} {
		for _, name := range sortedKeys(values) {
			secrets = append(secrets, values[name].Reveal())
		}
	}
	for _, value := range r.Headers { // without the scheme of Authorization
		if _, credentials, ok := strings.Cut(value.Reveal(), " "); ok {
			secrets = append(secrets, credentials)
		}
	}
	for _, part := range append([]Secret{r.ClientSecret, r.URL}, r.Args...) {
		if text := part.Reveal(); text != part.String() { // it contains the value of a variable
			secrets = append(secrets, text, difference(text, part.String()))
		}
	}
	return secrets
}

// difference returns the part of text that remains without the beginning and the end that it has in common with another
// text. The part is the value of a variable if the other text has the variable's name there.
func difference(text, other string) string {
	start := 0
	for start < min(len(text), len(other)) && text[start] == other[start] {
		start++
	}
	text, other = text[start:], other[start:]
	for text != "" && other != "" && text[len(text)-1] == other[len(other)-1] {
		text, other = text[:len(text)-1], other[:len(other)-1]
	}
	return text
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
	return &redactingDialer{r, stdio.Command(path, args, &stdio.CommandOptions{
		Env: env, InheritEnv: r.Options.InheritEnv, Dir: cmp.Or(r.Dir.Reveal(), o.Dir), Name: r.Alias, Stderr: o.Stderr, Secrets: r.Secrets(), MaxLine: int(o.MaxMessage), Conn: o.Conn, Logger: o.Logger,
	})}
}

// A redactingDialer hides the secrets of command and folder in its errors. Errors of the operating system contain both.
type redactingDialer struct {
	server *Resolved
	dialer transport.Dialer
}

func (d *redactingDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := d.dialer.Dial(ctx, handler)
	if err == nil {
		return conn, nil
	}
	redacted := &redactedError{err.Error(), err}
	for _, s := range []Secret{d.server.Dir, d.server.Command} {
		if text := s.Reveal(); text != "" {
			redacted.text = strings.ReplaceAll(redacted.text, text, s.shown)
		}
	}
	return nil, redacted
}

// A redactedError prints as another text than its cause.
type redactedError struct {
	text  string
	cause error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.cause }

// header returns a function that sets the headers of the file and then calls more.
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

// Bridge returns the server as a server of a bridge. opts may be nil. The errors are the same as for [Resolved.Dialer], or say that
// [DialOptions].DialAs is missing.
func (r *Resolved) Bridge(opts *DialOptions) (bridge.Config, error) {
	dialer, err := r.Dialer(opts)
	if err != nil {
		return bridge.Config{}, err
	}
	o := &r.Options
	config := bridge.Config{
		Alias: r.Alias, Dialer: dialer, Required: o.Required, Fingerprint: fmt.Sprintf("%s %#v", r.Fingerprint(), *o),
		ProxyOptions: bridge.ProxyOptions{
			Sessions: o.Sessions, Lazy: o.Lazy, IdleTimeout: o.IdleTimeout, ConnectTimeout: o.StartTimeout,
			CallTimeout: o.CallTimeout, MaxCalls: o.MaxCalls, Launch: r.Launch(),
			Select:   func(kind mcp.Kind, name string) bool { return kind != mcp.KindTool || o.Tools.permits(name) },
			Expect:   o.Tools.named(),
			Rename:   make(map[string]string),
			Override: make(map[string]bridge.Override),
		},
	}
	if o.Auth.IsOfUser() {
		if opts == nil || opts.DialAs == nil {
			return bridge.Config{}, fmt.Errorf("server %s: auth %s needs a program that knows the accounts of its users, such as dovetail serve with -issuer and -client-id", r.Alias, o.Auth)
		}
		config.DialAs = opts.DialAs(r)
	}
	for name, override := range o.Tools.Override {
		if override.Name != "" {
			config.Rename[name] = override.Name
		}
		config.Override[name] = bridge.Override{Title: override.Title, Description: override.Description}
	}
	return config, nil
}
