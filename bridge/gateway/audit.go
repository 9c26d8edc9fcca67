package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// An Audit has one record of the log for each call, whoever refuses it, and one for each
// decision of a policy. As an interceptor it stands outermost:
//
//	audit := &gateway.Audit{Directory: tools, Counters: metrics}
//	enforcer := &gateway.Enforcer{Policy: rules, Locate: tools.Locate, Decided: audit.Decided}
//	around := []mcp.Middleware{audit.Intercept, enforcer.Intercept}
//
// The record of a call, "call", has who makes it (principal), method, server, tool (which of
// a prompt or resource is its name or URI), exposed (the name that the caller has used),
// outcome, duration, and of the arguments their length in bytes and SHA-256, but neither they
// nor what the tool has answered. A list that a face makes up an answer from, of which servers
// there are for a call that is refused, say, also has what it is made for (for). The outcome is
// one of
//
//	ok, tool_error                   what the tool has answered
//	input_required                   the call goes on when its caller has answered
//	forbidden                        the policy
//	rejected, approval_timeout, no_approver, approver_lost, approval_failed,
//	approval_spent, approval_changed, too_many_approvals
//	                                 as the kinds of package approval
//	upstream_unavailable, upstream_lost, upstream_timeout, upstream_busy, upstream_malformed
//	                                 as the failures of package bridge
//	invalid_params, server_error     errors of the protocol
//	unknown_server, unknown_tool, launch_refused, conflict, start_failed, reset, closed, busy
//	                                 as the kinds of a [RunKind]
//	only_asked                       the call could be made, and was not to be
//	timeout, canceled, internal, panic
//
// It counts, in [Counters]:
//
//	dovetail_calls_total{method,server,tool,outcome}
//	dovetail_call_seconds_total{method,server,tool}
//	dovetail_decisions_total{kind,effect}
//
// Server and tool are those that are in a list of the operator's, so that callers cannot make
// series by making up names; any other counts as "(unknown)", and whatever server a caller has
// launched as "(launched)".
//
// The zero value logs. Do not change an Audit while it is used.
type Audit struct {
	// Logger takes the records, at level Info. Default slog.Default().
	Logger *slog.Logger
	// Counters count calls and decisions. Default none.
	Counters Counters
	// Directory says whose something is. By default server is "", and all tools count as
	// "(unknown)".
	Directory *Directory
	// Arguments has the log take the arguments as they are, secrets included.
	Arguments bool
}

// Outcomes beside the kinds of failures.
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
			outcome = failureOf(err).kind
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
	kind, exposed := subjectOf(call)
	target, server, tool := a.locate(ctx, kind, exposed)
	arguments := call.Member("arguments")
	sum := sha256.Sum256(arguments)
	attrs := []slog.Attr{
		slog.String("principal", call.Caller.Principal), slog.String("method", cut(call.Method())),
		slog.String("server", cut(target.Origin.Server)), slog.String("tool", cut(target.Origin.Name)), slog.String("exposed", cut(exposed)),
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
	labels := []Label{{"method", methodLabel(call.Method())}, {"server", cut(server)}, {"tool", cut(tool)}}
	a.Counters.Add("dovetail_call_seconds_total", took.Seconds(), labels...)
	a.Counters.Add("dovetail_calls_total", 1, append(labels, Label{"outcome", outcome})...)
}

// madeFor is the key of the method of the call that a list is made to answer.
type madeFor struct{}

// Decided records a decision, for [Enforcer].Decided.
func (a *Audit) Decided(ctx context.Context, call *mcp.Call, q *policy.Request, d policy.Decision) {
	a.logger().LogAttrs(ctx, slog.LevelInfo, "decision",
		slog.String("principal", q.Principal), slog.String("role", q.Role), slog.String("method", cut(call.Method())),
		slog.String("kind", q.Target.Kind.String()), slog.String("server", cut(q.Target.Origin.Server)), slog.String("tool", cut(q.Target.Origin.Name)),
		slog.String("exposed", cut(q.Target.Name)), slog.String("effect", d.Effect.String()),
		slog.String("rule", d.Rule), slog.String("reason", d.Reason))
	if a.Counters != nil {
		a.Counters.Add("dovetail_decisions_total", 1, Label{"kind", q.Target.Kind.String()}, Label{"effect", d.Effect.String()})
	}
}

func (a *Audit) logger() *slog.Logger { return cmp.Or(a.Logger, slog.Default()) }

// locate says whose something is, and what counters are told of that.
func (a *Audit) locate(ctx context.Context, kind mcp.Kind, exposed string) (target mcp.Target, server, tool string) {
	if exposed == "" {
		return target, "", ""
	}
	if a.Directory == nil {
		return mcp.Target{Name: exposed, Origin: mcp.Origin{Name: exposed}}, unknownName, unknownName
	}
	target, err := a.Directory.Locate(ctx, kind, exposed)
	switch r := runOf(ctx); {
	case err != nil:
		return target, unknownName, unknownName
	case r != nil && r.launch != nil:
		return target, launchedName, unknownName
	case !a.Directory.lists(kind, exposed):
		return target, target.Origin.Server, unknownName
	default:
		return target, target.Origin.Server, target.Origin.Name
	}
}

// reasonOf is what an error says beyond its outcome, as far as it is in words of this module:
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
