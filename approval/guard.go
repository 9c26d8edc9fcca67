package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// Guard returns a guard that enforces a policy as [policy.Guard] does, and has approver
// decide about the tool calls that the policy asks about: such a call is made if the answer
// is yes, and the tool is still what it was. Tools that are asked about are listed. Entries
// of other kinds cannot be approved: where the policy asks about them they are in no list,
// and calls of them are refused.
//
// The policy decides in every run of a call, the approver once. A call that the policy
// denies is refused with a *[policy.DeniedError], one that is not approved with an
// *[Error]. A nil p refuses everything. Without an approver nobody can be asked. opts may be
// nil.
func Guard(p *policy.Compiled, approver Approver, opts *Options) mcp.Guard {
	o := opts.withDefaults()
	g := &guard{policy: p, approver: approver, opts: o, grants: newGrants(&o), key: "io.dovetail/" + o.Name}
	return mcp.Guard{Name: o.Name, Visible: g.visible, Check: g.check, Run: g.run}
}

type guard struct {
	policy   *policy.Compiled
	approver Approver
	opts     Options
	grants   *grants
	key      string // begins those of the marks that a call keeps
}

// visible reports whether a caller sees an entry in lists.
func (g *guard) visible(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
	d := g.policy.DecideListed(ctx, caller, target, &g.opts.GuardOptions)
	return d.Effect == policy.Allow || d.Effect == policy.Ask && target.Kind == mcp.KindTool
}

// checked is what check has decided, among the values of a call.
type checked struct {
	call *mcp.Call
	asks bool
}

// check has the policy decide, and keeps the decision for run.
func (g *guard) check(ctx context.Context, call *mcp.Call) error {
	d, err := g.policy.DecideCall(ctx, call, &g.opts.GuardOptions)
	switch {
	case d.Effect == policy.Ask && call.Method() != mcp.MethodToolsCall:
		return g.refuse(&Target{Tool: call.Method()}, NoApprover, Errorf(NoApprover, "only tool calls can be approved"))
	case d.Effect != policy.Ask && err != nil:
		return err
	}
	call.Set(g, &checked{call, d.Effect == policy.Ask})
	return nil
}

// run wraps the function of an entry. A call that a middleware has changed after check is
// checked again: the policy may decide by what has been changed.
func (g *guard) run(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		decided, _ := call.Get(g).(*checked)
		if decided == nil || decided.call != call {
			if err := g.check(ctx, call); err != nil {
				return nil, err
			}
			decided = call.Get(g).(*checked)
		}
		if !decided.asks {
			return next(ctx, call)
		}
		return g.ask(ctx, call, next)
	}
}

// ask makes a call if it is approved. It works on a copy of the params: later changes to the
// original have no effect.
func (g *guard) ask(ctx context.Context, call *mcp.Call, next mcp.Handler) (result mcp.Result, err error) {
	g.sweep()
	own, err := call.WithParams(bytes.Clone(call.Params()))
	if err != nil {
		return nil, err
	}
	target := targetOf(own)
	grant, err := g.grant(own, target)
	if err != nil {
		return nil, g.refuse(&target, kindOf(err, Failed), err)
	}
	own.OnDone(func() { g.abandon(grant, "the caller has gone") })
	run := &run{guard: g, grant: grant, call: own}
	returned := false
	defer func() { run.leave(!returned, err) }()
	result, err = run.through(ctx, next)
	returned = true
	return result, err
}

// targetOf returns what a call is for, as approvers are shown it.
func targetOf(call *mcp.Call) Target {
	t := call.Target()
	return Target{
		Server: t.Origin.Server, Launch: t.Origin.Launch, Tool: cmp.Or(t.Origin.Name, t.Name), ToolDigest: t.Definition.Digest(),
	}
}

// grant finds the call's grant, or opens one.
func (g *guard) grant(call *mcp.Call, target Target) (*grant, error) {
	request := newRequest(target, call, g.opts.Expiry)
	// A call of a tool that calls another one is approved for each of the two.
	of := callOf{call.ID(), target.Server, target.Tool}
	key := g.key + "/" + nameOf(target.Server, target.Tool)
	if kept, ok := call.Load(key); ok {
		var m mark
		if err := json.Unmarshal(kept, &m); err != nil {
			return nil, err
		}
		found, err := g.grants.resume(of, m, time.Now())
		if err != nil {
			return nil, err
		}
		if found.request.Subject() != request.Subject() {
			g.finish(found, Changed, Changed)
			return nil, Changed
		}
		found.request.call = call
		return found, nil
	}
	if err := checkArguments(request.Arguments); err != nil {
		return nil, Errorf(Failed, "%v", err)
	}
	if of.id == "" { // it has no way back, and so no further runs
		of.id = request.ID
	}
	opened := &grant{request: request, digest: request.Digest(), of: of, key: key}
	if err := g.grants.begin(opened); err != nil {
		return nil, err
	}
	if err := g.record(time.Now(), opened, EventAsked, Answer{}); err != nil {
		g.grants.end(opened)
		return nil, err
	}
	return opened, nil
}

// sweep ends what callers have left behind.
func (g *guard) sweep() {
	for _, left := range g.grants.overdue(time.Now()) {
		g.recordEnd(left, Lost, "the caller has not come back in time")
	}
}

// abandon ends a grant whose caller will not come back, unless it has ended.
func (g *guard) abandon(of *grant, reason string) {
	if g.grants.drop(of) {
		g.recordEnd(of, Lost, reason)
	}
}

// finish ends a grant without its call having been made, or made on.
func (g *guard) finish(of *grant, kind Kind, cause error) {
	g.recordEnd(of, kind, cause.Error())
	g.grants.end(of)
}

// recordEnd records that a request has come to nothing.
func (g *guard) recordEnd(of *grant, kind Kind, reason string) {
	event := EventWithdrawn
	switch {
	case of.approved:
		event = EventFailed
	case kind == Expired:
		event = EventExpired
	}
	_ = g.record(time.Now(), of, event, Answer{Reason: reason}) // it is logged, and nothing runs because of it
}

// record tells the journal and the log.
func (g *guard) record(now time.Time, of *grant, event Event, a Answer) error {
	r := of.request
	log := g.opts.Logger.With("request", r.ID, "server", r.Server, "tool", r.Tool, "caller", r.Caller)
	log.Info("approval "+string(event), "by", a.By, "reason", a.Reason)
	if g.opts.Journal == nil {
		return nil
	}
	e := Entry{
		Time: now, Event: event, ID: r.ID, Digest: of.digest,
		By: cut(a.By, MaxReason), Reason: cut(a.Reason, MaxReason),
	}
	if event == EventAsked {
		e.Server, e.Launch, e.Tool, e.ToolDigest = r.Server, r.Launch, r.Tool, r.ToolDigest
		e.Caller, e.Deadline, e.ArgumentsDigest = r.Caller, r.Deadline, r.ArgumentsDigest()
		if g.opts.RecordArguments {
			e.Arguments = string(r.Arguments)
		}
	}
	err := safely("writing the journal", func() error { return g.opts.Journal.Append(e) })
	if err != nil {
		log.Error("the approval journal failed", "event", event, "error", err)
	}
	return err
}

// refuse makes and logs the error of a call that is not made.
func (g *guard) refuse(t *Target, kind Kind, err error) *Error {
	refused := refusal(t, kind, err)
	g.opts.Logger.Info("a call was refused", "server", t.Server, "tool", t.Tool, "kind", kind, "error", err)
	return refused
}

// kindOf is the kind in an error.
func kindOf(err error, otherwise Kind) Kind {
	if said, ok := errors.AsType[*sayable](err); ok {
		return said.kind
	}
	if kind, ok := errors.AsType[Kind](err); ok {
		return kind
	}
	return otherwise
}

// safely returns the error of fn, or its panic as one.
func safely(doing string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in %s: %v\n%s", doing, p, debug.Stack())
		}
	}()
	return fn()
}
