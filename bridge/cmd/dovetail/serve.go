package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

var serveCommand = &subcommand{
	name: "serve", args: "[FLAGS]", short: "serve all servers of a configuration file as one",
	long: `Serves standard input and output, or with -http MCP at /mcp, plain HTTP at /api/v1/rest/, the
states of the servers at /health and counters at /metrics. A tool is named ALIAS__TOOL.

Changes of the file apply while the program runs. A server with the same configuration keeps
running. A mistake in the entry of a server disables that server only. Starts, ends and failures
of servers are logged, with the last lines of standard error.

A policy decides about calls, and a person about those for which it says ask: on a page in the
browser, at the terminal, or in the client that makes the call. With -approve and no policy, a
person approves each call of a tool that is not read-only. With -lock, only accepted tools are
offered; see dovetail help pins.`,
	run: runServe,
}

// approveModes are the values of -approve.
var approveModes = []string{"page", "terminal", "caller", "none"}

type serveOptions struct {
	config, http, policy, approve, trust, token, journal, lock string
	expiry, reload                                             time.Duration
	open                                                       bool
}

func runServe(ctx context.Context, env *environment, sub *subcommand, line []string) error {
	o := &serveOptions{}
	flags := newFlags(sub, env.stderr)
	flags.StringVar(&o.config, "config", "mcp.json", "the `file` that names the servers")
	flags.StringVar(&o.http, "http", "", "the `address` to serve HTTP at, such as 127.0.0.1:8900; port 0 takes a free one")
	flags.StringVar(&o.policy, "policy", "", "the policy `file`")
	flags.StringVar(&o.approve, "approve", "", "how calls are approved: "+strings.Join(approveModes, ", ")+" (default page with -policy, otherwise none)")
	flags.StringVar(&o.trust, "trust", "", "the `aliases`, separated by commas, of servers whose tool annotations are believed; * for all")
	flags.DurationVar(&o.expiry, "expiry", approval.DefaultExpiry, "how long a call waits for approval")
	flags.StringVar(&o.token, "token", "", "the bearer token of HTTP clients, at least 16 characters; by default it is random and printed")
	flags.BoolVar(&o.open, "open", false, "serve HTTP clients without a token, at a loopback address only")
	flags.StringVar(&o.journal, "journal", "", "the journal `file` of requests, decisions and executions")
	flags.StringVar(&o.lock, "lock", "", "the lock `file` of accepted tools; others are not offered")
	args, command, err := flags.parse(line)
	switch {
	case err != nil:
		return err
	case len(args) > 0 || command != nil:
		return flags.usage()
	case o.open && o.token != "":
		return misuse("-open serves without a token: leave out -token")
	case o.http == "" && (o.open || o.token != ""):
		return misuse("-open and -token are for -http")
	case o.expiry <= 0:
		return misuse("-expiry: expected a positive duration")
	case o.approve == "terminal" && o.http == "":
		return misuse("-approve terminal needs -http: standard input is the client")
	case o.approve != "" && !slices.Contains(approveModes, o.approve):
		return misuse("-approve: expected one of %s", strings.Join(approveModes, ", "))
	}
	if o.policy != "" {
		o.approve = cmp.Or(o.approve, "page")
	}
	return serve(ctx, o, env)
}

// serve serves until ctx or the input ends.
func serve(ctx context.Context, o *serveOptions, env *environment) (err error) {
	h, err := newHub(ctx, o, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if o.http != "" || o.approve == "page" {
		stop, err := h.listen(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	following, end := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		h.follow(following)
	}()
	defer func() { end(); <-followed }()
	if o.http == "" {
		return stdio.Serve(ctx, h.face, &stdio.ServeOptions{Logger: h.logger})
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-h.served:
		return err
	}
}

// A hub is a bridge and the server that it is mounted on.
type hub struct {
	o       *serveOptions
	env     *environment
	logger  *slog.Logger
	bridge  *bridge.Bridge
	face    *server.Server
	lock    *pin.Lock
	metrics *gateway.Metrics
	approvals
	served chan error
}

func newHub(ctx context.Context, o *serveOptions, env *environment) (*hub, error) {
	h := &hub{o: o, env: env, logger: slog.New(slog.NewTextHandler(env.stderr, nil)), metrics: &gateway.Metrics{}, served: make(chan error, 1)}
	file, err := config.Load(o.config)
	if file == nil {
		return nil, err
	}
	configs := h.configs(ctx, file, err)
	if h.bridge, err = bridge.New(&bridge.Options{Logger: h.logger}, configs...); err != nil {
		return nil, err
	}
	var provider server.Provider = h.bridge
	if o.lock != "" {
		if h.lock, err = loadLock(o.lock); err != nil {
			return nil, err
		}
		provider = pin.Wrap(h.bridge, pinnedAlias, h.lock, &pin.Options{Logger: h.logger})
	}
	audit := &gateway.Audit{Logger: h.logger, Counters: h.metrics}
	opts := &server.Options{Logger: h.logger, Middleware: []mcp.Middleware{audit.Middleware}}
	if opts.Guards, err = h.guards(ctx, audit); err != nil {
		return nil, err
	}
	h.face = server.New(mcp.Implementation{Name: "dovetail", Version: version()}, opts)
	return h, h.face.Mount(provider, nil)
}

// configs returns the servers of a file, and logs what is wrong with the others. err is the error of
// the file.
func (h *hub) configs(ctx context.Context, file *config.File, err error) []bridge.Config {
	for _, warning := range file.Warnings {
		h.logger.Warn("configuration", "file", file.Name, "warning", warning.String())
	}
	configs, invalid := file.Bridge(ctx, &config.Expander{Prompt: config.PromptEnv}, &config.DialOptions{Stderr: h.env.stderr, Logger: h.logger})
	for _, err := range joined(err, invalid) {
		h.logger.Error("a server is disabled: its configuration is not valid", "error", err)
	}
	for i, c := range configs {
		configs[i].Trusted = h.o.trust == "*" || slices.Contains(strings.Split(h.o.trust, ","), c.Alias)
	}
	return configs
}

// joined returns the errors that were joined.
func joined(errs ...error) (list []error) {
	for _, err := range errs {
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			list = append(list, joined(several.Unwrap()...)...)
		} else if err != nil {
			list = append(list, err)
		}
	}
	return list
}

// follow applies the configuration and the lock whenever their files change, until ctx ends. A file
// that is not valid changes nothing.
func (h *hub) follow(ctx context.Context) {
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		h.followLock(ctx)
	}()
	first := true
	_ = config.Watch(ctx, h.o.config, h.o.reload, func(file *config.File, err error) {
		if first { // the servers of the first content run already
			first = false
			return
		}
		if file == nil {
			h.logger.Error("the new configuration is not valid and was not applied", "error", err)
			return
		}
		if err := h.bridge.Update(h.configs(ctx, file, err)...); err != nil {
			h.logger.Error("the new configuration was not applied", "error", err)
			return
		}
		h.logger.Info("the new configuration was applied", "file", file.Name)
	})
	<-locked
}

// lockInterval is how often the lock file is checked.
const lockInterval = time.Second

// followLock reads the lock file whenever it changes.
func (h *hub) followLock(ctx context.Context) {
	if h.lock == nil {
		return
	}
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	seen := modified(h.o.lock)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := modified(h.o.lock)
		if now == seen {
			continue
		}
		seen = now
		if err := h.lock.Reload(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.logger.Error("the lock file was not read", "error", err)
		}
	}
}

// modified returns the size and the time of the last change of a file.
func modified(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}

// close ends the server. Calls that wait for approval are refused.
func (h *hub) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return errors.Join(h.approvals.close(), h.face.Shutdown(ctx))
}

// listenAt returns the listener of the address, or of a free loopback port for the approval page.
func (h *hub) listenAt() (net.Listener, error) {
	listener, err := net.Listen("tcp", cmp.Or(h.o.http, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	if h.o.open && !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil, errors.Join(misuse("-open serves every client: expected a loopback address such as 127.0.0.1, found %s", h.o.http), listener.Close())
	}
	return listener, nil
}

// readPolicy reads a policy, or returns the one that asks about tools that are not read-only.
func readPolicy(path string, logger *slog.Logger) (*policy.Compiled, error) {
	text := cautious
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	rules, err := policy.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, warning := range rules.Warnings() {
		logger.Warn("suspicious rule in the policy", "file", path, "warning", warning)
	}
	return policy.Compile(rules)
}
