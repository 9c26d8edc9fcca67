package main

import (
	"context"
	"log"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// errEmpty ends a request, not only the call of a tool.
var errEmpty = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the shelf is empty"}

type shelfKey struct{}

// withShelf gives functions the shelf.
func withShelf(s *shelf) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(context.WithValue(ctx, shelfKey{}, s), method, req)
		}
	}
}

// counted counts the calls of tools.
func (s *shelf) counted(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if method == "tools/call" {
			s.calls.Add(1)
		}
		if err != nil {
			log.Printf("%s: %v", method, err) // also what a caller did wrong
		}
		return result, err
	}
}
