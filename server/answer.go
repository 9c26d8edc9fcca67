package server

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// answering is an entry whose calls have an answer or fail: a prompt, a resource.
type answering struct {
	of   entryKey
	json json.RawMessage
	run  func(ctx context.Context, r *Request) (mcp.Result, error)
}

func (e *answering) key() entryKey  { return e.of }
func (e *answering) listed() Listed { return Listed{e.of.name, e.json} }

func (e *answering) call(ctx context.Context, s *Server, call *mcp.Call) (mcp.Result, error) {
	r := &Request{call: call, server: s}
	return s.answered(e.of, func() (mcp.Result, error) { return e.run(ctx, r) })
}

// answered runs the function of a prompt, resource or completion, which has no
// result for the model to read an error from: it becomes an internal error with
// its text, unless it is the protocol's own.
func (s *Server) answered(key entryKey, run func() (mcp.Result, error)) (mcp.Result, error) {
	result, err := s.guarded(key, run)
	if err == nil || isProtocolError(err) {
		return result, err
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
}
