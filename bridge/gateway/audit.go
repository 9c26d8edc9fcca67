package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// An Audit logs one record for each call, including refused ones, and one for each decision of
// a policy. It is the outermost middleware of a server:
//
//	audit := &gateway.Audit{Counters: metrics}
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
// It adds to these [Counters]:
//
//	dovetail_calls_total{method,server,tool,outcome}
//	dovetail_call_seconds_total{method,server,tool}
//	dovetail_decisions_total{kind,effect}
//
// Only listed tools and prompts have labels of their own, so that callers cannot create series
// by inventing names. Any other tool has the label "(unknown)", and any server that a caller
// has launched the label "(launched)".
//
// The zero value logs only. Do not change an Audit while it is in use.
type Audit struct {
	// Logger logs the records at level Info. Default slog.Default().
	Logger *slog.Logger
	// Counters counts calls and decisions. Default none.
	Counters Counters
	// Arguments makes the log contain the arguments, including secrets.
	Arguments bool
}

// Outcomes that are not codes of failures.
const (
	outcomeOK        = "ok"
	outcomeToolError = "tool_error"
	outcomePanic     = "panic"

	// unknownName replaces names that callers can invent, and launchedName the names of
	// launched servers.
	unknownName, launchedName = "(unknown)", "(launched)"
)

// Middleware is a [mcp.Middleware] that logs and counts calls.
func (a *Audit) Middleware(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		begun, outcome := time.Now(), outcomePanic
		defer func() { a.record(ctx, call, outcome, err, time.Since(begun)) }()
		result, err = next(ctx, call)
		switch {
		case err != nil:
			outcome = frontend.CallFailureOf(call, err).Code
			failed, ok := errors.AsType[*server.FunctionError](err)
			switch {
			case !ok || outcome != frontend.Internal || call.Method() != mcp.MethodToolsCall:
			case failed.Arguments:
				outcome = frontend.BadParams
			default:
				outcome = outcomeToolError
			}
		case call.Method() == mcp.MethodToolsCall:
			outcome, result, err = toolOutcome(result)
		default:
			outcome = outcomeOK
		}
		return result, err
	}
}

// toolOutcome returns the outcome of a result. It also returns the result, which it encodes if
// necessary.
func toolOutcome(result mcp.Result) (outcome string, same mcp.Result, err error) {
	if _, continues := result.(*mcp.Task); continues {
		return outcomeOK, result, nil
	}
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
	a.logger().LogAttrs(ctx, slog.LevelInfo, "call", attrs...)
	if a.Counters == nil {
		return
	}
	server, tool = labelsOf(call, exposed)
	labels := []Label{{"method", methodLabel(call.Method())}, {"server", frontend.Truncate(server)}, {"tool", frontend.Truncate(tool)}}
	a.Counters.Add("dovetail_call_seconds_total", took.Seconds(), labels...)
	a.Counters.Add("dovetail_calls_total", 1, append(labels, Label{"outcome", outcome})...)
}

// listedForKey is the context key of the method for which a gateway lists tools.
type listedForKey struct{}

// OnDecision logs and counts the decision about a call, for policy.GuardOptions.OnDecision.
func (a *Audit) OnDecision(ctx context.Context, call *mcp.Call, q *policy.Request, d policy.Decision) {
	server, tool, exposed := subjectOf(call)
	kind := mcp.KindResource
	if t := call.Target(); t != nil && call.URI() == "" {
		kind = t.Kind
	}
	a.logger().LogAttrs(ctx, slog.LevelInfo, "decision",
		slog.String("principal", q.Principal), slog.String("role", q.Role), slog.String("method", frontend.Truncate(call.Method())),
		slog.String("kind", kind.String()), slog.String("server", frontend.Truncate(server)), slog.String("tool", frontend.Truncate(tool)),
		slog.String("exposed", frontend.Truncate(exposed)), slog.String("effect", d.Effect.String()),
		slog.String("rule", d.Rule), slog.String("reason", d.Reason))
	if a.Counters != nil {
		a.Counters.Add("dovetail_decisions_total", 1, Label{"kind", kind.String()}, Label{"effect", d.Effect.String()})
	}
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

// labelsOf returns the labels server and tool of a call.
func labelsOf(call *mcp.Call, exposed string) (server, tool string) {
	t := call.Target()
	switch {
	case t == nil && exposed == "":
		return "", ""
	case t == nil:
		return unknownName, unknownName
	case strings.HasPrefix(t.Origin.Server, frontend.LaunchedPrefix):
		return launchedName, unknownName
	case t.Definition == nil || t.Kind != mcp.KindTool && t.Kind != mcp.KindPrompt:
		return t.Origin.Server, unknownName
	default:
		return t.Origin.Server, cmp.Or(t.Origin.Name, t.Name)
	}
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

// methodLabel returns the label of a method. Unknown methods share one label.
func methodLabel(method string) string {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodToolsList, mcp.MethodPromptsGet, mcp.MethodPromptsList,
		mcp.MethodResourcesRead, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList,
		mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodComplete, mcp.MethodPing,
		mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodDirectoryRead,
		mcp.MethodEventsList, mcp.MethodEventsPoll, mcp.MethodEventsStream, mcp.MethodEventsSubscribe, mcp.MethodEventsUnsubscribe:
		return method
	default:
		return unknownName
	}
}

// maxSeries is the maximum number of series in [Metrics].
const maxSeries = 10_000

// Counters are sums by name and labels. Add adds n, which is not negative; a new counter is 0.
// It is called concurrently on the goroutines of calls, and must not block.
type Counters interface {
	Add(name string, n float64, labels ...Label)
}

// A Label is a label of a counter.
type Label struct{ Name, Value string }

// Metrics stores counters in memory, and serves them to Prometheus
// (https://prometheus.io/docs/instrumenting/exposition_formats, text format 0.0.4). It has no
// access control: wrap it with an [Authenticator]. It stores at most 10,000 series; additions
// to others are counted in dovetail_metrics_dropped_total. The zero value is empty, and may be
// used concurrently.
type Metrics struct {
	mu      sync.Mutex
	series  map[string]*series // by name and labels, as formatted
	dropped float64
}

type series struct {
	name  string
	value float64
}

// Add adds to a counter.
func (m *Metrics) Add(name string, n float64, labels ...Label) {
	var buffer [256]byte
	key := append(buffer[:0], name...)
	for i, label := range labels {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		key = append(append(append(key, separator), label.Name...), `="`...)
		key = append(appendLabel(key, label.Value), '"')
	}
	if len(labels) > 0 {
		key = append(key, '}')
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.series[string(key)]
	switch {
	case s != nil:
	case len(m.series) >= maxSeries:
		m.dropped++
		return
	default:
		if m.series == nil {
			m.series = make(map[string]*series)
		}
		s = &series{name: name}
		m.series[string(key)] = s
	}
	s.value += n
}

// appendLabel appends the value of a label with the escapes of the text format.
func appendLabel(dst []byte, value string) []byte {
	for _, c := range []byte(strings.ToValidUTF8(value, "\uFFFD")) {
		switch c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// ServeHTTP writes all counters, sorted by name.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	frontend.Write(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", m.text())
}

func (m *Metrics) text() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := make(map[string][]byte) // by name of the counter
	for _, key := range slices.Sorted(maps.Keys(m.series)) {
		s := m.series[key]
		lines[s.name] = appendSample(lines[s.name], key, s.value)
	}
	if m.dropped > 0 {
		const name = "dovetail_metrics_dropped_total"
		lines[name] = appendSample(nil, name, m.dropped)
	}
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		out = append(append(append(out, "# TYPE "...), name...), " counter\n"...)
		out = append(out, lines[name]...)
	}
	return out
}

func appendSample(dst []byte, key string, value float64) []byte {
	dst = append(append(dst, key...), ' ')
	return append(strconv.AppendFloat(dst, value, 'g', -1, 64), '\n')
}
