package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/mcp"
)

// GuardOptions configure [Guard]. The functions may be nil, and are called concurrently.
type GuardOptions struct {
	// Subject returns the subject that a caller is for the policy. It is called for each
	// call and for each entry of a list. An error or a panic refuses. By default the
	// subject is the caller's principal, without a role.
	Subject func(ctx context.Context, caller *mcp.Caller) (Subject, error)
	// Decided is called with the decision about each call, for an audit. It is not called
	// for lists. A panic refuses the call.
	Decided func(ctx context.Context, call *mcp.Call, q *Request, d Decision)
}

// Guard returns a guard that enforces a policy: an entry that the policy does not allow is
// in no list, and calls of it are refused with a *[DeniedError]. Calls that the policy asks
// about are refused too: package approval has a guard that asks. The same decision is made
// for lists as for calls, see [Compiled.DecideListed]. A nil p refuses everything. opts may
// be nil.
func Guard(p *Compiled, opts *GuardOptions) mcp.Guard {
	var o GuardOptions
	if opts != nil {
		o = *opts
	}
	return mcp.Guard{
		Name: "policy",
		Visible: func(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
			return p.DecideListed(ctx, caller, target, &o).Effect == Allow
		},
		Check: func(ctx context.Context, call *mcp.Call) error {
			_, err := p.DecideCall(ctx, call, &o)
			return err
		},
	}
}

// DecideListed decides whether a caller sees an entry in lists: the decision is the most
// lenient one that a call of the entry can get. What cannot be decided is denied. A nil
// Compiled denies. opts may be nil. Guards use it.
func (c *Compiled) DecideListed(ctx context.Context, caller *mcp.Caller, target *mcp.Target, opts *GuardOptions) Decision {
	q := Request{Target: *target, Listed: true}
	return c.decideFor(ctx, caller, &q, opts)
}

// DecideCall decides about a call that has a target, and reports the decision to
// opts.Decided. The error is a *[DeniedError], unless the decision is [Allow]. A call that
// completes arguments is decided as a list is. A resource is decided by its URI, also where
// a template matches it. What cannot be decided is denied. A nil Compiled denies. opts may
// be nil. Guards use it.
func (c *Compiled) DecideCall(ctx context.Context, call *mcp.Call, opts *GuardOptions) (Decision, error) {
	d := c.decideCall(ctx, call, opts)
	if d.Effect != Allow {
		return d, denied(call, d)
	}
	return d, nil
}

func (c *Compiled) decideCall(ctx context.Context, call *mcp.Call, opts *GuardOptions) Decision {
	target := call.Target()
	if target == nil {
		return undecided(errNoTarget)
	}
	q := Request{Target: *target, URI: call.URI(), Listed: call.Method() == mcp.MethodComplete}
	if kind := q.kind(); kind == mcp.KindTool || kind == mcp.KindPrompt {
		q.Arguments = call.Member("arguments")
	}
	d := c.decideFor(ctx, call.Caller, &q, opts)
	if opts == nil || opts.Decided == nil {
		return d
	}
	decided := q // the callback may keep it, and q need not be allocated without one
	err := safely(func() error {
		opts.Decided(ctx, call, &decided, d)
		return nil
	})
	if err != nil {
		return undecided(err)
	}
	return d
}

// decideFor sets the subject of a request, and decides.
func (c *Compiled) decideFor(ctx context.Context, caller *mcp.Caller, q *Request, opts *GuardOptions) Decision {
	if c == nil {
		return undecided(errNoPolicy)
	}
	var err error
	if q.Subject, err = opts.subject(ctx, caller); err != nil {
		return undecided(err)
	}
	return c.Decide(q)
}

func (o *GuardOptions) subject(ctx context.Context, caller *mcp.Caller) (s Subject, err error) {
	switch {
	case o != nil && o.Subject != nil:
		err = safely(func() (err error) {
			s, err = o.Subject(ctx, caller)
			return err
		})
	case caller != nil:
		s.Principal = caller.Principal
	}
	return s, err
}

var (
	errNoPolicy = errors.New("there is no policy")
	errNoTarget = errors.New("the call is for nothing that the server has")
)

func undecided(err error) Decision {
	return Decision{Effect: Deny, Reason: "it cannot be decided: " + err.Error()}
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
