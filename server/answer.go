package server

import (
	"context"
	"encoding/json"
	"sync/atomic"

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
	return e.answer(ctx, s, call, e.run)
}

// answer is attend with an error told to the caller.
func (a *attended) answer(ctx context.Context, s *Server, call *mcp.Call, fn func(ctx context.Context, r *Request) (mcp.Result, error)) (mcp.Result, error) {
	result, err := a.attend(ctx, s, call, fn)
	if err != nil {
		return a.tell(ctx, err)
	}
	return result, nil
}

// tell tells a caller of a function's error. That of a tool is a result, which the
// model reads; that of a prompt, resource or completion, where there is none to read,
// becomes an internal error with its text. The protocol's own errors stay.
func (a *attended) tell(ctx context.Context, err error) (mcp.Result, error) {
	if isProtocolError(err) {
		return nil, err
	}
	t := &told{cause: err}
	if a.of.kind == toolKind {
		t.result = toolError(err)
	} else {
		t.err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	}
	if last, ok := ctx.Value(lastTold{}).(*atomic.Pointer[told]); ok {
		last.Store(t)
	}
	return t.result, t.err
}

// told is what a caller has been told of an error. When the caller is a server that
// has mounted this one, its mappers and interceptors see the error itself.
type told struct {
	result mcp.Result
	err    error
	cause  error
}

// lastTold is the key of a context's *atomic.Pointer[told].
type lastTold struct{}

// revealing makes a call, and says whether the error is the function's own, instead of
// what its caller would have been told.
func revealing(ctx context.Context, call func(ctx context.Context) (mcp.Result, error)) (result mcp.Result, own bool, err error) {
	var last atomic.Pointer[told]
	result, err = call(context.WithValue(ctx, lastTold{}, &last))
	if t := last.Load(); t != nil && (t.err != nil && t.err == err || t.result != nil && t.result == result) {
		return nil, true, t.cause
	}
	return result, false, err
}
