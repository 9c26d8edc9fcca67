package server

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// route answers a call: lists from the provider's catalogue, all else by the
// provider.
func (s *Server) route(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	switch call.Method() {
	case mcp.MethodToolsList:
		return s.list(ctx, call, toolKind, &s.lists().tools)
	case mcp.MethodPromptsList:
		return s.list(ctx, call, promptKind, &s.lists().prompts)
	case mcp.MethodResourcesList:
		return s.list(ctx, call, resourceKind, &s.lists().resources)
	case mcp.MethodResourceTemplatesList:
		return s.list(ctx, call, templateKind, &s.lists().templates)
	default:
		return s.provider.Call(ctx, call)
	}
}

func stringMember(call *mcp.Call, path ...string) (string, error) {
	raw := call.Member(path...)
	if len(raw) == 0 || raw[0] != '"' {
		return "", invalidParams("%s must be a string", path[len(path)-1])
	}
	return jsonscan.Unquote(raw), nil
}

func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(format, args...)}
}

func methodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: fmt.Sprintf("method not found: %.256q", method)}
}
