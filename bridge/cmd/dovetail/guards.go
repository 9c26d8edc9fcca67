package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

//go:embed cautious.json
var cautious []byte // the policy without a file: asks about tools that are not read-only

// setGuards sets the guard with policy and approval, its journal and its approvers, if the options ask
// for a guard.
func (h *hub) setGuards(ctx context.Context, audit *gateway.Audit) error {
	o := h.opts
	if o.approve == "" {
		return nil
	}
	for _, file := range append(slices.Clone(o.rolePolicies), &policyFile{path: o.policy}) {
		file.seen = modified(file.path)
		inForce, err := readPolicy(file.path, o.launchUnasked, h.events)
		if err != nil {
			return err
		}
		file.inForce.Store(inForce)
		h.policies = append(h.policies, file)
	}
	asking := &approval.Options{
		Expiry: o.expiry, Remember: o.remember, Logger: h.logger, Store: h.store,
		GuardOptions: policy.GuardOptions{OnDecision: audit.OnDecision, Current: h.policyOf},
	}
	if h.callers != nil { // without it, no caller has a role
		asking.Subject = h.callers.subject
	}
	h.recorder.ObserveApproval(asking)
	var err error
	if o.journal != "" {
		if h.journal, err = approval.OpenJournal(o.journal, h.logger); err != nil {
			return err
		}
		asking.Journal = h.journal
		if asking.Replica, err = os.Hostname(); err != nil {
			return err
		}
	}
	approver, err := h.newApprover(ctx)
	if err != nil {
		return err
	}
	h.guards = []mcp.Guard{approval.Guard(nil, approver, asking)}
	return nil
}

// A policyFile is a policy that is read again when its file changes.
type policyFile struct {
	role    string // of the callers that it decides about, "" for all others
	path    string // "" for the policy without a file
	seen    string // the result of modified before it was read
	inForce atomic.Pointer[console.Policy]
}

// policyOf returns the policy that decides about a caller: the first of -role-policy for one of the caller's roles, or else that of
// -policy.
func (h *hub) policyOf(caller policy.Subject) *policy.Compiled {
	for _, file := range h.policies {
		if file.role == "" || slices.Contains(caller.Roles, file.role) {
			return file.inForce.Load().Compiled
		}
	}
	return nil
}

// readPolicy reads the policy of a file, or with "" the one without a file. See [compilePolicy] for launchUnasked.
func readPolicy(path string, launchUnasked bool, logger *slog.Logger) (*console.Policy, error) {
	text := cautious
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	rules, err := policy.Parse(text)
	if at, ok := errors.AsType[*policy.ParseError](err); ok {
		return nil, fmt.Errorf("%s:%d:%d: %s", path, at.Line, at.Column, at.Message)
	}
	for _, warning := range rules.Warnings() {
		logger.Warn("suspicious rule in the policy", "file", path, "warning", warning)
	}
	compiled, err := compilePolicy(rules, launchUnasked)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &console.Policy{Compiled: compiled, Text: text, File: path, Since: time.Now()}, nil
}

// compilePolicy compiles a policy. Servers that callers launch always need approval unless a flag says otherwise, because
// callers choose their names and rules about names must not apply to them.
func compilePolicy(rules *policy.Policy, launchUnasked bool) (*policy.Compiled, error) {
	if len(rules.Allow) == 0 && len(rules.Rules) == 0 { // a policy without rules allows everything
		rules.Rules = append(rules.Rules, policy.Rule{Name: "all else", Effect: policy.Allow})
	}
	launched := policy.Rule{Name: "launched", Effect: policy.Ask, Match: policy.Match{Servers: []string{approval.LaunchedPrefix + "*"}}}
	if launchUnasked {
		launched.Effect = policy.Allow
	}
	rules.Rules = append(rules.Rules, launched)
	return policy.Compile(rules)
}

// newApprover returns the approver of -approve. It is nil for none, and calls that need an approval are
// then refused.
func (h *hub) newApprover(ctx context.Context) (approval.Approver, error) {
	var err error
	switch h.opts.approve {
	case "page": // the page can be opened until the call expires
		opts := &channel.Options{Logger: h.events, Hosts: h.opts.hosts, Origins: h.opts.origins(), ReconnectTimeout: h.opts.expiry + time.Minute, Store: h.store}
		if h.opts.people.clientID == "" {
			opts.Token = h.tokens.Operator
		} else {
			opts.Authenticate = func(r *http.Request) (channel.Person, bool) { return h.people.approver(r) }
		}
		h.channel, err = channel.New(opts)
		return h.channel, err
	case "channel":
		h.channel, err = channel.New(&channel.Options{Logger: h.events, Hosts: h.opts.hosts, InsecureNoToken: h.opts.noApprovalToken, FailOnDisconnect: h.store == nil, Store: h.store, Token: h.tokens.Operator})
		return h.channel, err
	case "terminal":
		approver, closeTerminal, err := h.newTerminalApprover()
		if err != nil {
			return nil, err
		}
		h.closeTerminal = closeTerminal
		return untilEnd(ctx, approver), nil
	case "caller":
		return approval.Elicitation(), nil
	}
	return nil, nil
}

// isLoopback reports whether HTTP is served for this machine only, if at all.
func (o *serveOptions) isLoopback() bool {
	host, _, err := net.SplitHostPort(o.http)
	return err != nil || isLoopback(host) // newWebsite reports the error
}

// origins returns the origins of the approval page under the names of -host: with the port of the name, else with that of
// -http or the default port.
func (o *serveOptions) origins() []string {
	_, port, _ := net.SplitHostPort(o.http)
	var origins []string
	for _, host := range o.hosts {
		_, _, err := net.SplitHostPort(host)
		for _, scheme := range []string{"http://", "https://"} {
			origins = append(origins, scheme+host)
			if err != nil && port != "" && port != "0" {
				origins = append(origins, scheme+host+":"+port)
			}
		}
	}
	return origins
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
