package main

import (
	"context"
	"log"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// errEmpty ends a request, not only the call of a tool.
var errEmpty = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the shelf is empty"}

type shelfKey struct{}

// withShelf gives functions the shelf.
func withShelf(s *shelf) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			return next(context.WithValue(ctx, shelfKey{}, s), call)
		}
	}
}

// counted counts the calls of tools.
func (s *shelf) counted(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		result, err := next(ctx, call)
		if call.Method() == "tools/call" {
			s.calls.Add(1)
		}
		if err != nil {
			log.Printf("%s: %v", call.Method(), err) // also what a caller did wrong
		}
		return result, err
	}
}
