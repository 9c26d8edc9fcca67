package approval

import (
	"context"
	"errors"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// Decide says what becomes of a call. An error or a panic refuses it.
type Decide func(ctx context.Context, call *mcp.Call) (policy.Decision, error)

// AskAlways has somebody asked about every tool call, and lets all else pass.
func AskAlways(_ context.Context, call *mcp.Call) (policy.Decision, error) {
	if call.Method() != mcp.MethodToolsCall {
		return policy.Decision{Effect: policy.Allow, Reason: "it is no tool call"}, nil
	}
	return policy.Decision{Effect: policy.Ask, Reason: "all tool calls are asked about"}, nil
}

// ByPolicy has an enforcer's policy decide about tool calls; all else passes. The gate then
// asks where the policy says so. An enforcer that stands before the gate, for lists and for
// what is no tool, must leave such calls to it: its Ask returns nil. Ask and Decided are not
// called for the gate. The enforcer must not be changed afterwards.
func ByPolicy(enforcer *policy.Enforcer) Decide {
	e := *enforcer
	e.Decided = nil
	e.Ask = func(ctx context.Context, _ *mcp.Call, d policy.Decision) error {
		ctx.Value(decidingKey{}).(*deciding).decision = d
		return nil
	}
	return func(ctx context.Context, call *mcp.Call) (policy.Decision, error) {
		if call.Method() != mcp.MethodToolsCall {
			return policy.Decision{Effect: policy.Allow, Reason: "it is no tool call"}, nil
		}
		d := &deciding{ctx, policy.Decision{Effect: policy.Allow, Reason: "the policy allows it"}}
		err := e.Check(d, call, policy.Tool, toolOf(call))
		if denied, ok := errors.AsType[*policy.DeniedError](err); ok {
			return denied.Decision, nil
		}
		return d.decision, err
	}
}

// deciding is the context of a decision, which is noted in it.
type deciding struct {
	context.Context
	decision policy.Decision
}

type decidingKey struct{}

// Value finds the context itself.
func (d *deciding) Value(key any) any {
	if _, ok := key.(decidingKey); ok {
		return d
	}
	return d.Context.Value(key)
}
