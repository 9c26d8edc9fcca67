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
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// maxReason is the maximum length of an error text from a launched server, in bytes.
	maxReason = 1 << 10
	// minRedacted is the minimum length of a value that is redacted, in bytes.
	minRedacted = 4
)

// A launch describes a server that a caller wants to launch.
type launch struct {
	server *config.Resolved // hides the values of variables and headers
	text   string           // for approvers, with all values
	digest string           // of the complete description
}

func newLaunch(server *config.Resolved) *launch {
	return &launch{server, revealed(server).Launch(), server.Fingerprint()}
}

// revealed returns a copy of a server that hides nothing. A caller has chosen all values, and each of them may decide
// what runs: PYTHONPATH names code.
func revealed(server *config.Resolved) *config.Resolved {
	shown := *server
	shown.URL = asIs(server.URL.Reveal())
	shown.Env, shown.Headers = revealAll(server.Env), revealAll(server.Headers)
	return &shown
}

func revealAll(hidden map[string]config.Secret) map[string]config.Secret {
	shown := make(map[string]config.Secret, len(hidden))
	for name, value := range hidden {
		shown[name] = asIs(value.Reveal())
	}
	return shown
}

// open starts the server, opens a session and lists the tools once. tools has their names.
func (l *launch) open(ctx context.Context, o *Options) (session *client.Session, tools map[string]bool, err error) {
	var dial config.DialOptions
	if o.Dial != nil {
		dial = *o.Dial
	}
	dial.Logger = cmp.Or(dial.Logger, o.Logger)
	dial.Conn.CallTimeout = o.CallTimeout
	dialer, err := l.server.Dialer(&dial)
	if err != nil {
		return nil, nil, err
	}
	session, err = client.Connect(ctx, dialer, &client.Options{ConnectTimeout: o.ConnectTimeout, NoReconnect: true})
	if err != nil {
		return nil, nil, err
	}
	tools = make(map[string]bool)
	if session.Capabilities().Tools != nil {
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				return nil, nil, errors.Join(err, session.Close())
			}
			tools[tool.Name] = true
		}
	}
	return session, tools, nil
}

// failure returns the error of a failed start, for the caller.
func (l *launch) failure(ctx context.Context, err error) error {
	reason := err.Error()
	switch cause := context.Cause(ctx); {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(cause, context.DeadlineExceeded):
		reason = "it took too long"
	case cause != nil:
		return cause
	}
	if reason = l.redact(reason); len(reason) > maxReason {
		reason = reason[:maxReason] + "…"
	}
	message := "the server " + jsonscan.Quote(l.server.Alias) + " could not be started: " + approval.Printable(reason)
	if l.hasVariable() {
		message += " (variables such as ${NAME} in server_params are not expanded)"
	}
	return failure(codeStartFailed, message, err)
}

// redact replaces secrets in a text. It replaces the longest first, because one may contain
// another.
func (l *launch) redact(text string) string {
	secrets := []config.Secret{l.server.URL}
	secrets = slices.AppendSeq(secrets, maps.Values(l.server.Env))
	secrets = slices.AppendSeq(secrets, maps.Values(l.server.Headers))
	slices.SortFunc(secrets, func(a, b config.Secret) int { return cmp.Compare(len(b.Reveal()), len(a.Reveal())) })
	for _, secret := range secrets {
		if value := secret.Reveal(); len(value) >= minRedacted {
			text = strings.ReplaceAll(text, value, secret.String())
		}
	}
	return text
}

// hasVariable reports whether a value contains ${, which the caller may expect to be expanded.
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

// A verifiedTool is the definition of a tool, with the session that listed it.
type verifiedTool struct {
	session    *client.Session
	definition *mcp.Definition
}

// findTool finds the tool of a run.
func findTool(ctx context.Context, session *client.Session, r *run) (*verifiedTool, error) {
	if session.Capabilities().Tools == nil {
		return nil, errUnknownTool
	}
	var found *mcp.Tool
	for tool, err := range session.Tools(ctx, nil) {
		switch {
		case err != nil:
			return nil, upstreamError(ctx, r.server, err)
		case tool.Name != r.tool:
		case found != nil:
			return nil, fmt.Errorf("the server %q lists the tool %q twice", r.server, frontend.Truncate(r.tool))
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
	return &verifiedTool{session, mcp.NewDefinition(listed)}, nil
}
