package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/store"
)

var serveCommand = &command{
	name: "serve", args: "[FLAGS]", short: "serve all servers of a configuration file as one",
	long: `Serves standard input and output, with -console also a page with the calls, the servers and the policy. With
-http it serves

  /mcp                   clients of MCP
  /mcp/tools             the same with all tools, with -search at /mcp/search and with -scripts at /mcp/scripts
  /api/v1/rest/          plain HTTP, with an OpenAPI document at openapi.json
  /api/v1/mcp/proxy/     plain HTTP, with a path for each server
  /run                   programs that use the tool server of ipybox
  /livez, /readyz        200 while the program works, and when its servers have started, without a token
  /states                the states of the servers
  /admin/                for operators, with a token of their own; see dovetail help admin
  /console/              a page with the calls, the servers and the policy
  /accounts/             a page at which people connect their accounts at servers, with -client-id
  /metrics               metrics for Prometheus

A tool is named ALIAS__TOOL. Traces are sent to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.

Changes of the file apply while the program runs. A server with the same configuration keeps
running. A mistake in the entry of a server disables that server only. Starts, ends and failures
of servers are logged, with the last lines of standard error. A server that demands a login gets the
token of an earlier dovetail -login -config FILE info ALIAS, or of a login in the console; without one, the
log has that command.

Clients share a token, unless -issuer or -keys gives each caller one of its own, with roles. A
policy decides about calls, and a person about those for which it says ask: on a page in the
browser, at the terminal of this process (not at its standard input), in the client that makes the call, or in a program that connects to the
channel /approval. The policy is read again when its file changes. With -approve and no policy, a person
approves each call of a tool that is not read-only. With -approve none, calls that need an approval
are refused. Approvers have a token of their own. With -lock, only what was accepted is offered; see dovetail help pins.`,
	run: runServe,
}

// approveModes are the values of -approve.
var approveModes = []string{"page", "channel", "terminal", "caller", "none"}

type serveOptions struct {
	config, http, console, policy, approve, trust, token, journal, lock, store, storeEnv string
	expiry, remember, reload, drain                                                      time.Duration
	maxTasks                                                                             int
	open, launch, noApprovalToken, launchUnasked                                         bool
	search, scripts, recordContents                                                      bool
	hosts                                                                                []string
	rolePolicies                                                                         []*policyFile
	callers                                                                              callerOptions
	people                                                                               peopleOptions
	logins                                                                               loginOptions
}

func runServe(ctx context.Context, env *environment, sub *command, line []string) error {
	o := &serveOptions{}
	flags := newFlags(sub, env.stderr)
	flags.StringVar(&o.config, "config", "mcp.json", "the `file` that names the servers")
	flags.StringVar(&o.http, "http", "", "the `address` to serve HTTP at, such as 127.0.0.1:8900; port 0 takes a free one")
	flags.StringVar(&o.console, "console", "", "serve the console and the approval page at this loopback `address`, such as 127.0.0.1:0, beside standard input and output (default 127.0.0.1:0 with -approve page and without -http, and otherwise none); -http has them too")
	flags.StringVar(&o.policy, "policy", "", "the policy `file`")
	flags.Func("role-policy", "a `ROLE=FILE`: the policy for callers with a role, in place of -policy; repeatable; the first one for a role of the caller decides", func(text string) error {
		role, path, ok := strings.Cut(text, "=")
		if !ok || role == "" || path == "" {
			return errors.New("expected ROLE=FILE")
		}
		o.rolePolicies = append(o.rolePolicies, &policyFile{role: role, path: path})
		return nil
	})
	o.callers.flags(flags)
	o.people.flags(flags)
	flags.StringVar(&o.approve, "approve", "", "how calls are approved: "+strings.Join(approveModes, ", ")+" (default page with -policy or -launch; otherwise no call needs approval)")
	flags.StringVar(&o.trust, "trust", "", "the `aliases`, separated by commas, of servers that are trusted to annotate their tools; * for all")
	flags.DurationVar(&o.expiry, "expiry", 5*time.Minute, "how long a call waits for approval")
	flags.DurationVar(&o.remember, "remember", 0, "the longest time for which a yes on the page may be remembered; 0 allows none")
	flags.StringVar(&o.token, "token", "", "the bearer token of HTTP clients, at least 16 characters; by default it is random and printed")
	flags.BoolVar(&o.open, "open", false, "serve HTTP clients without a token, at a loopback address only")
	flags.BoolVar(&o.noApprovalToken, "insecure-no-approval-token", false, "accept programs without a token at /approval, for older ones, at a loopback address only: every program on this machine can then approve its own calls")
	flags.BoolVar(&o.launch, "launch", false, "let callers of /run start any program that they name, each time with approval")
	flags.BoolVar(&o.launchUnasked, "insecure-launch-without-approval", false, "with -launch, start these programs and call their tools without approval, for callers with the token at a loopback address only: who has the token can run any program as this user. A -policy may still deny calls or ask")
	flags.StringVar(&o.journal, "journal", "", "the journal `file` of requests, decisions and executions")
	flags.StringVar(&o.store, "store", "", "where replicas keep sessions, tasks, questions, approvals and tokens: the `address` of a store, nats://…, redis://… or postgres://…, or a folder for one process. Without it they end with this process")
	flags.StringVar(&o.storeEnv, "store-env", "", "the environment `variable` with the address of -store, for one with a password")
	flags.StringVar(&o.lock, "lock", "", "the lock `file` of accepted tools, prompts, resources and skills; others are not offered")
	flags.BoolVar(&o.search, "search", false, "offer clients of MCP two tools in place of all: one finds tools by words, the other calls them. It saves context with more than about 20 tools. With -http, this is at /mcp/search, and with -search alone also at /mcp; /mcp/tools and paths for plain HTTP keep all tools")
	flags.BoolVar(&o.scripts, "scripts", false, "offer clients of MCP two tools in place of all: one finds tools by words, the other runs a program in JavaScript or TypeScript that calls them. With -http, this is at /mcp/scripts, and with -scripts alone also at /mcp; /mcp/tools and paths for plain HTTP keep all tools")
	flags.DurationVar(&o.drain, "drain", 0, "how long requests are served after a signal to end, while /readyz says 503, so that a balancer can send them elsewhere. A second signal ends it")
	flags.IntVar(&o.maxTasks, "max-tasks", 1000, "how many calls run as tasks at the same time, also those that wait for approval; others wait. One caller may have half as many")
	flags.BoolVar(&o.recordContents, "record-contents", false, "let the console show arguments and results also if -http is not a loopback address; they are kept in memory")
	flags.Func("host", "a host `name` under which clients and browsers reach this program, such as a container's or a port-forward's, with :PORT if browsers use another port; repeatable. Loopback names and the address itself are always accepted", func(name string) error {
		o.hosts = append(o.hosts, name)
		_, err := httpguard.NewGuard(o.hosts, nil)
		return err
	})
	o.logins.networkFlag(flags.FlagSet)
	args, command, err := flags.parse(line)
	switch {
	case err != nil:
		return err
	case len(args) > 0 || command != nil:
		return flags.usage()
	case o.open && o.token != "":
		return misuse("-open serves without a token: leave out -token")
	case o.http == "" && (o.open || o.launch || o.token != "" || o.callers.isSet() || len(o.hosts) > 0 || o.recordContents):
		return misuse("-open, -launch, -token, -issuer, -keys, -host and -record-contents are for -http")
	case len(o.rolePolicies) > 0 && !o.callers.isSet():
		return misuse("-role-policy is for -issuer and -keys, which give callers roles")
	case o.http != "" && o.console != "":
		return misuse("-console is for standard input and output: with -http, the console is at /console/")
	case o.launchUnasked && (!o.launch || o.open):
		return misuse("-insecure-launch-without-approval is for -launch, and not for -open: callers need the token")
	case o.launchUnasked && o.policy == "" && o.approve != "":
		return misuse("-insecure-launch-without-approval asks nobody: leave out -approve, or say with -policy which calls need approval")
	case o.noApprovalToken && o.approve != "channel":
		return misuse("-insecure-no-approval-token is for -approve channel")
	case o.http == "" && o.search && o.scripts:
		return misuse("-search and -scripts offer the same tools in two ways: expected one of them, or -http, where clients choose by the path")
	case o.expiry <= 0:
		return misuse("-expiry: expected a positive duration")
	case o.maxTasks < 1:
		return misuse("-max-tasks: expected a positive number")
	case o.remember < 0:
		return misuse("-remember: expected a positive duration, or 0")
	case o.drain < 0 || o.drain > 0 && o.http == "":
		return misuse("-drain is for -http: expected a positive duration, or 0")
	case o.http == "" && o.approve == "channel":
		return misuse("-approve channel needs -http, at which approvers connect")
	case o.approve != "" && !slices.Contains(approveModes, o.approve):
		return misuse("-approve: expected one of %s%s", strings.Join(approveModes, ", "), didYouMean(o.approve, approveModes, ""))
	}
	if o.storeEnv != "" {
		if o.store != "" {
			return misuse("-store and -store-env name one store: expected one of them")
		}
		if o.store = os.Getenv(o.storeEnv); o.store == "" {
			return misuse("-store-env: the variable %s has no value", o.storeEnv)
		}
	}
	if err := o.callers.check(o); err != nil {
		return err
	}
	if err := o.people.check(o.callers.issuer); err != nil {
		return err
	}
	if o.policy != "" || len(o.rolePolicies) > 0 || o.launch && !o.launchUnasked {
		o.approve = cmp.Or(o.approve, "page")
	}
	if o.journal != "" && o.approve == "" {
		return misuse("-journal records approvals: expected -approve or -policy")
	}
	if o.http == "" && o.approve == "page" {
		o.console = cmp.Or(o.console, "127.0.0.1:0")
	}
	if o.console != "" {
		if o.console, err = loopbackAddress("console", o.console); err != nil {
			return err
		}
	}
	return serve(ctx, o, env)
}

// serve serves until ctx or the input ends.
func serve(ctx context.Context, o *serveOptions, env *environment) (err error) {
	var held *heldWriter
	if o.approve == "terminal" {
		held = env.holdTerminal()
	}
	written := &timedWriter{out: env.stderr}
	env.stderr = written
	h := &hub{opts: o, env: env, held: held, started: make(chan struct{}), logger: slog.New(slog.NewTextHandler(env.stderr, nil))}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.open(ctx); err != nil {
		return err
	}
	h.live = newLiveness(h.forms[0].server, written)
	if o.http != "" || o.console != "" {
		if h.site, err = h.newWebsite(); err != nil {
			return err
		}
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx)) // also while the program drains
	var background sync.WaitGroup
	defer func() { end(); background.Wait() }()
	background.Go(func() { h.follow(running) })
	if o.http == "" {
		opts := &stdio.ServeOptions{Logger: h.logger}
		h.recorder.TraceClients(&opts.Conn)
		return stdio.Serve(ctx, h.forms[0].server, opts)
	}
	failed := make(chan error, 1)
	background.Go(func() {
		if err := h.forms.start(running); err == nil {
			close(h.started)
		} else if running.Err() == nil {
			failed <- err
		}
	})
	for stopping := ctx.Done(); ; {
		select {
		case <-stopping:
			stopping = nil
			h.draining.Store(true)
			defer time.AfterFunc(o.drain, end).Stop()
			again, release := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
			defer release()
			defer context.AfterFunc(again, end)()
		case <-running.Done():
			return nil
		case err := <-h.site.served:
			return err
		case err := <-failed:
			return err
		}
	}
}

// A hub is a bridge, the server that it is mounted on, and the guards and observers of its calls.
type hub struct {
	opts       *serveOptions
	env        *environment
	held       *heldWriter // standard error, held while a question is open; nil if there is none at a terminal
	logger     *slog.Logger
	events     *slog.Logger // logger, for what the console shows as what happened: servers and configuration
	telemetry  *telemetry
	file       *config.File // of which the bridge was made
	bridge     *bridge.Bridge
	lock       *pin.Lock     // nil without -lock
	locked     string        // the result of modified before lock was read
	callers    *callers      // nil if clients share a token
	people     *people       // nil if operators and viewers share tokens
	accounts   *accounts     // of people at servers; nil without people
	key        *state.Key    // seals what only this program and its replicas read
	policies   []*policyFile // the last one is for all callers that no other one is for; nil without a guard
	middleware []mcp.Middleware
	guards     []mcp.Guard
	store      store.Store // nil without -store
	tokens     tokens
	recorder   *console.Recorder
	logins     *servedLogins         // that operators begin
	console    *console.Console      // nil without -http and -console
	journal    *approval.FileJournal // nil without -journal
	channel    *channel.Channel      // of approvers, or nil
	server     *server.Server        // of all tools
	forms      forms                 // in which clients of MCP get the tools; the first one is at /mcp and over standard input and output
	engine     *code.Engine          // of -scripts
	site       *website              // nil without -http and -console
	started    chan struct{}         // closed when the servers have started, with -http
	live       *liveness
	draining   atomic.Bool // the program ends soon, and balancers should send no more requests

	closeTerminal func() error // nil without questions at the terminal
}

// open reads the files and makes the server. The first request, or [server.Server.Start], starts the
// servers behind it.
func (h *hub) open(ctx context.Context) (err error) {
	if h.telemetry, err = newTelemetry(ctx); err != nil {
		return err
	}
	var invalid error // of single servers
	if h.file, invalid = config.Load(h.opts.config); h.file == nil {
		return invalid
	}
	h.recorder = console.NewRecorder(&console.RecorderOptions{Bodies: h.opts.recordContents || h.opts.isLoopback()})
	h.events = slog.New(h.recorder.LogHandler(h.logger.Handler()))
	h.logins = newServedLogins()
	h.tokens = newTokens()
	var roles *state.Records[[]string] // of callers
	if h.opts.store != "" {
		engine, err := openStore(ctx, h.opts.store, h.events)
		if err != nil {
			return fmt.Errorf("-store: %w", err)
		}
		h.store = store.Observed(engine, h.telemetry.observeOperation)
		h.key = state.SharedKey(h.store, "serve/key", 0, h.events)
		if h.tokens, err = sharedTokens(ctx, h.store, h.key); err != nil {
			return err
		}
		roles = new(state.NewRecords[[]string](h.store, h.key))
	} else if h.key, err = randomKey(); err != nil {
		return err
	}
	if h.opts.callers.isSet() {
		if h.callers, err = newCallers(&h.opts.callers, &h.opts.logins, roles, h.events); err != nil {
			return err
		}
		h.callers.people = h.opts.people.clientID != ""
	}
	if h.opts.people.clientID != "" {
		if err = h.openAccounts(); err != nil {
			return err
		}
	}
	if h.bridge, err = bridge.New(&bridge.Options{Logger: h.events}, h.configs(ctx, h.file, invalid)...); err != nil {
		return err
	}
	var provider server.Provider = h.bridge
	if h.opts.lock != "" {
		h.locked = modified(h.opts.lock)
		if h.lock, err = loadLock(h.opts.lock); err != nil {
			return err
		}
		provider = pin.Wrap(h.bridge, pinnedAlias, h.lock, &pin.Options{Logger: h.events})
	}
	audit := &gateway.Audit{Logger: h.logger}
	if err = h.setGuards(ctx, audit); err != nil {
		return err
	}
	if h.accounts != nil {
		h.guards = append([]mcp.Guard{h.accounts.guard()}, h.guards...)
		h.accounts.start(h.bridge)
	}
	options := &server.Options{
		Logger: h.logger, Middleware: []mcp.Middleware{h.telemetry.server.Middleware, audit.Middleware}, Guards: h.guards, OnSession: h.telemetry.server.OnSession,
		MaxTasks: h.opts.maxTasks,
	}
	h.recorder.ObserveServer(options)
	h.middleware = options.Middleware
	if slices.Contains(h.opts.forms(), toolsForm) { // otherwise the server has calls only, and no clients
		options.Store = h.store
	}
	h.server = server.New(mcp.Implementation{Name: "dovetail", Version: version()}, options)
	if err = h.server.Mount(provider, nil); err != nil {
		return err
	}
	return h.openForms()
}

// openAccounts makes the accounts of people. Without -store they are in memory.
func (h *hub) openAccounts() (err error) {
	var kv store.KV = h.store
	if h.store == nil {
		if kv, err = store.NewMemory(nil); err != nil {
			return err
		}
	}
	client := h.opts.people.registration(h.opts.callers.issuer)
	h.accounts, err = newAccounts(h.callers, client, &h.opts.logins, kv, h.key, h.events)
	return err
}

// configs returns the valid servers of a file, and logs the errors of the others. err is the error of the file.
func (h *hub) configs(ctx context.Context, file *config.File, err error) []bridge.Config {
	for _, warning := range file.Warnings {
		h.events.Warn("configuration", "file", file.Name, "warning", warning.String())
	}
	servers, invalid := file.Expand(ctx, &config.Expander{Prompt: config.PromptEnv})
	h.logins.set(slices.DeleteFunc(slices.Clone(servers), func(s *config.Resolved) bool { return s.Options.Auth.IsOfUser() }))
	var configs []bridge.Config
	own := make(map[string]*userServer)
	for _, resolved := range servers {
		h.recorder.Hide(resolved.Secrets()...)
		opts := &config.DialOptions{
			Stderr: h.recorder.Stderr(resolved.Alias, h.env.stderr), Logger: h.logger,
			Authorizer: func(server *config.Resolved) httptransport.Authorizer {
				return h.opts.logins.saved(server, headersOf(server), loginCommand(h.opts.config, server.Alias))
			},
		}
		h.recorder.TraceServers(&opts.Conn)
		if h.accounts != nil {
			opts.DialAs = func(server *config.Resolved) func(context.Context, string) (transport.Dialer, error) {
				own[server.Alias] = newUserServer(server, *opts)
				return h.accounts.dialAs(own[server.Alias])
			}
		}
		c, problem := resolved.Bridge(opts)
		if problem != nil {
			invalid = errors.Join(invalid, problem)
			continue
		}
		c.Trusted = trusts(h.opts.trust, c.Alias)
		if of := own[c.Alias]; of != nil {
			h.accounts.prepare(ctx, of, &c)
		}
		h.telemetry.observeClient(&c)
		h.recorder.ObserveUpstream(&c)
		configs = append(configs, c)
	}
	if h.accounts != nil {
		h.accounts.setServers(own)
	}
	for _, err := range joined(err, invalid) {
		h.events.Error("a server is disabled: its configuration is not valid", "error", err)
	}
	return configs
}

// trusts reports whether -trust names a server.
func trusts(trust, alias string) bool {
	return trust == "*" || slices.Contains(strings.Split(trust, ","), alias)
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

// close ends the server. Calls that wait for approval are refused, and running calls may finish.
func (h *hub) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var errs []error
	if h.site != nil {
		h.site.stopAccepting()
	}
	if h.channel != nil {
		errs = append(errs, h.channel.Close())
	}
	if h.console != nil {
		errs = append(errs, h.console.Close())
	}
	if h.logins != nil {
		h.logins.close()
	}
	if h.accounts != nil { // calls that wait for one end
		h.accounts.close()
	}
	if h.site != nil {
		for _, shutdown := range h.site.frontends {
			errs = append(errs, shutdown(ctx))
		}
	}
	errs = append(errs, h.forms.shutdown(ctx))
	if h.server != nil {
		errs = append(errs, h.server.Shutdown(ctx))
	}
	if h.site != nil {
		errs = append(errs, h.site.shutdown(ctx))
	}
	if h.engine != nil {
		errs = append(errs, h.engine.Close())
	}
	if h.journal != nil {
		errs = append(errs, h.journal.Close())
	}
	if h.closeTerminal != nil {
		errs = append(errs, h.closeTerminal())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	if h.telemetry != nil {
		errs = append(errs, h.telemetry.close(ctx))
	}
	return errors.Join(errs...)
}
