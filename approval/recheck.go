package approval

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
)

// approved is what a gate has passed on.
type approved struct {
	request   *Request
	method    string
	tool      json.RawMessage // as the call names it
	arguments json.RawMessage
}

type approvedKey struct{}

func withApproved(ctx context.Context, r *Request, call *mcp.Call) context.Context {
	return context.WithValue(ctx, approvedKey{}, &approved{r, call.Method(), call.Member("name"), r.Arguments})
}

// FromContext is the request that was approved for the call of a context, nil if none was
// asked for.
func FromContext(ctx context.Context) *Request {
	if a, ok := ctx.Value(approvedKey{}).(*approved); ok {
		return a.request
	}
	return nil
}

// Recheck is an interceptor for the place nearest to the tool, on the same server as a
// [Gate]: it refuses a call that is not the one that was approved, because what stands
// between has changed its tool or its arguments. Calls that were not asked about pass.
func Recheck(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		a, ok := ctx.Value(approvedKey{}).(*approved)
		if ok && (call.Method() != a.method || !bytes.Equal(call.Member("name"), a.tool) || !bytes.Equal(argumentsOf(call), a.arguments)) {
			return nil, refusal(&a.request.Target, Changed, Changed)
		}
		return next(ctx, call)
	}
}
