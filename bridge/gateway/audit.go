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
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// An Audit logs one record for each call, also for those that are refused, and one for each
// decision of a policy. It is the outermost middleware of a server:
//
//	audit := &gateway.Audit{Counters: metrics}
//	guard := policy.Guard(rules, &policy.GuardOptions{Decided: audit.Decided})
//	server.Options{Middleware: []mcp.Middleware{audit.Intercept}, Guards: []mcp.Guard{guard}}
//
// The record of a call, "call", has the principal, the method, the server and the tool that
// the call is for (of a prompt or resource its name or URI), exposed (the name that the caller
// has used), outcome and duration. It has the length in bytes and the SHA-256 of the
// arguments, but neither the arguments nor the result. A list that a gateway reads for an
// answer, such as which servers the caller of a refused call may know, has the method of the
// call (for). The outcome is one of
//
//	ok, tool_error                   what the tool has answered
//	input_required                   the call goes on when its caller has answered
//	forbidden                        a guard, such as a policy, refuses the call
//	rejected, approval_timeout, no_approver, approver_lost, approval_failed,
//	approval_spent, approval_changed, too_many_approvals
//	                                 as the kinds of package approval
//	upstream_unavailable, upstream_lost, upstream_timeout, upstream_busy, upstream_malformed
//	                                 as the failures of package bridge
//	invalid_params, server_error     errors of the protocol
//	unknown_tool                     there is no such tool
//	unknown_server, launch_refused, conflict, start_failed, reset, closed, busy
//	                                 as the kinds of package toolserver
//	only_asked                       only approval was asked for, and given
//	timeout, canceled, internal, panic
//
// It counts, in [Counters]:
//
//	dovetail_calls_total{method,server,tool,outcome}
//	dovetail_call_seconds_total{method,server,tool}
//	dovetail_decisions_total{kind,effect}
//
// Server and tool are labels for tools and prompts that are in a list, so that callers cannot
// make series by making up names. Any other tool counts as "(unknown)", and any server that a
// caller has launched as "(launched)".
//
// The zero value logs. Do not change an Audit while it is used.
type Audit struct {
	// Logger takes the records, at level Info. Default slog.Default().
	Logger *slog.Logger
	// Counters count calls and decisions. Default none.
	Counters Counters
	// Arguments has the log take the arguments as they are, secrets included.
	Arguments bool
}

// Outcomes that are not kinds of failures.
const (
	outcomeOK        = "ok"
	outcomeToolError = "tool_error"
	outcomePanic     = "panic"

	// unknownName is a label in place of names that anybody could make up, and launchedName
	// one in place of those of servers that callers have launched.
	unknownName, launchedName = "(unknown)", "(launched)"
)

// Intercept is a [mcp.Middleware].
func (a *Audit) Intercept(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		begun, outcome := time.Now(), outcomePanic
		defer func() { a.record(ctx, call, outcome, err, time.Since(begun)) }()
		result, err = next(ctx, call)
		switch {
		case err != nil:
			outcome = frontend.CallFailureOf(call, err).Kind
		case call.Method() == mcp.MethodToolsCall:
			outcome, result, err = toolOutcome(result)
		default:
			outcome = outcomeOK
		}
		return result, err
	}
}

// toolOutcome looks whether a tool says that it has failed. The result that it returns is
// the same, encoded if it was not.
func toolOutcome(result mcp.Result) (outcome string, same mcp.Result, err error) {
	raw, ok := result.(mcp.Raw)
	if !ok && result != nil {
		encoded, err := result.AppendJSON(nil)
		if err != nil {
			return "internal", nil, err
		}
		raw, result = encoded, mcp.Raw(encoded)
	}
	if members, err := jsonscan.ReadObject(raw); err == nil && string(members.Get("isError")) == "true" {
		return outcomeToolError, result, nil
	}
	return outcomeOK, result, nil
}

func (a *Audit) record(ctx context.Context, call *mcp.Call, outcome string, err error, took time.Duration) {
	server, tool, exposed := subjectOf(call)
	arguments := call.Member("arguments")
	sum := sha256.Sum256(arguments)
	attrs := []slog.Attr{
		slog.String("principal", call.Caller.Principal), slog.String("method", frontend.Cut(call.Method())),
		slog.String("server", frontend.Cut(server)), slog.String("tool", frontend.Cut(tool)), slog.String("exposed", frontend.Cut(exposed)),
		slog.String("outcome", outcome), slog.Duration("duration", took),
		slog.Int("argumentsSize", len(arguments)), slog.String("argumentsDigest", hex.EncodeToString(sum[:])),
	}
	if id := call.ID(); id != "" {
		attrs = append(attrs, slog.String("call", id))
	}
	if reason := reasonOf(err); reason != "" {
		attrs = append(attrs, slog.String("reason", reason))
	}
	if method, ok := ctx.Value(madeFor{}).(string); ok {
		attrs = append(attrs, slog.String("for", method))
	}
	if a.Arguments {
		attrs = append(attrs, slog.String("arguments", string(arguments)))
	}
	a.logger().LogAttrs(ctx, slog.LevelInfo, "call", attrs...)
	if a.Counters == nil {
		return
	}
	server, tool = labelsOf(call, exposed)
	labels := []Label{{"method", methodLabel(call.Method())}, {"server", frontend.Cut(server)}, {"tool", frontend.Cut(tool)}}
	a.Counters.Add("dovetail_call_seconds_total", took.Seconds(), labels...)
	a.Counters.Add("dovetail_calls_total", 1, append(labels, Label{"outcome", outcome})...)
}

// madeFor is the key of the method of the call that a list is made to answer.
type madeFor struct{}

// Decided records the decision about a call, for policy.GuardOptions.Decided.
func (a *Audit) Decided(ctx context.Context, call *mcp.Call, q *policy.Request, d policy.Decision) {
	server, tool, exposed := subjectOf(call)
	kind := mcp.KindResource
	if t := call.Target(); t != nil && call.URI() == "" {
		kind = t.Kind
	}
	a.logger().LogAttrs(ctx, slog.LevelInfo, "decision",
		slog.String("principal", q.Principal), slog.String("role", q.Role), slog.String("method", frontend.Cut(call.Method())),
		slog.String("kind", kind.String()), slog.String("server", frontend.Cut(server)), slog.String("tool", frontend.Cut(tool)),
		slog.String("exposed", frontend.Cut(exposed)), slog.String("effect", d.Effect.String()),
		slog.String("rule", d.Rule), slog.String("reason", d.Reason))
	if a.Counters != nil {
		a.Counters.Add("dovetail_decisions_total", 1, Label{"kind", kind.String()}, Label{"effect", d.Effect.String()})
	}
}

func (a *Audit) logger() *slog.Logger { return cmp.Or(a.Logger, slog.Default()) }

// subjectOf returns what a call is for, as its server and as its caller name it.
func subjectOf(call *mcp.Call) (server, name, exposed string) {
	t := call.Target()
	if t != nil {
		server, name = t.Origin.Server, cmp.Or(call.URI(), t.Origin.Name, t.Name)
	}
	for _, path := range [][]string{{"name"}, {"uri"}, {"ref", "name"}, {"ref", "uri"}} {
		if raw := call.Member(path...); jsonscan.KindOf(raw) == jsonscan.String {
			return server, name, jsonscan.Unquote(raw)
		}
	}
	return server, name, ""
}

// labelsOf returns the server and the tool that counters have for a call.
func labelsOf(call *mcp.Call, exposed string) (server, tool string) {
	t := call.Target()
	switch {
	case t == nil && exposed == "":
		return "", ""
	case t == nil:
		return unknownName, unknownName
	case strings.HasPrefix(t.Origin.Server, frontend.Launched):
		return launchedName, unknownName
	case t.Definition == nil || t.Kind != mcp.KindTool && t.Kind != mcp.KindPrompt:
		return t.Origin.Server, unknownName
	default:
		return t.Origin.Server, cmp.Or(t.Origin.Name, t.Name)
	}
}

// reasonOf returns what an error says beyond its outcome, if the words are this module's:
// those of a server may repeat arguments.
func reasonOf(err error) string {
	if denied, ok := errors.AsType[*policy.DeniedError](err); ok {
		return denied.Decision.Reason
	}
	if failed, ok := errors.AsType[*bridge.UpstreamError](err); ok {
		return failed.Delivery.String()
	}
	return ""
}

// methodLabel is a method's name if there are not too many of it.
func methodLabel(method string) string {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodToolsList, mcp.MethodPromptsGet, mcp.MethodPromptsList,
		mcp.MethodResourcesRead, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList,
		mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodComplete, mcp.MethodPing:
		return method
	default:
		return unknownName
	}
}
