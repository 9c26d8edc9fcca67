package approval

import (
	"context"

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
// what is no tool, has [LeaveToGate] as its Ask. Ask and Decided are not called for the gate.
func ByPolicy(enforcer *policy.Enforcer) Decide {
	return func(ctx context.Context, call *mcp.Call) (policy.Decision, error) {
		if call.Method() != mcp.MethodToolsCall {
			return policy.Decision{Effect: policy.Allow, Reason: "it is no tool call"}, nil
		}
		_, d := enforcer.Decide(ctx, call, mcp.KindTool, toolOf(call))
		return d, nil
	}
}

// LeaveToGate is a policy.Enforcer.Ask for an enforcer that stands before a [Gate]: it lets tool
// calls pass, about which the gate asks, and refuses all else, since nobody can be asked about
// that.
func LeaveToGate(_ context.Context, call *mcp.Call, _ policy.Decision) error {
	if call.Method() == mcp.MethodToolsCall {
		return nil
	}
	return &Error{Kind: NoApprover, Tool: call.Method(), Reason: "only tool calls can be approved"}
}
