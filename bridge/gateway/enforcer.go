package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// An Enforcer has the calls and lists of a [Gateway] or [ToolServer] obey a policy, as what
// [policy.Guard] returns does on a server. Its functions may be called concurrently; where one
// of them fails or panics, the call is refused. Do not change it while it is used.
type Enforcer struct {
	// Policy decides. Without one everything is refused.
	Policy *policy.Compiled
	// Who says who makes a call. By default that is the caller's principal, without a
	// role.
	Who func(ctx context.Context, call *mcp.Call) (policy.Subject, error)
	// Locate says what it is that callers see as something of that name. It is asked for
	// lists and for calls, and must say the same of both. By default it is of the server
	// "", named as callers see it, and not trusted.
	Locate func(ctx context.Context, kind mcp.Kind, exposed string) (mcp.Target, error)
	// Ask is for calls that a person has to decide: nil has the call made, and any error
	// is returned to the caller. By default such calls are refused, and not listed.
	Ask func(ctx context.Context, call *mcp.Call, d policy.Decision) error
	// Decided is told of the decision about each call, for an audit.
	Decided func(ctx context.Context, call *mcp.Call, q *policy.Request, d policy.Decision)
}

// Intercept is a [mcp.Middleware]: it refuses calls that are not allowed, and leaves out
// of lists what is not. A ping passes, and the end of a subscription; a method that is not
// known is refused.
func (e *Enforcer) Intercept(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if l, ok := listOf(call.Method()); ok {
			return e.list(ctx, call, l, next)
		}
		if err := e.admit(ctx, call); err != nil {
			return nil, err
		}
		return next(ctx, call)
	}
}

// Check says whether a call of what callers see by that name may be made; or, if the call
// is for a list, whether the name belongs into it. What is read or completed is what the
// call says, since a server may have but a template for it. The error is a *[policy.DeniedError]
// or what Ask returned, or says what is wrong with the call.
func (e *Enforcer) Check(ctx context.Context, call *mcp.Call, kind mcp.Kind, name string) error {
	switch _, lists := listOf(call.Method()); {
	case lists:
		if _, d := e.Decide(ctx, call, kind, name); !e.offers(d) {
			return &policy.DeniedError{Kind: kind, Name: name, Decision: d}
		}
		return nil
	case kind == mcp.KindTool || kind == mcp.KindPrompt:
		return e.check(ctx, call, kind, name)
	default:
		return e.admit(ctx, call)
	}
}

// Decide says what becomes of a call of what callers see by that name, or of a list's entry,
// and what was decided about. Nothing else comes of it: nobody is asked, and nobody told.
// What cannot be decided is denied.
func (e *Enforcer) Decide(ctx context.Context, call *mcp.Call, kind mcp.Kind, name string) (*policy.Request, policy.Decision) {
	s, err := e.who(ctx, call)
	_, lists := listOf(call.Method())
	return e.decide(ctx, call, s, err, kind, name, lists || call.Method() == mcp.MethodComplete)
}

// check decides about a call. What a person would have to decide about is completed
// without.
func (e *Enforcer) check(ctx context.Context, call *mcp.Call, kind mcp.Kind, name string) error {
	q, d := e.Decide(ctx, call, kind, name)
	if e.Decided != nil {
		err := safely(func() error {
			e.Decided(ctx, call, q, d)
			return nil
		})
		if err != nil {
			d = undecided(err)
		}
	}
	switch {
	case !e.offers(d):
		return &policy.DeniedError{Kind: kind, Name: name, Decision: d}
	case d.Effect == policy.Ask && !q.Listed:
		return safely(func() error { return e.Ask(ctx, call, d) })
	default:
		return nil
	}
}

// offers says whether a decision is not a refusal.
func (e *Enforcer) offers(d policy.Decision) bool {
	return d.Effect == policy.Allow || d.Effect == policy.Ask && e.Ask != nil
}

func (e *Enforcer) who(ctx context.Context, call *mcp.Call) (s policy.Subject, err error) {
	if e.Who == nil {
		return policy.Subject{Principal: call.Caller.Principal}, nil
	}
	err = safely(func() (err error) {
		s, err = e.Who(ctx, call)
		return err
	})
	return s, err
}

func (e *Enforcer) locate(ctx context.Context, kind mcp.Kind, name string) (t mcp.Target, err error) {
	t = mcp.Target{Origin: mcp.Origin{Name: name}}
	if e.Locate != nil {
		err = safely(func() (err error) {
			t, err = e.Locate(ctx, kind, name)
			return err
		})
	}
	t.Kind, t.Name = kind, name
	return t, err
}

// decide is Decide for a caller, unless it is not known who that is.
func (e *Enforcer) decide(ctx context.Context, call *mcp.Call, s policy.Subject, nobody error, kind mcp.Kind, name string, listed bool) (*policy.Request, policy.Decision) {
	t, nowhere := e.locate(ctx, kind, name)
	q := &policy.Request{Subject: s, Target: t, Listed: listed}
	if kind == mcp.KindTool || kind == mcp.KindPrompt {
		q.Arguments = call.Member("arguments")
	}
	switch {
	case e.Policy == nil:
		return q, undecided(errNoPolicy)
	case nobody != nil:
		return q, undecided(nobody)
	case nowhere != nil:
		return q, undecided(nowhere)
	default:
		return q, e.Policy.Decide(q)
	}
}

var errNoPolicy = errors.New("there is no policy")

func undecided(err error) policy.Decision {
	return policy.Decision{Reason: "it cannot be decided: " + err.Error()}
}

// safely returns the error of fn, or its panic as one.
func safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// Describe returns what a tool call is for, such as [Directory.Describe].
type Describe = func(ctx context.Context, call *mcp.Call) (approval.Target, error)

// Gate is [approval.Guard] for the calls of a [Gateway] or [ToolServer]: describe says what a
// call is for, when it comes and again right before it is made. enforcer decides; without one
// every tool call is asked about.
func Gate(describe Describe, enforcer *Enforcer, approver approval.Approver, opts *approval.Options) mcp.Middleware {
	ask, _ := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}}) // nothing in it could be wrong
	guard := approval.Guard(ask, approver, opts)
	return func(next mcp.Handler) mcp.Handler {
		run := guard.Run(next)
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			if call.Method() != mcp.MethodToolsCall {
				return next(ctx, call)
			}
			if enforcer != nil {
				_, name := subjectOf(call)
				switch _, d := enforcer.Decide(ctx, call, mcp.KindTool, name); d.Effect {
				case policy.Allow:
					return next(ctx, call)
				case policy.Ask:
				default:
					return nil, &policy.DeniedError{Kind: mcp.KindTool, Name: name, Decision: d}
				}
			}
			own, err := call.WithParams(slices.Clone(call.Params()))
			if err != nil {
				return nil, err
			}
			if err := resolve(ctx, describe, own); err != nil {
				return nil, err
			}
			return run(ctx, own)
		}
	}
}

// resolve attaches what a call is for to it.
func resolve(ctx context.Context, describe Describe, call *mcp.Call) error {
	_, name := subjectOf(call)
	find := func(ctx context.Context) (t approval.Target, err error) {
		err = safely(func() (err error) {
			t, err = describe(ctx, call)
			return err
		})
		return t, err
	}
	described, err := find(ctx)
	if err != nil {
		refused := &approval.Error{Kind: approval.Failed, Tool: name, Err: err}
		if _, ok := errors.AsType[approval.Kind](err); ok {
			refused.Reason = err.Error()
		}
		return refused
	}
	target := &mcp.Target{
		Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition([]byte(described.ToolDigest)),
		Origin: mcp.Origin{Server: described.Server, Name: described.Tool, Launch: described.Launch},
	}
	call.Resolve(target, "", func(ctx context.Context, _ *mcp.Target) error {
		if now, err := find(ctx); err != nil || now != described {
			return cmp.Or(err, error(approval.Changed))
		}
		return nil
	})
	return nil
}
