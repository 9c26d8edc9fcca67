package frontend

import (
	"context"
	"errors"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Outcomes of calls that are not codes of failures.
const (
	OK        = "ok"
	ToolError = "tool_error" // the result of the tool says so, or its function has returned an error
	Panicked  = "panic"
)

// Outcome returns what became of a call: one of the outcomes, or the code of a failure. It also returns the result and the
// error, since it encodes the result of a tool if necessary. ctx is the context of the caller: a call that has failed because
// its caller has left is [Canceled].
func Outcome(ctx context.Context, call *mcp.Call, result mcp.Result, err error) (outcome string, same mcp.Result, failed error) {
	if err == nil {
		if call.Method() == mcp.MethodToolsCall {
			return toolOutcome(result)
		}
		return OK, result, nil
	}
	_, unanswered := errors.AsType[*era.UnansweredError](err)
	_, ended := errors.AsType[*Failure](err) // by this program, which says why
	if !ended && CallerLeft(ctx) && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)) || unanswered && errors.Is(err, jsonrpc.ErrClosed) {
		return Canceled, result, err
	}
	outcome = CallFailureOf(call, err).Code
	function, ok := errors.AsType[*server.FunctionError](err)
	switch {
	case !ok || outcome != Internal || call.Method() != mcp.MethodToolsCall:
	case function.Arguments:
		outcome = BadParams
	default:
		outcome = ToolError
	}
	return outcome, result, err
}

// CallerLeft reports whether nobody waits for the result of a call any more: its client has canceled it, or its connection or
// session has ended. ctx is the context of the caller.
func CallerLeft(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// toolOutcome returns the outcome of the result of a tool.
func toolOutcome(result mcp.Result) (outcome string, same mcp.Result, err error) {
	if _, continues := result.(*mcp.Task); continues {
		return OK, result, nil
	}
	raw, ok := result.(mcp.Raw)
	if !ok && result != nil {
		encoded, err := result.AppendJSON(nil)
		if err != nil {
			return Internal, nil, err
		}
		raw, result = encoded, mcp.Raw(encoded)
	}
	if members, err := jsonscan.ReadObject(raw); err == nil && string(members.Get("isError")) == "true" {
		return ToolError, result, nil
	}
	return OK, result, nil
}
