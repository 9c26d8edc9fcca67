package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// An Audit logs one record for each call, including refused ones, and one for each decision of
// a policy. It is the outermost middleware of a server:
//
//	audit := &gateway.Audit{}
//	guard := policy.Guard(rules, &policy.GuardOptions{OnDecision: audit.OnDecision})
//	server.Options{Middleware: []mcp.Middleware{audit.Middleware}, Guards: []mcp.Guard{guard}}
//
// The record "call" has the attributes principal, method, server, tool (or the name or URI of a
// prompt or resource), exposed (the name that the caller used), outcome and duration. It has
// the size and the SHA-256 of the arguments, but neither the arguments nor the result. If a
// gateway lists tools in order to answer a refused call, the attribute for has the method of
// that call. The outcome is one of
//
//	ok, tool_error                   the tool returned a result, or its function an error
//	input_required                   the tool asks its caller for input
//	forbidden                        a guard, such as a policy, refuses the call
//	rejected, approval_timeout, no_approver, approver_lost, approval_failed,
//	approval_spent, approval_changed, too_many_approvals
//	                                 the codes of package approval
//	upstream_unavailable, upstream_lost, upstream_timeout, upstream_busy, upstream_malformed,
//	upstream_limit_exceeded
//	                                 the failures of package bridge
//	invalid_params, server_error     protocol errors, or invalid arguments
//	unknown_tool                     there is no such tool
//	unknown_server, launch_refused, conflict, start_failed, reset, closed, busy
//	                                 the codes of package toolserver
//	only_asked                       a request for approval only, which was approved
//	timeout, canceled, internal, panic
//
// Do not change an Audit while it is in use. The zero value is valid. For metrics, see module
// mcp/otelmcp.
type Audit struct {
	// Logger logs the records at level Info, except that successful polls of tasks (tasks/get) are at level Debug.
	// Default slog.Default().
	Logger *slog.Logger
	// Arguments makes the log contain the arguments, including secrets.
	Arguments bool
}

// Middleware is a [mcp.Middleware] that logs calls.
func (a *Audit) Middleware(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		begun, outcome := time.Now(), frontend.Panicked
		defer func() { a.record(ctx, call, outcome, err, time.Since(begun)) }()
		result, err = next(ctx, call)
		outcome, result, err = frontend.Outcome(ctx, call, result, err)
		return result, err
	}
}

func (a *Audit) record(ctx context.Context, call *mcp.Call, outcome string, err error, took time.Duration) {
	server, tool, exposed := subjectOf(call)
	arguments := call.Member("arguments")
	sum := sha256.Sum256(arguments)
	attrs := []slog.Attr{
		slog.String("principal", call.Caller.Principal), slog.String("method", frontend.Truncate(call.Method())),
		slog.String("server", frontend.Truncate(server)), slog.String("tool", frontend.Truncate(tool)), slog.String("exposed", frontend.Truncate(exposed)),
		slog.String("outcome", outcome), slog.Duration("duration", took),
		slog.Int("argumentsSize", len(arguments)), slog.String("argumentsDigest", hex.EncodeToString(sum[:])),
	}
	if id := call.ID(); id != "" {
		attrs = append(attrs, slog.String("call", id))
	}
	if reason := reasonOf(err); reason != "" {
		attrs = append(attrs, slog.String("reason", reason))
	}
	if method, ok := ctx.Value(listedForKey{}).(string); ok {
		attrs = append(attrs, slog.String("for", method))
	}
	if a.Arguments {
		attrs = append(attrs, slog.String("arguments", string(arguments)))
	}
	level := slog.LevelInfo
	if call.Method() == mcp.MethodTasksGet && outcome == frontend.OK { // clients poll for minutes
		level = slog.LevelDebug
	}
	a.logger().LogAttrs(ctx, level, "call", attrs...)
}

// listedForKey is the context key of the method for which a gateway lists tools.
type listedForKey struct{}

// OnDecision logs the decision about a call, for policy.GuardOptions.OnDecision.
func (a *Audit) OnDecision(ctx context.Context, call *mcp.Call, q *policy.Request, d policy.Decision) {
	server, tool, exposed := subjectOf(call)
	kind := mcp.KindResource
	if t := call.Target(); t != nil && call.URI() == "" {
		kind = t.Kind
	}
	a.logger().LogAttrs(ctx, slog.LevelInfo, "decision",
		slog.String("principal", q.Principal), slog.String("roles", frontend.Truncate(strings.Join(q.Roles, ","))), slog.String("method", frontend.Truncate(call.Method())),
		slog.String("kind", kind.String()), slog.String("server", frontend.Truncate(server)), slog.String("tool", frontend.Truncate(tool)),
		slog.String("exposed", frontend.Truncate(exposed)), slog.String("effect", d.Effect.String()),
		slog.String("rule", d.Rule), slog.String("reason", d.Reason))
}

func (a *Audit) logger() *slog.Logger { return cmp.Or(a.Logger, slog.Default()) }

// subjectOf returns the upstream server and name of the called entry, and the name that the
// caller used.
func subjectOf(call *mcp.Call) (server, name, exposed string) {
	if t := call.Target(); t != nil {
		server, name = t.Origin.Server, cmp.Or(call.URI(), t.Origin.Name, t.Name)
	}
	return server, name, mcp.Subject(call.Method(), call.Member)
}

// reasonOf returns a detail of an error, if its text comes from this module. The text of an
// upstream server might repeat arguments.
func reasonOf(err error) string {
	if denied, ok := errors.AsType[*policy.DeniedError](err); ok {
		return denied.Decision.Reason
	}
	if failed, ok := errors.AsType[*bridge.UpstreamError](err); ok {
		return failed.Delivery.String()
	}
	return ""
}
