package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// A target is the server to connect to.
type target struct {
	server   *config.Server   // in a configuration file, or nil
	resolved *config.Resolved // nil before resolve, or for all servers of a file
	headers  headers
	login    bool
	logins   loginOptions
	tokens   *oauth.Client // nil without -login
	config   string        // configuration file
	mistakes bool          // the configuration file has servers that cannot be used
	project  bool          // use the clients' files of the current folder instead of the user's files
}

// isOne reports whether the target is one server, and not all servers of a file.
func (t *target) isOne() bool { return t.config == "" || t.server != nil }

type headers []string

func (h *headers) String() string { return strings.Join(*h, ", ") }

func (h *headers) Set(header string) error {
	if !strings.Contains(header, ":") {
		return errors.New(`expected "name: value"`)
	}
	*h = append(*h, header)
	return nil
}

// set sets the headers of a request. They override the headers of a configuration file.
func (h headers) set(_ context.Context, to http.Header) error {
	for _, header := range h {
		name, value, _ := strings.Cut(header, ":")
		to.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return nil
}

// take finds the target in the arguments, and returns the other arguments. command has the arguments after --, or is
// nil.
func (t *target) take(args, command []string) ([]string, error) {
	if command != nil {
		if t.config != "" {
			return nil, misuse("-config says which servers to start: expected no command")
		}
		t.resolved = started(command)
		return args, nil
	}
	if t.config != "" {
		return t.takeConfigured(args)
	}
	if len(args) == 0 {
		return nil, misuse("expected a server: a URL, the name of a configured server, or -- COMMAND [ARG…]")
	}
	var err error
	if strings.Contains(args[0], "://") {
		t.resolved, err = addressed(args[0])
	} else {
		t.server, err = findServer(args[0], t.project)
	}
	return args[1:], err
}

// takeConfigured finds the target in the file of -config: the server that the first argument names,
// or all servers.
func (t *target) takeConfigured(args []string) ([]string, error) {
	file, err := config.Load(t.config)
	if file == nil {
		return nil, cmp.Or(t.alone(), err)
	}
	if len(args) > 0 {
		if t.server = namedServer(file, args[0]); t.server != nil {
			return args[1:], nil
		}
		for _, err := range joined(err) {
			if broken, ok := errors.AsType[*config.Error](err); ok && broken.Server == args[0] {
				return nil, err
			}
		}
	}
	return args, t.alone()
}

// unused returns the error of arguments that the command does not use. usage is the error without a
// configuration file.
func (t *target) unused(args []string, usage error) error {
	if t.isOne() || len(args) == 0 {
		return usage
	}
	var known []string
	if file, _ := config.Load(t.config); file != nil { // other servers of the file may have mistakes
		known = serverNames(file)
	}
	return misuse("%s has no server %.100q%s", t.config, args[0], didYouMean(args[0], known, fmt.Sprintf("; for all its servers, %v", usage)))
}

// serverNames returns the names of the servers in a file.
func serverNames(file *config.File) []string {
	var names []string
	for _, server := range file.Servers {
		names = append(names, server.Name)
	}
	return names
}

// namedServer returns the server with an alias, or with a name in the file, or nil.
func namedServer(file *config.File, name string) *config.Server {
	if server := file.Server(name); server != nil {
		return server
	}
	for _, server := range file.Servers {
		if server.Name == name {
			return server
		}
	}
	return nil
}

// alone refuses flags that do not apply to all servers of a configuration file.
func (t *target) alone() error {
	if len(t.headers) > 0 {
		return misuse("-header is for one server at a URL: expected headers in the file")
	}
	if t.login || t.logins.ofOneServer() {
		return misuse("-login, -client-id, -client-secret-env and -redirect-port are for one server: expected its name")
	}
	return nil
}

// resolve expands the variables of a configured server.
func (t *target) resolve(ctx context.Context) (err error) {
	if t.resolved == nil {
		t.resolved, err = t.server.Expand(ctx, &config.Expander{Prompt: config.PromptEnv})
	}
	return err
}

// started returns a server that is a command. It gets the environment of this program.
func started(command []string) *config.Resolved {
	r := &config.Resolved{Type: "stdio", Command: plain(command[0]), Options: config.Options{InheritEnv: true}}
	for _, arg := range command[1:] {
		r.Args = append(r.Args, plain(arg))
	}
	return r
}

// addressed returns a server at a URL.
func addressed(address string) (*config.Resolved, error) {
	r := &config.Resolved{Type: "http", URL: config.NewSecret(address, shownAddress(address))}
	switch scheme, _, _ := strings.Cut(address, "://"); strings.ToLower(scheme) {
	case "http", "https":
	case "ws", "wss":
		r.Type = "ws"
	default:
		return nil, misuse("the scheme %q is not supported: expected a URL that begins with http, https, ws or wss", scheme)
	}
	return r, nil
}

// plain returns a text that is not a secret.
func plain(text string) config.Secret { return config.NewSecret(text, text) }

// dialer returns a dialer for the target. For a URL of http on the command line it falls back to
// HTTP+SSE.
func (t *target) dialer(ctx context.Context, c *invocation, stderr io.Writer) (transport.Dialer, error) {
	if err := t.resolve(ctx); err != nil {
		return nil, err
	}
	if t.resolved.Type == "stdio" && len(t.headers) > 0 {
		return nil, misuse("-header is for servers at a URL")
	}
	opts := &config.DialOptions{Header: t.headers.set, Logger: warnings(stderr), Conn: jsonrpc.Options{Trace: c.traces(stderr)}}
	if c.verbose {
		opts.Stderr = stderr
	}
	opts.Authorizer = t.authorizer
	dialer, err := t.resolved.Dialer(opts)
	if at, bad := url.Parse(t.resolved.URL.Reveal()); err == nil && bad == nil && t.server == nil && t.resolved.Type == "http" && path.Base(at.Path) == "sse" {
		events := *t.resolved
		events.Type = "sse"
		first, err := events.Dialer(opts)
		return sseFirst{events: first, streamable: dialer}, err
	}
	return dialer, err
}

// authorizer returns the login of this run, else that of an earlier one.
func (t *target) authorizer(server *config.Resolved) httptransport.Authorizer {
	if t.tokens != nil {
		return t.tokens
	}
	headers := slices.AppendSeq(headersOf(server), maps.Keys(t.headers.values()))
	name := server.URL.String()
	if t.server != nil {
		name = t.server.Alias
	}
	return t.logins.saved(server, headers, loginCommand(t.config, name))
}

// An sseFirst uses HTTP+SSE, since its URL ends with /sse, unless the server answers the request for
// the stream with an error status. Servers of that transport may keep the request open that other
// dialers send first.
type sseFirst struct{ events, streamable transport.Dialer }

func (d sseFirst) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := d.events.Dial(ctx, handler)
	if _, refused := errors.AsType[*httptransport.StatusError](err); !refused {
		return conn, err
	}
	return d.streamable.Dial(ctx, handler)
}

// trace prints each message.
func trace(w io.Writer) func(conn string, sent bool, frame []byte) {
	var mu sync.Mutex
	return func(_ string, sent bool, frame []byte) {
		direction := "←"
		if sent {
			direction = "→"
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, direction, peertext.EscapeJSON(frame))
	}
}

// connectTimeout bounds the start of one server.
const connectTimeout = 30 * time.Second

// servers are the servers of a configuration file, mounted in one server. It is nil for a
// single target.
type servers struct {
	c        *invocation
	bridge   *bridge.Bridge
	server   *server.Server
	mistakes bool // the file has other servers, which cannot be used
}

// openServers reads a configuration file. It prints the errors of a server and goes on with
// the others.
func openServers(ctx context.Context, c *invocation, stderr io.Writer) (*servers, error) {
	logger := slog.New(slog.DiscardHandler)
	if c.verbose {
		logger = slog.New(slog.NewTextHandler(stderr, nil))
	}
	configs, err := c.configs(ctx, stderr, logger)
	if err != nil {
		return nil, err
	}
	s := &servers{
		c:        c,
		server:   server.New(mcp.Implementation{Name: "dovetail", Version: version()}, &server.Options{Logger: logger}),
		mistakes: c.target.mistakes,
	}
	if s.bridge, err = bridge.New(&bridge.Options{Logger: logger, StartTimeout: c.timeout}, configs...); err != nil {
		return nil, err
	}
	if err := s.server.Mount(s.bridge, nil); err != nil {
		return nil, err
	}
	if err := s.server.Start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// configs returns the valid servers of the configuration file, and prints the errors of the others.
func (c *invocation) configs(ctx context.Context, stderr io.Writer, logger *slog.Logger) ([]bridge.Config, error) {
	file, err := config.Load(c.target.config)
	if file == nil {
		return nil, err
	}
	if err != nil { // in the entries of single servers
		c.target.mistakes = true
		printError(stderr, err)
	}
	for _, warning := range file.Warnings {
		fmt.Fprintf(stderr, "dovetail: %s:%v\n", file.Name, warning)
	}
	dial := &config.DialOptions{Logger: logger, Conn: jsonrpc.Options{Trace: c.traces(stderr)}, Authorizer: func(server *config.Resolved) httptransport.Authorizer {
		return c.target.logins.saved(server, headersOf(server), loginCommand(c.target.config, server.Alias))
	}}
	if c.verbose {
		dial.Stderr = stderr
	}
	configs, err := file.Bridge(ctx, &config.Expander{Prompt: config.PromptEnv}, dial)
	if err != nil {
		c.target.mistakes = true
		printError(stderr, err)
	}
	for i := range configs { // a server that hangs must not use the whole timeout
		configs[i].ConnectTimeout = min(positive(configs[i].ConnectTimeout, connectTimeout), c.timeout/2)
	}
	return configs, nil
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// report prints the servers that did not start.
func (s *servers) report(stderr io.Writer) {
	if s == nil {
		return
	}
	for _, state := range s.bridge.States() {
		if state.Err != nil {
			printError(stderr, s.explained(state))
		}
	}
}

// explained returns the error of a server for a person.
func (s *servers) explained(state bridge.State) error {
	return &explainedError{fmt.Sprintf("the server %q cannot be used: %s", state.Alias, connectProblem(state.Err, s.c.verbose)), state.Err, s.c.verbose}
}

// haveFailed reports whether there are servers, and none can be used.
func (s *servers) haveFailed() bool {
	states := s.bridge.States()
	isUsable := func(state bridge.State) bool { return state.Status == "ready" || state.Status == "idle" }
	return (len(states) > 0 || s.mistakes) && !slices.ContainsFunc(states, isUsable)
}

// A serverState is the state of one server.
type serverState struct {
	Alias     string `json:"alias"`
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
	Tools     int    `json:"tools"`
	Prompts   int    `json:"prompts"`
	Resources int    `json:"resources"`
}

func (s *servers) states() []serverState {
	states := []serverState{}
	for _, state := range s.bridge.States() {
		shown := serverState{
			Alias: state.Alias, Status: state.Status,
			Tools: state.Tools, Prompts: state.Prompts, Resources: state.Resources,
		}
		if state.Err != nil {
			shown.Error = connectProblem(state.Err, s.c.verbose)
		}
		states = append(states, shown)
	}
	return states
}

// grace bounds the shutdown of the servers.
const grace = 5 * time.Second

func (s *servers) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = s.server.Shutdown(ctx) // the results are printed; the error has no effect
}
