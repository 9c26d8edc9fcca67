package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// Gate returns an interceptor that asks about calls. What decide allows passes, and what
// it denies is refused; where it says ask, a tool call is made if the approver says yes, and
// anything else is refused, since nobody could be shown what it would do. A refusal is an
// *[Error].
//
// decide is asked in every run of a call, the approver once. Without an approver there is
// nobody to ask. opts may be nil.
func Gate(decide Decide, approver Approver, opts *Options) mcp.Middleware {
	o := opts.withDefaults()
	g := &gate{decide: decide, approver: approver, opts: o, grants: newGrants(&o), key: "io.dovetail/" + o.Name, describe: o.Describe}
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			switch d, err := g.effect(ctx, call); {
			case err != nil:
				return nil, g.refuse(&Target{Server: o.Server, Tool: toolOf(call)}, Failed, err)
			case d.Effect == policy.Allow:
				return next(ctx, call)
			case d.Effect == policy.Ask && call.Method() == mcp.MethodToolsCall:
				return g.ask(ctx, call, next)
			case d.Effect == policy.Ask:
				return nil, g.refuse(&Target{Server: o.Server, Tool: call.Method()}, NoApprover, Errorf(NoApprover, "only tool calls can be approved"))
			default:
				return nil, g.refuse(&Target{Server: o.Server, Tool: toolOf(call)}, Forbidden, forbidden(d))
			}
		}
	}
}

type gate struct {
	decide   Decide
	policy   *policy.Compiled
	describe func(ctx context.Context, call *mcp.Call) (Target, error)
	approver Approver
	opts     Options
	grants   *grants
	key      string // of the mark that a call keeps
}

// effect asks the policy, and fails closed.
func (g *gate) effect(ctx context.Context, call *mcp.Call) (d policy.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = policy.Decision{}, panicked("deciding about a call", p)
		}
	}()
	return g.decide(ctx, call)
}

// forbidden is a denial in the policy's words for the caller.
func forbidden(d policy.Decision) error {
	if d.Told == "" {
		return fmt.Errorf("%w: %s", Forbidden, d.Reason)
	}
	return Errorf(Forbidden, "%s", d.Told)
}

// ask makes a call if it is approved. The call that is made is built from bytes that
// nobody else has: what happens to those of the other while a person decides is nothing.
func (g *gate) ask(ctx context.Context, call *mcp.Call, next mcp.Handler) (result mcp.Result, err error) {
	g.sweep()
	own, err := call.WithParams(bytes.Clone(call.Params()))
	if err != nil {
		return nil, err
	}
	target, err := g.target(ctx, own)
	if err != nil {
		return nil, g.refuse(&Target{Server: g.opts.Server, Tool: toolOf(own)}, Failed, err)
	}
	grant, err := g.grant(own, target)
	if err != nil {
		return nil, g.refuse(&target, kindOf(err, Failed), err)
	}
	own.OnDone(func() { g.abandon(grant, "the caller has gone") })
	run := &run{gate: g, grant: grant, call: own}
	returned := false
	defer func() { run.leave(!returned, err) }()
	result, err = run.through(ctx, next)
	returned = true
	return result, err
}

// target asks what a call is for, and fails closed.
func (g *gate) target(ctx context.Context, call *mcp.Call) (t Target, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked("describing a call", p)
		}
	}()
	return g.describe(ctx, call)
}

// grant finds the call's grant, or opens one.
func (g *gate) grant(call *mcp.Call, target Target) (*grant, error) {
	request := newRequest(target, call, g.opts.Expiry)
	if kept, ok := call.Load(g.key); ok {
		var m mark
		if err := json.Unmarshal(kept, &m); err != nil {
			return nil, err
		}
		found, err := g.grants.resume(call.ID(), m, time.Now())
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
	opened := &grant{request: request, digest: request.Digest(), call: call.ID()}
	if opened.call == "" { // it has no way back, and so no further runs
		opened.call = request.ID
	}
	if err := g.grants.begin(opened); err != nil {
		return nil, err
	}
	if err := g.record(opened, EventAsked, Answer{}); err != nil {
		g.grants.end(opened)
		return nil, err
	}
	return opened, nil
}

// sweep ends what callers have left behind.
func (g *gate) sweep() {
	for _, left := range g.grants.overdue(time.Now()) {
		g.recordAbandoned(left, "the caller has not come back in time")
	}
}

// abandon ends a grant whose caller will not come back, unless it has ended.
func (g *gate) abandon(of *grant, reason string) {
	if g.grants.drop(of) {
		g.recordAbandoned(of, reason)
	}
}

func (g *gate) recordAbandoned(of *grant, reason string) {
	event := EventWithdrawn
	if of.approved {
		event = EventFailed
	}
	_ = g.record(of, event, Answer{Reason: reason}) // it is logged, and nothing runs because of it
}

// finish ends a grant without its call having been made, or made on.
func (g *gate) finish(of *grant, kind Kind, cause error) {
	event := EventWithdrawn
	switch {
	case of.approved:
		event = EventFailed
	case kind == Expired:
		event = EventExpired
	}
	_ = g.record(of, event, Answer{Reason: cause.Error()}) // as above
	g.grants.end(of)
}

// record tells the journal and the log.
func (g *gate) record(of *grant, event Event, a Answer) error {
	return g.recordAt(time.Now(), of, event, a)
}

func (g *gate) recordAt(now time.Time, of *grant, event Event, a Answer) error {
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
	err := g.append(e)
	if err != nil {
		log.Error("the approval journal failed", "event", event, "error", err)
	}
	return err
}

func (g *gate) append(e Entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked("writing the journal", p)
		}
	}()
	return g.opts.Journal.Append(e)
}

// refuse makes and logs the error of a call that is not made.
func (g *gate) refuse(t *Target, kind Kind, err error) *Error {
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

func panicked(doing string, value any) error {
	return fmt.Errorf("panic in %s: %v\n%s", doing, value, debug.Stack())
}
