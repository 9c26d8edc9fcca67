package toolserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// maxReason is how many bytes of what has gone wrong callers are told.
	maxReason = 1 << 10
	// minScrubbed is how many bytes a value has at least that is kept out of what they are told.
	minScrubbed = 4
)

// A launch is how a server is launched that a caller has described.
type launch struct {
	server *config.Resolved
	text   string // for approvers
	digest string // of all of it
}

func newLaunch(server *config.Resolved) *launch {
	return &launch{server, server.Launch(), server.Fingerprint()}
}

// open starts the server, opens a session and lists the tools once.
func (l *launch) open(ctx context.Context, o *Options) (*client.Session, error) {
	var dial config.DialOptions
	if o.Dial != nil {
		dial = *o.Dial
	}
	dial.Logger = cmp.Or(dial.Logger, o.Logger)
	dial.Conn.CallTimeout = o.CallTimeout
	dialer, err := l.server.Dialer(&dial)
	if err != nil {
		return nil, err
	}
	session, err := client.Connect(ctx, dialer, &client.Options{ConnectTimeout: o.ConnectTimeout, MaxReconnects: -1})
	if err != nil {
		return nil, err
	}
	if session.Capabilities().Tools != nil {
		for _, err := range session.Tools(ctx) {
			if err != nil {
				return nil, errors.Join(err, session.Close())
			}
		}
	}
	return session, nil
}

// failure is why the server could not be started, for its caller.
func (l *launch) failure(ctx context.Context, err error) error {
	reason := err.Error()
	switch cause := context.Cause(ctx); {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(cause, context.DeadlineExceeded):
		reason = "it took too long"
	case cause != nil:
		return cause
	}
	if reason = l.scrub(reason); len(reason) > maxReason {
		reason = reason[:maxReason] + "…"
	}
	message := "the server " + jsonscan.Quote(l.server.Alias) + " could not be started: " + approval.Printable(reason)
	if l.hasVariable() {
		message += " (what stands in ${} in server_params is not replaced)"
	}
	return failure(NotStarted, message, err)
}

// scrub takes what may be secret out of a text, the longest first: one may be a part of another.
func (l *launch) scrub(text string) string {
	secrets := []config.Secret{l.server.URL}
	secrets = slices.AppendSeq(secrets, maps.Values(l.server.Env))
	secrets = slices.AppendSeq(secrets, maps.Values(l.server.Headers))
	slices.SortFunc(secrets, func(a, b config.Secret) int { return cmp.Compare(len(b.Reveal()), len(a.Reveal())) })
	for _, secret := range secrets {
		if value := secret.Reveal(); len(value) >= minScrubbed {
			text = strings.ReplaceAll(text, value, secret.String())
		}
	}
	return text
}

// hasVariable says whether the caller may have expected something to be replaced.
func (l *launch) hasVariable() bool {
	all := append([]config.Secret{l.server.Command, l.server.Dir, l.server.URL}, l.server.Args...)
	for _, values := range []map[string]config.Secret{l.server.Env, l.server.Headers} {
		for _, value := range values {
			all = append(all, value)
		}
	}
	for _, secret := range all {
		if strings.Contains(secret.Reveal(), "${") {
			return true
		}
	}
	return false
}

// A definition is that of a tool, and the session that it was found by.
type definition struct {
	session    *client.Session
	definition *mcp.Definition
}

// define finds the tool of a run.
func define(ctx context.Context, session *client.Session, r *run) (*definition, error) {
	if session.Capabilities().Tools == nil {
		return nil, errUnknownTool
	}
	var found *mcp.Tool
	for tool, err := range session.Tools(ctx) {
		switch {
		case err != nil:
			return nil, upstreamError(ctx, r.server, err)
		case tool.Name != r.tool:
		case found != nil:
			return nil, fmt.Errorf("the server %q lists the tool %q twice", r.server, frontend.Cut(r.tool))
		default:
			found = tool
		}
	}
	if found == nil {
		return nil, errUnknownTool
	}
	listed, err := found.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return &definition{session, mcp.NewDefinition(listed)}, nil
}
