package policy

import (
	"context"

	"github.com/dovetail-go/dovetail/mcp"
)

// An Enforcer has calls and lists obey a policy. Its functions may be called concurrently;
// where one of them fails or panics, the call is refused. Do not change it while it is used.
//
// As middleware it surrounds every request of a server:
//
//	server.Options{Middleware: []mcp.Middleware{enforcer.Intercept}}
//
// or it is a guard of some entries:
//
//	mcp.Guard{Name: "policy", Check: func(ctx context.Context, call *mcp.Call) error {
//		return enforcer.Check(ctx, call, call.Target().Kind, call.Target().Name)
//	}}
type Enforcer struct {
	// Policy decides. Without one everything is refused.
	Policy *Compiled
	// Who says who makes a call. By default that is the caller's principal, without a
	// role.
	Who func(ctx context.Context, call *mcp.Call) (Subject, error)
	// Locate says what it is that callers see as something of that name. It is asked for
	// lists and for calls, and must say the same of both. By default it is of the server
	// "", named as callers see it, and not trusted.
	Locate func(ctx context.Context, kind mcp.Kind, exposed string) (Target, error)
	// Ask is for calls that a person has to decide: nil has the call made, and any error
	// is returned to the caller. By default such calls are refused, and not listed.
	Ask func(ctx context.Context, call *mcp.Call, d Decision) error
	// Decided is told of the decision about each call, for an audit.
	Decided func(ctx context.Context, call *mcp.Call, q *Request, d Decision)
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
// call says, since a server may have but a template for it. The error is a *[DeniedError]
// or what Ask returned, or says what is wrong with the call.
func (e *Enforcer) Check(ctx context.Context, call *mcp.Call, kind mcp.Kind, name string) error {
	switch _, lists := listOf(call.Method()); {
	case lists:
		if _, d := e.Decide(ctx, call, kind, name); !e.offers(d) {
			return &DeniedError{kind, name, d}
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
func (e *Enforcer) Decide(ctx context.Context, call *mcp.Call, kind mcp.Kind, name string) (*Request, Decision) {
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
		return &DeniedError{kind, name, d}
	case d.Effect == Ask && !q.Listed:
		return safely(func() error { return e.Ask(ctx, call, d) })
	default:
		return nil
	}
}

// offers says whether a decision is not a refusal.
func (e *Enforcer) offers(d Decision) bool {
	return d.Effect == Allow || d.Effect == Ask && e.Ask != nil
}

func (e *Enforcer) who(ctx context.Context, call *mcp.Call) (s Subject, err error) {
	if e.Who == nil {
		return Subject{Principal: call.Caller.Principal}, nil
	}
	err = safely(func() (err error) {
		s, err = e.Who(ctx, call)
		return err
	})
	return s, err
}

func (e *Enforcer) locate(ctx context.Context, kind mcp.Kind, name string) (t Target, err error) {
	t = Target{Name: name}
	if e.Locate != nil {
		err = safely(func() (err error) {
			t, err = e.Locate(ctx, kind, name)
			return err
		})
	}
	t.Kind, t.Exposed = kind, name
	return t, err
}

// decide is Decide for a caller, unless it is not known who that is.
func (e *Enforcer) decide(ctx context.Context, call *mcp.Call, s Subject, nobody error, kind mcp.Kind, name string, listed bool) (*Request, Decision) {
	t, nowhere := e.locate(ctx, kind, name)
	q := &Request{Subject: s, Target: t, Listed: listed}
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
