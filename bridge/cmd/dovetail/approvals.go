package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"crypto/rand"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

//go:embed cautious.json
var cautious []byte // the policy without a file: asks about tools that are not read-only

// approvals are the channel of approvers and the journal, if there are any.
type approvals struct {
	channel *channel.Channel
	journal *approval.FileJournal
}

func (a *approvals) close() error {
	var errs []error
	if a.channel != nil {
		errs = append(errs, a.channel.Close())
	}
	if a.journal != nil {
		errs = append(errs, a.journal.Close())
	}
	return errors.Join(errs...)
}

// guards returns the guard with policy and approval, if the options ask for one.
func (h *hub) guards(ctx context.Context, audit *gateway.Audit) ([]mcp.Guard, error) {
	o := h.o
	if o.policy == "" && (o.approve == "" || o.approve == "none") {
		if o.journal != "" {
			return nil, misuse("-journal records approvals: expected -approve or -policy")
		}
		return nil, nil
	}
	rules, err := readPolicy(o.policy, h.logger)
	if err != nil {
		return nil, err
	}
	asking := &approval.Options{Expiry: o.expiry, Logger: h.logger, GuardOptions: policy.GuardOptions{OnDecision: audit.OnDecision}}
	if o.journal != "" {
		if h.journal, err = approval.OpenJournal(o.journal, h.logger); err != nil {
			return nil, err
		}
		asking.Journal = h.journal
	}
	var approver approval.Approver
	switch o.approve {
	case "page":
		h.channel, err = channel.New(&channel.Options{Logger: h.logger, ReconnectTimeout: o.expiry + time.Minute}) // the page can be opened until the call expires
		approver = h.channel
	case "terminal":
		approver = untilEnd(ctx, approval.Terminal(h.env.stdin, h.env.terminal))
	case "caller":
		approver = approval.Elicitation()
	}
	return []mcp.Guard{approval.Guard(rules, approver, asking)}, err
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

// listen serves HTTP: everything with -http, and otherwise the approval page only. stop ends it.
func (h *hub) listen(ctx context.Context) (stop func(), err error) {
	listener, err := h.listenAt()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	endings := []func(context.Context) error{}
	// Tokens are printed only here.
	if h.channel != nil {
		mux.Handle("/approval", h.channel)
		mux.Handle("/approvals/", page.Handler(&page.Options{Channel: "/approval"}))
		fmt.Fprintf(h.env.stderr, "approve  http://%s/approvals/#token=%s\n", listener.Addr(), h.channel.Token())
	}
	if h.o.http != "" {
		token, tokens := h.o.token, &gateway.AuthenticatorOptions{Open: h.o.open, Logger: h.logger}
		if token == "" && !h.o.open {
			token = rand.Text()
			fmt.Fprintf(h.env.stderr, "clients  Authorization: Bearer %s\n", token)
		}
		if token != "" {
			tokens.Tokens = map[string]string{token: "client"}
		}
		access, err := gateway.NewAuthenticator(tokens)
		if err == nil {
			err = h.face.Start(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		plain := gateway.New(h.face, &gateway.Options{States: h.bridge.States, Authenticator: access, Logger: h.logger})
		endpoint := streamable.Handler(h.face, &streamable.Options{Logger: h.logger})
		mux.Handle("/mcp", access.Handler(endpoint))
		mux.Handle("/api/v1/rest/", http.StripPrefix("/api/v1/rest", plain.REST(nil)))
		mux.Handle("/metrics", access.Handler(h.metrics))
		mux.HandleFunc("GET /health", h.health)
		endings = append(endings, plain.Shutdown, h.face.Shutdown, func(context.Context) error { return endpoint.Close() })
		fmt.Fprintf(h.env.stderr, "serving  http://%s/mcp, /api/v1/rest/, /health and /metrics\n", listener.Addr())
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.served <- web.Serve(listener)
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = listener.Close()
		web.SetKeepAlivesEnabled(false)
		_ = h.approvals.channelClose() // calls that wait are refused
		for _, end := range append(endings, web.Shutdown) {
			if err := end(ctx); err != nil {
				h.logger.Debug("shutdown", "error", err)
			}
		}
		_ = web.Close()
		<-ended
	}, nil
}

func (a *approvals) channelClose() error {
	if a.channel == nil {
		return nil
	}
	return a.channel.Close()
}

// health reports the state of each server. The reasons of failures are only in the log.
func (h *hub) health(w http.ResponseWriter, _ *http.Request) {
	type health struct {
		Alias    string        `json:"alias"`
		Status   bridge.Status `json:"status"`
		Since    time.Time     `json:"since"`
		Restarts int           `json:"restarts"`
		Tools    int           `json:"tools"`
	}
	list := []health{}
	for _, s := range h.bridge.States() {
		list = append(list, health{s.Alias, s.Status, s.Since, s.Restarts, s.Tools})
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		h.logger.Debug("the health response was not sent", "error", err)
	}
}
