// Gateway serves the MCP servers of a configuration file at one address. A policy decides
// about each call, and a person approves the calls that the policy asks about:
//
//	go run ./examples/gateway -config mcp.json -addr 127.0.0.1:8900
//
// Clients use MCP at /mcp, POST /run, or plain HTTP below /api/v1/mcp/proxy and
// /api/v1/rest. All of them reach the same server and the same policy.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const caller = "caller" // the principal of callers with the token

var modes = []string{"page", "channel", "terminal", "caller", "none"} // of -approve

type options struct {
	config, address, policy, trust, approve, token, journal, verify string
	expiry, remember                                                time.Duration
	open, launch                                                    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, o, os.Stdin, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("the gateway has ended", "error", err) // the handler quotes text of servers
		stop()
		os.Exit(1)
	}
}

func parse(args []string, said io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(said)
	flags.StringVar(&o.config, "config", "mcp.json", "the `file` that names the servers")
	flags.StringVar(&o.address, "addr", "127.0.0.1:8900", "the `address` to serve at; port 0 takes a free one")
	flags.StringVar(&o.policy, "policy", "", "the policy `file`; without one, a person approves all tools that are not read-only")
	flags.StringVar(&o.trust, "trust", "", "the `servers`, separated by commas, whose tool annotations are believed; * for all")
	flags.StringVar(&o.approve, "approve", "page", "how calls are approved: "+strings.Join(modes, ", "))
	flags.DurationVar(&o.expiry, "expiry", approval.DefaultExpiry, "how long a call waits for approval")
	flags.DurationVar(&o.remember, "remember", 0, "the longest time for which a yes on the page may be remembered; 0 allows none")
	flags.StringVar(&o.token, "token", "", "the bearer token of callers, at least 16 characters; by default it is random and printed")
	flags.BoolVar(&o.open, "open", false, "serve callers without a token, at a loopback address only")
	flags.BoolVar(&o.launch, "launch", false, "let callers of /run start any program that they name")
	flags.StringVar(&o.journal, "journal", "", "the journal `file` of requests, decisions and executions")
	flags.StringVar(&o.verify, "verify", "", "verify this journal and exit")
	switch err := flags.Parse(args); {
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("expected flags only, found %q", flags.Arg(0))
	case o.open && o.token != "":
		return nil, errors.New("-open serves without a token: leave out -token")
	case o.expiry <= 0:
		return nil, errors.New("-expiry: expected a positive duration")
	case o.remember < 0:
		return nil, errors.New("-remember: expected a positive duration, or 0")
	}
	return o, nil
}

func run(ctx context.Context, o *options, in io.Reader, said io.Writer) error {
	if o.verify != "" {
		return verify(o.verify, said)
	}
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return err
	}
	defer listener.Close()
	if o.open && !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return fmt.Errorf("-open serves every caller: expected a loopback address such as 127.0.0.1, found %s", o.address)
	}
	logger := slog.New(slog.NewTextHandler(said, nil))
	audit := &gateway.Audit{Logger: logger}
	asking := &approval.Options{Expiry: o.expiry, Remember: o.remember, Logger: logger, GuardOptions: policy.GuardOptions{OnDecision: audit.OnDecision}}
	if o.journal != "" {
		journal, err := approval.OpenJournal(o.journal, logger)
		if err != nil {
			return err
		}
		defer journal.Close()
		asking.Journal = journal
	}
	servers, noServers := load(ctx, o, logger)
	rules, noRules := readRules(o.policy, logger)
	approver, approvers, noApprover := approverOf(ctx, o, in, said, logger)
	if err := errors.Join(noServers, noRules, noApprover); err != nil {
		return err
	}
	// One server has all tools, and all calls pass its audit log and guard.
	middleware, guards := []mcp.Middleware{audit.Middleware}, []mcp.Guard{approval.Guard(rules, approver, asking)}
	all := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &server.Options{Logger: logger, Middleware: middleware, Guards: guards})
	token, tokens := o.token, &gateway.AuthenticatorOptions{Open: o.open, Logger: logger}
	if !o.open {
		token = cmp.Or(token, rand.Text())
		tokens.Tokens = map[string]string{token: caller}
	}
	access, err := gateway.NewAuthenticator(tokens)
	if err = errors.Join(err, all.Mount(servers, nil)); err != nil {
		return err
	}
	launching := &toolserver.Options{Server: all, States: servers.States, Middleware: middleware, Guards: guards, Authenticator: access, Logger: logger}
	if o.launch {
		launching.Launch = toolserver.LaunchAny
	}
	tools, err := toolserver.New(launching)
	if err = errors.Join(err, all.Start(ctx)); err != nil {
		return err
	}
	plain := gateway.New(all, &gateway.Options{States: servers.States, Authenticator: access, Logger: logger})
	endpoint := streamable.Handler(all, nil)
	mux := http.NewServeMux()
	mux.Handle("/", tools)
	mux.Handle("/mcp", access.Handler(endpoint))
	mux.Handle("/api/v1/mcp/proxy/", http.StripPrefix("/api/v1/mcp/proxy", plain.Proxy()))
	mux.Handle("/api/v1/rest/", http.StripPrefix("/api/v1/rest", plain.REST(nil)))
	mux.Handle("/approval", approvers)
	// Tokens are printed only here.
	switch o.approve {
	case "page":
		mux.Handle("/approvals/", page.Handler(&page.Options{Channel: "/approval"}))
		fmt.Fprintf(said, "approve  http://%s/approvals/#token=%s\n", listener.Addr(), approvers.Token())
	case "channel":
		fmt.Fprintf(said, "approve  ws://%s/approval with the token %s\n", listener.Addr(), approvers.Token())
	}
	if token != o.token {
		fmt.Fprintf(said, "callers  Authorization: Bearer %s\n", token)
	}
	fmt.Fprintf(said, "serving  http://%s/mcp, /run, /api/v1/mcp/proxy/ and /api/v1/rest/\n", listener.Addr())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener); close(served) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	// Calls that wait for approval are refused. Running calls may finish.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = listener.Close() // no page reconnects; the error of Serve is not needed
	web.SetKeepAlivesEnabled(false)
	err = errors.Join(err, approvers.Close(), tools.Shutdown(ending), plain.Shutdown(ending), all.Shutdown(ending), endpoint.Close(), web.Shutdown(ending), web.Close())
	<-served
	return err
}

func load(ctx context.Context, o *options, logger *slog.Logger) (*bridge.Bridge, error) {
	file, err := config.Load(o.config)
	if err != nil {
		return nil, err
	}
	for _, warning := range file.Warnings {
		logger.Warn("ignored part of the configuration", "file", file.Name, "warning", warning.String())
	}
	configs, err := file.Bridge(ctx, &config.Expander{Prompt: config.PromptEnv}, &config.DialOptions{Stderr: os.Stderr, Logger: logger})
	if err != nil {
		return nil, err
	}
	for i, c := range configs {
		configs[i].Trusted = o.trust == "*" || slices.Contains(strings.Split(o.trust, ","), c.Alias)
	}
	return bridge.New(&bridge.Options{Logger: logger}, configs...)
}

//go:embed cautious.json
var cautious []byte // the policy without a file: asks about tools that are not read-only

// readRules reads a policy. Servers that callers launch always need approval, because callers
// choose their names and rules about names must not apply to them.
func readRules(path string, logger *slog.Logger) (*policy.Compiled, error) {
	text, err := cautious, error(nil)
	if path != "" {
		text, err = os.ReadFile(path)
	}
	rules, invalid := policy.Parse(text)
	if err = cmp.Or(err, invalid); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, warning := range rules.Warnings() {
		logger.Warn("suspicious rule in the policy", "file", path, "warning", warning)
	}
	if len(rules.Allow) == 0 && len(rules.Rules) == 0 { // a policy without rules allows everything
		rules.Rules = append(rules.Rules, policy.Rule{Name: "all else", Effect: policy.Allow})
	}
	rules.Rules = append(rules.Rules, policy.Rule{Name: "launched", Effect: policy.Ask, Match: policy.Match{Servers: []string{toolserver.LaunchedPrefix + "*"}}})
	return policy.Compile(rules)
}

// approverOf returns the approver of a mode and the channel for approvers.
func approverOf(ctx context.Context, o *options, in io.Reader, said io.Writer, logger *slog.Logger) (approval.Approver, *channel.Channel, error) {
	opts := &channel.Options{Logger: logger, Open: o.open && o.approve == "channel", FailOnDisconnect: o.approve == "channel"}
	switch o.approve {
	case "page":
		opts.ReconnectTimeout = o.expiry + time.Minute // the page can be opened until the call expires
	}
	approvers, err := channel.New(opts)
	switch o.approve {
	case "page", "channel":
		return approvers, approvers, err
	case "terminal":
		return untilEnd(ctx, approval.Terminal(in, said)), approvers, err
	case "caller":
		return approval.Elicitation(), approvers, err
	case "none":
		return nil, approvers, err
	}
	return nil, approvers, fmt.Errorf("-approve: expected one of %q, found %q", modes, o.approve)
}

// untilEnd returns an approver that refuses the calls that wait for it when the program ends.
func untilEnd(program context.Context, approver approval.Approver) approval.Approver {
	return approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(program, cancel)()
		return approver.Approve(ctx, r)
	})
}

func verify(path string, said io.Writer) error {
	summary, err := approval.Verify(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(said, "%s is valid: %d entries, digest %s\n", path, summary.Entries, summary.Head)
	if summary.Torn > 0 {
		fmt.Fprintf(said, "ignored %d bytes of an incomplete last entry\n", summary.Torn)
	}
	for _, id := range summary.Open {
		fmt.Fprintf(said, "without an outcome: %s\n", id)
	}
	return nil
}
