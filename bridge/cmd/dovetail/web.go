package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A website serves HTTP.
type website struct {
	listener  net.Listener
	http      *http.Server
	served    chan error                    // gets the error of http once
	frontends []func(context.Context) error // shut down the handlers
}

// listen begins to listen at the address of a flag.
func listen(flag, address string) (*website, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen at %s: %w; choose another address with -%s", address, err, flag)
	}
	return &website{listener: listener, served: make(chan error, 1)}, nil
}

// serve serves a handler.
func (w *website) serve(handler http.Handler) {
	w.http = httptransport.NewServer(handler)
	go func() { w.served <- w.http.Serve(w.listener); close(w.served) }()
}

// newWebsite returns a website with everything of -http, or with the pages of -console. It prints the addresses and tokens,
// which are printed only here.
func (h *hub) newWebsite() (*website, error) {
	flag, address := "http", h.opts.http
	if address == "" {
		flag, address = "console", h.opts.console
	}
	w, err := listen(flag, address)
	if err != nil {
		return nil, err
	}
	if (h.opts.open || h.opts.noApprovalToken || h.opts.launchUnasked) && !w.listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil, errors.Join(misuse("-open, -insecure-no-approval-token and -insecure-launch-without-approval trust everyone who reaches the address: expected a loopback address such as 127.0.0.1, found %s", h.opts.http), w.listener.Close())
	}
	mux := http.NewServeMux()
	if h.opts.people.clientID != "" {
		if h.people, err = newPeople(h.opts, h.callers, h.key, h.opts.callers.base(w.listener.Addr().String()), h.events); err != nil {
			return nil, errors.Join(err, w.listener.Close())
		}
		h.people.route(mux)
	}
	h.routeApprovals(w, mux)
	if err := h.routeConsole(w, mux); err != nil {
		return nil, errors.Join(err, w.listener.Close())
	}
	if h.opts.http != "" {
		if err := h.routeClients(w, mux); err != nil {
			return nil, errors.Join(err, w.listener.Close())
		}
	}
	w.serve(mux)
	return w, nil
}

// loopbackAddress returns the address of a flag with an IP address and a port. The error says that others than this machine
// reach it.
func loopbackAddress(flag, address string) (string, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", misuse("-%s: %v", flag, err)
	}
	if !at.IP.IsLoopback() {
		return "", misuse("-%s needs a loopback address such as 127.0.0.1:8900, found %s", flag, address)
	}
	return at.String(), nil
}

// routeApprovals adds the routes of approvers.
func (h *hub) routeApprovals(w *website, mux *http.ServeMux) {
	if h.channel == nil {
		return
	}
	mux.Handle("/approval", h.channel)
	if h.opts.noApprovalToken {
		fmt.Fprintf(h.env.stderr, "approve  ws://%s/approval without a token: every program on this machine can approve\n", w.listener.Addr())
		return
	}
	if h.opts.approve == "channel" {
		fmt.Fprintf(h.env.stderr, "approve  ws://%s/approval with the token %s\n", w.listener.Addr(), h.channel.Token())
		return
	}
	approvals := page.Handler(&page.Options{Channel: "/approval", Hosts: h.opts.hosts})
	if h.people != nil {
		mux.Handle("/approvals/", h.people.requireRole(approvals))
		fmt.Fprintf(h.env.stderr, "approve  %s/approvals/ for people with a role of -operators\n", h.people.base)
		return
	}
	mux.Handle("/approvals/", approvals)
	fmt.Fprintf(h.env.stderr, "approve  http://%s/approvals/#token=%s\n", w.listener.Addr(), h.channel.Token())
}

// routeConsole adds the console. Its operators are the approvers, so that one link is enough.
func (h *hub) routeConsole(w *website, mux *http.ServeMux) (err error) {
	opts := &console.Options{
		Recorder: h.recorder, Lock: h.lock, Hosts: h.opts.hosts, Origins: h.opts.origins(), Logger: h.events,
		Login: h.logIn,
		Command: func(server, tool string, arguments json.RawMessage) string {
			return commandLine("dovetail", "-config", h.opts.config, "call", server, tool, string(arguments))
		},
	}
	if len(h.policies) > 0 {
		opts.Policy, opts.Compile = h.policies[len(h.policies)-1].inForce.Load, func(p *policy.Policy) (*policy.Compiled, error) { return compilePolicy(p, h.opts.launchUnasked) }
	}
	if h.opts.approve == "page" {
		opts.Channel = "/approval"
	}
	if h.people != nil {
		opts.Authenticate = h.people.viewer
	} else {
		opts.Token, opts.ViewerToken = h.tokens.Operator, h.tokens.Viewer
	}
	if h.console, err = console.New(h.server, h.bridge, opts); err != nil {
		return err
	}
	if h.people != nil {
		mux.Handle("/console/", h.people.requireRole(h.console))
		fmt.Fprintf(h.env.stderr, "console  %s/console/ for people with a role of -operators or -viewers\n", h.people.base)
		return nil
	}
	mux.Handle("/console/", h.console)
	fmt.Fprintf(h.env.stderr, "console  http://%[1]s/console/#token=%[2]s, and for people who may not see contents http://%[1]s/console/#token=%[3]s\n",
		w.listener.Addr(), h.console.Token(), h.console.ViewerToken())
	return nil
}

// routeClients adds the routes of clients.
func (h *hub) routeClients(w *website, mux *http.ServeMux) error {
	token, tokens := h.opts.token, &gateway.AuthenticatorOptions{Open: h.opts.open, Hosts: h.opts.hosts, Logger: h.logger}
	switch {
	case h.callers != nil:
		tokens.Authenticate = func(r *http.Request) (string, bool) { return transport.Principal(r.Context()), true } // protect has admitted it
	case !h.opts.open:
		token = cmp.Or(token, h.tokens.Client)
		tokens.Tokens = map[string]string{token: "client"}
	}
	access, err := gateway.NewAuthenticator(tokens)
	if err != nil {
		return err
	}
	launching := &toolserver.Options{Server: h.server, States: h.bridge.States, Middleware: h.middleware, Guards: h.guards, Authenticator: access, Logger: h.logger}
	if h.opts.launch {
		launching.Launch = toolserver.LaunchAny
	}
	if h.opts.launchUnasked {
		fmt.Fprintln(h.env.stderr, "launch   without approval: everyone who has the token can run any program as this user")
	}
	tools, err := toolserver.New(launching)
	if err != nil {
		return err
	}
	plain := gateway.New(h.server, &gateway.Options{States: h.bridge.States, Authenticator: access, Logger: h.logger})
	opts := &streamable.Options{Hosts: h.opts.hosts, Logger: h.logger}
	h.recorder.TraceClients(&opts.Conn)
	clients := http.NewServeMux()
	clients.Handle("/", h.afterStart(tools))
	for i, form := range h.forms {
		form.endpoint = streamable.Handler(form.server, opts)
		paths := []string{"/mcp/" + form.name}
		if i == 0 {
			paths = append(paths, "/mcp")
		}
		for _, path := range paths {
			clients.Handle(path, access.Handler(form.endpoint))
			clients.Handle(path+"/{$}", access.Handler(form.endpoint))
		}
	}
	clients.Handle("/api/v1/mcp/proxy/", h.afterStart(http.StripPrefix("/api/v1/mcp/proxy", plain.Proxy())))
	clients.Handle("/api/v1/rest/", h.afterStart(http.StripPrefix("/api/v1/rest", plain.REST(nil))))
	clients.Handle("/metrics", access.Handler(h.telemetry.metrics))
	clients.Handle("/states", access.Handler(http.HandlerFunc(h.states)))
	admitted := http.Handler(clients)
	if h.callers != nil {
		if admitted, err = h.callers.protect(clients, w.listener.Addr().String(), h.forms.scopes, h.opts.origins()); err != nil {
			return err
		}
	}
	if h.accounts != nil {
		h.accounts.base = h.people.base
		mux.Handle("/accounts/", h.accounts.site(h.people))
		fmt.Fprintf(h.env.stderr, "accounts %s/accounts/\n", h.accounts.base)
	}
	mux.Handle("/", admitted)
	mux.Handle("GET /livez", h.live)
	mux.HandleFunc("GET /readyz", h.ready)
	if err := h.routeAdmin(w, mux); err != nil {
		return err
	}
	if err := h.telemetry.observe(h); err != nil {
		return err
	}
	w.frontends = append(w.frontends, tools.Shutdown, plain.Shutdown, h.forms.shutdown, h.server.Shutdown, h.forms.close)
	if h.callers != nil {
		fmt.Fprintf(h.env.stderr, "clients  %s\n", h.callers)
	} else if token != h.opts.token {
		fmt.Fprintf(h.env.stderr, "clients  Authorization: Bearer %s\n", token)
	}
	fmt.Fprintf(h.env.stderr, "serving  http://%s/mcp, /run, /api/v1/mcp/proxy/, /api/v1/rest/, /states, /admin/ and /metrics\n", w.listener.Addr())
	return nil
}

// afterStart delays requests until the servers have started: before that, the handler would find no
// tools. Requests of MCP wait by themselves.
func (h *hub) afterStart(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.server.Start(r.Context()); err != nil {
			http.Error(w, "the servers could not start", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// stopAccepting refuses new connections, so that no page of approvals reconnects.
func (w *website) stopAccepting() {
	_ = w.listener.Close()
	w.http.SetKeepAlivesEnabled(false)
	<-w.served //nolint:errcheck // the listener is closed
}

// shutdown waits for the requests until ctx ends.
func (w *website) shutdown(ctx context.Context) error {
	return errors.Join(w.http.Shutdown(ctx), w.http.Close())
}

// ready answers a probe whether requests should be sent here. Like /livez, it has no details, needs no token and accepts every Host.
func (h *hub) ready(w http.ResponseWriter, _ *http.Request) {
	if err := h.isReady(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// isReady returns nil if the servers have started, and the program is not about to end.
func (h *hub) isReady() error {
	if h.draining.Load() {
		return errors.New("this program is about to end")
	}
	select {
	case <-h.started:
		return nil
	default:
		return errors.New("the servers have not started yet")
	}
}

// states reports the state of each server. The reasons of failures are only in the log.
func (h *hub) states(w http.ResponseWriter, _ *http.Request) {
	list := h.serverStatuses()
	for i := range list {
		list[i].Error = ""
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		h.logger.Debug("the states were not sent", "error", err)
	}
}
