package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport/store"
)

// defaultExpiry is the default of [Options].Expiry.
const defaultExpiry = 5 * time.Minute

const (
	defaultMaxOpen      = 512 // about half of the default of server.Options.MaxTasks, since a task that waits for an approver counts as running
	defaultMaxPerCaller = 32
)

// noExpiry is the time to the deadline of requests without a limit.
const noExpiry = 10 * 365 * 24 * time.Hour

// maxPause is how long a call that has asked its caller waits for the next run, in addition to
// Options.Expiry. The state that a client carries is valid for this time.
const maxPause = time.Hour

// maxRemember is the maximum of Options.Remember.
const maxRemember = 365 * 24 * time.Hour

// Options configure a [Guard]. The zero value is valid.
type Options struct {
	policy.GuardOptions

	// Expiry is how long a request waits for its answer, and how long a call that has asked
	// its caller for input waits for that. Default 5 minutes. A negative value means no
	// limit: the deadline is ten years away, and a call that has asked its caller waits for at
	// most an hour, since the protocol does not keep its state longer.
	Expiry time.Duration
	// Remember allows an approver to remember a yes, and is the longest time for that; see
	// [Answer].Remember. A remembered yes is also valid for calls of the same tool with the same
	// definition, the same bytes of arguments and the same caller, for which the same rule of the
	// policy asks for the same reason. All unauthenticated callers count as one. It is truncated to
	// milliseconds, and more than a year counts as a year. A no to an equal call ends it. Default 0, also for negative values: the approver
	// decides about every call.
	Remember time.Duration
	// MaxOpen is the maximum number of open requests; a request is open until its call ends, also while
	// the call waits for its caller. Default 512.
	MaxOpen int
	// MaxPerCaller is the maximum number of open requests of one caller. Default 32.
	MaxPerCaller int
	// Store keeps the approvals of calls that have asked their caller for input, and the requests of
	// calls that wait as tasks, so that any replica with the same store can continue such a call,
	// once. It also keeps remembered approvals, which are valid at all replicas with the same Name.
	// It contains neither arguments nor names. While it cannot be reached, calls that must be kept
	// fail with [Failed], and nothing is remembered: the approver is asked.
	// A program that can write to the store can approve calls. Default a store in memory that only this
	// guard uses: the process that has asked continues the call, and remembers.
	Store store.Store
	// Journal records the events of requests. Each replica has its own. Default none.
	Journal Journal
	// Replica names this process in the entries of the journal, such as its host name. Default
	// "".
	Replica string
	// OnAsk is called when the approver is asked, with the context of the call. It returns a function for the answer, or nil. The
	// error of the answer is an *[mcp.InputRequired] if the caller must be asked; then OnAsk is called again for the same request.
	// A request whose approval is remembered has its answer at once, with [Answer].Given. A panic refuses the call. OnAsk is called
	// concurrently.
	OnAsk func(ctx context.Context, r *Request) (answered func(a Answer, err error))
	// RecordArguments makes the journal record the arguments, including secrets. By default
	// it records their digest.
	RecordArguments bool
	// Name is the name of the guard. Guards of the same call must have different names.
	// Default "approval".
	Name string
	// Logger logs the events of requests, without arguments. Default slog.Default().
	Logger *slog.Logger
}

// Guard returns a guard that enforces a policy as [policy.Guard] does, except that approver
// decides about tool calls for which the policy says ask. Such a call is made if the answer is
// yes and the tool has not changed, and such a tool is listed. Only tool calls can be
// approved: for entries of other kinds, ask means deny.
//
// If the client supports tasks, a call for which a person must be asked continues as a task (SEP-2663):
// the client gets the id of the task immediately, and the result after the answer. This does not hold for
// [Elicitation], nor for an approval that is remembered. The request is made when the task runs. A server
// with Options.Store needs Options.Store of the guard too: otherwise a task whose replica ends fails.
//
// The policy decides in every run of a call, the approver once. A call that the policy denies
// is refused with a *[policy.DeniedError], a call that is not approved with an *[Error]. A nil
// p denies everything. A nil approver refuses every request with [NoApprover]. opts may be
// nil.
func Guard(p *policy.Compiled, approver Approver, opts *Options) mcp.Guard {
	o := *cmp.Or(opts, new(Options))
	if o.Expiry = cmp.Or(o.Expiry, defaultExpiry); o.Expiry < 0 {
		o.Expiry = noExpiry
	}
	o.Remember = min(max(0, o.Remember-o.Remember%time.Millisecond), maxRemember)
	o.MaxOpen = cmp.Or(o.MaxOpen, defaultMaxOpen)
	o.MaxPerCaller = cmp.Or(o.MaxPerCaller, defaultMaxPerCaller)
	o.Name = cmp.Or(o.Name, "approval")
	o.Logger = cmp.Or(o.Logger, slog.Default())
	g := &guard{policy: p, approver: approver, opts: o, grants: newGrants(&o), key: "io.dovetail/" + o.Name, shared: o.Store != nil}
	if !g.shared {
		memory, err := store.NewMemory(nil)
		if err != nil {
			panic(err) // the defaults are valid
		}
		g.opts.Store = memory
	}
	g.paused = state.NewRecords[pausedGrant](g.opts.Store, nil)
	g.remembered = state.NewRecords[rememberedApproval](g.opts.Store, nil)
	return mcp.Guard{Name: o.Name, Visible: g.visible, Check: g.check, Run: g.wrap, Waits: waits(approver)}
}

type guard struct {
	policy   *policy.Compiled
	approver Approver
	opts     Options
	grants   *grants
	key      string // prefix of the keys under which calls store resume tokens
	shared   bool   // requests of tasks are stored, since other replicas have Options.Store too

	paused     state.Records[pausedGrant]
	remembered state.Records[rememberedApproval]
}

// visible reports whether a caller sees an entry in lists.
func (g *guard) visible(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
	d := g.policy.DecideListed(ctx, caller, target, &g.opts.GuardOptions)
	return d.Effect == policy.Allow || d.Effect == policy.Ask && target.Kind == mcp.KindTool
}

// checked is the result of check, stored in the call.
type checked struct {
	call     *mcp.Call
	decision policy.Decision
}

// check evaluates the policy, and stores the decision for run.
func (g *guard) check(ctx context.Context, call *mcp.Call) error {
	d, err := g.policy.DecideCall(ctx, call, &g.opts.GuardOptions)
	switch {
	case d.Effect == policy.Ask && call.Method() != mcp.MethodToolsCall:
		return g.refuse(&Target{Tool: call.Method()}, NoApprover, Errorf(NoApprover, "only tool calls can be approved"))
	case d.Effect != policy.Ask && err != nil:
		return err
	}
	call.Set(g, &checked{call, d})
	return nil
}

// wrap wraps the function of an entry. If a middleware has changed the call after check, it is
// checked again.
func (g *guard) wrap(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		decided, _ := call.Get(g).(*checked)
		if decided == nil || decided.call != call {
			if err := g.check(ctx, call); err != nil {
				return nil, err
			}
			decided = call.Get(g).(*checked)
		}
		if decided.decision.Effect != policy.Ask {
			return next(ctx, call)
		}
		return g.runApproved(ctx, call, decided.decision, next)
	}
}

// runApproved makes a call if it is approved. It works on a copy of the params: later changes
// to the original have no effect.
func (g *guard) runApproved(ctx context.Context, call *mcp.Call, d policy.Decision, next mcp.Handler) (result mcp.Result, err error) {
	own, err := call.WithParams(bytes.Clone(call.Params()))
	if err != nil {
		return nil, err
	}
	t := own.Target()
	target := Target{
		Server: t.Origin.Server, Launch: t.Origin.Launch, Tool: cmp.Or(t.Origin.Name, t.Name), ToolDigest: t.Definition.Digest(),
	}
	if err := g.becomeTask(ctx, own, target, d); err != nil {
		return nil, err
	}
	grant, err := g.openGrant(ctx, own, target, d)
	if err != nil {
		refused := g.refuse(&target, codeOf(err, Failed), err)
		if _, refused.mayBeCalled = own.Load(g.tokenKey(target)); refused.mayBeCalled {
			task.OutcomeLost(ctx)
		}
		return nil, refused
	}
	own.OnDone(func() { g.callDone(ctx, grant) })
	r := &run{guard: g, grant: grant, call: own}
	returned := false
	defer func() {
		if refused := r.finish(ctx, !returned, err); refused != nil {
			result, err = nil, refused
		}
	}()
	result, err = r.invoke(ctx, next)
	returned = true
	return result, err
}

// tokenKey returns the key under which a call of a tool stores its resume token.
func (g *guard) tokenKey(t Target) string { return g.key + "/" + nameOf(t.Server, t.Tool) }

// taskTTL is how long the result of a call that waited for approval is kept after the deadline.
const taskTTL = 24 * time.Hour

// becomeTask returns the error of a call that continues as a task, since a person must be asked. No request
// has been made then: the task makes it.
func (g *guard) becomeTask(ctx context.Context, call *mcp.Call, target Target, d policy.Decision) error {
	if !waits(g.approver) {
		return nil
	}
	err := call.BecomeTask(mcp.TaskRequest{TTL: min(g.opts.Expiry, 364*24*time.Hour) + taskTTL})
	if err == nil {
		return nil
	}
	if _, begun := call.Load(g.tokenKey(target)); begun {
		return nil
	}
	if g.recall(ctx, g.newRequest(target, call, d)) != nil {
		return nil
	}
	return err
}

// openGrant returns the grant of an earlier run of the call, or opens a new one.
func (g *guard) openGrant(ctx context.Context, call *mcp.Call, target Target, d policy.Decision) (*grant, error) {
	request := g.newRequest(target, call, d)
	// The tool is part of the id: a tool that calls another one gets a request for each.
	id := callID{call.ID(), target.Server, target.Tool}
	key := g.tokenKey(target)
	if stored, ok := call.Load(key); ok {
		var token resumeToken
		if err := json.Unmarshal(stored, &token); err != nil {
			return nil, err
		}
		return g.takeGrant(ctx, request, id, key, token)
	}
	if err := checkArguments(request.Arguments); err != nil {
		return nil, Errorf(Failed, "%v", err)
	}
	if id.call == "" { // a call without an id cannot ask its caller, so it has one run
		id.call = request.ID
	}
	opened := &grant{request: request, digest: request.Digest(), id: id, key: key}
	if err := g.beginGrant(ctx, opened); err != nil {
		return nil, err
	}
	if err := g.appendEntry(time.Now(), opened, eventAsked, Answer{}); err != nil {
		g.grants.end(opened)
		return nil, err
	}
	return opened, nil
}

// appendEntry writes an event to the journal and the log.
func (g *guard) appendEntry(now time.Time, grant *grant, event string, a Answer) error {
	r := grant.request
	log := g.opts.Logger.With("request", r.ID, "server", r.Server, "tool", r.Tool, "caller", r.Caller)
	about := []any{"by", a.By, "reason", a.Reason}
	if !a.Given.IsZero() {
		about = append(about, "given", a.Given, "rememberedFrom", grant.remembered)
	}
	log.Info("approval "+event, about...)
	if g.opts.Journal == nil {
		return nil
	}
	e := Entry{
		Time: now, Event: event, ID: r.ID, Digest: grant.digest,
		Replica: g.opts.Replica, By: peertext.Cut(a.By, maxReason), Reason: peertext.Cut(a.Reason, maxReason),
	}
	if event == eventApproved {
		e.RememberedFrom, e.Given = grant.remembered, a.Given
		if a.Remember > 0 {
			e.RememberedUntil = now.Add(a.Remember)
		}
	}
	if event == eventAsked || event == eventResumed {
		e.Server, e.Launch, e.Tool, e.ToolDigest = r.Server, r.Launch, r.Tool, r.ToolDigest
		e.Caller, e.Script, e.Deadline, e.ArgumentsDigest = r.Caller, r.Script, r.Deadline, r.ArgumentsDigest()
		if g.opts.RecordArguments {
			e.Arguments = string(r.Arguments)
		}
	}
	err := safely("writing the journal", func() error { return g.opts.Journal.Append(e) })
	if err != nil {
		log.Error("writing the approval journal failed", "event", event, "error", err)
	}
	return err
}

// refuse logs and returns the error of a call that is not made.
func (g *guard) refuse(t *Target, code Code, err error) *Error {
	g.opts.Logger.Info("the call was refused", "server", t.Server, "tool", t.Tool, "code", string(code), "error", err)
	return g.newError(t, code, err)
}
