package approval

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// Guard returns a guard that enforces a policy as [policy.Guard] does, and has approver
// decide about the tool calls that the policy asks about: they are made if the answer is
// yes, and the tool is still what it was. Tools that are asked about are listed. Entries of
// other kinds cannot be approved: where the policy asks about them they are in no list, and
// calls of them are refused.
//
// The policy decides in every run of a call, the approver once. A call that the policy
// denies is refused with a *[policy.DeniedError], one that is not approved with an
// *[Error]. A nil p refuses everything. Without an approver nobody can be asked. opts may be
// nil.
func Guard(p *policy.Compiled, approver Approver, opts *Options) mcp.Guard {
	o := opts.withDefaults()
	g := &gate{policy: p, approver: approver, opts: o, grants: newGrants(&o), key: "io.dovetail/" + o.Name, describe: describe}
	return mcp.Guard{Name: o.Name, Visible: g.visible, Check: g.check, Run: g.run}
}

// visible reports whether a caller sees an entry in lists.
func (g *gate) visible(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
	d := g.policy.DecideListed(ctx, caller, target, &g.opts.GuardOptions)
	return d.Effect == policy.Allow || d.Effect == policy.Ask && target.Kind == mcp.KindTool
}

// checked is what check has decided, among the values of a call.
type checked struct {
	call *mcp.Call
	asks bool
}

// check has the policy decide, and keeps the decision for run.
func (g *gate) check(ctx context.Context, call *mcp.Call) error {
	d, err := g.policy.DecideCall(ctx, call, &g.opts.GuardOptions)
	if d.Effect == policy.Ask {
		if call.Method() != mcp.MethodToolsCall {
			return g.refuse(&Target{Tool: call.Method()}, NoApprover, Errorf(NoApprover, "only tool calls can be approved"))
		}
		err = nil
	}
	if err == nil {
		call.Set(g, &checked{call, d.Effect == policy.Ask})
	}
	return err
}

// run wraps the function of an entry. A call that a middleware has changed after check is
// checked again: the policy may decide by what has been changed.
func (g *gate) run(next mcp.Handler) mcp.Handler {
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

// describe returns what a call is for, as it is shown to approvers.
func describe(_ context.Context, call *mcp.Call) (Target, error) {
	t := call.Target()
	return Target{
		Server: t.Origin.Server, Launch: t.Origin.Launch, Tool: cmp.Or(t.Origin.Name, t.Name), ToolDigest: t.Definition.Digest(),
	}, nil
}

// recheckTarget reports whether the tool is still what it was when the call came.
func recheckTarget(ctx context.Context, call *mcp.Call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked("looking up what was approved", p)
		}
	}()
	err = call.Recheck(ctx)
	if said, ok := err.(*jsonrpc.Error); ok {
		return Errorf(Changed, "%s", said.Message)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", Changed, err)
	}
	return nil
}
