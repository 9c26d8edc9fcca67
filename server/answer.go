package server

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// answering is an entry whose calls have an answer or fail: a prompt, a resource.
type answering struct {
	attended
	json json.RawMessage
	run  func(ctx context.Context, r *Request) (mcp.Result, error)
}

func (e *answering) listed() Listed { return Listed{e.of.name, e.json} }

func (e *answering) within(more Around) Entry {
	inner := *e
	inner.around = e.around.within(more)
	return &inner
}

func (e *answering) call(ctx context.Context, s *Server, call *mcp.Call) (mcp.Result, error) {
	return answered(e.attend(ctx, s, call, e.run))
}

// answered is what becomes of a prompt, resource or completion, which has no result
// for the model to read an error from: it becomes an internal error with its text,
// unless it is the protocol's own.
func answered(result mcp.Result, err error) (mcp.Result, error) {
	if err == nil || isProtocolError(err) {
		return result, err
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
}
