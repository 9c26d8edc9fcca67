package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// admit decides about what a call says it is for.
func (e *Enforcer) admit(ctx context.Context, call *mcp.Call) error {
	switch call.Method() {
	case mcp.MethodToolsCall:
		return e.named(ctx, call, mcp.KindTool, call.Member("name"))
	case mcp.MethodPromptsGet:
		return e.named(ctx, call, mcp.KindPrompt, call.Member("name"))
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe:
		return e.named(ctx, call, mcp.KindResource, call.Member("uri"))
	case mcp.MethodComplete:
		return e.completion(ctx, call)
	case mcp.MethodPing, mcp.MethodResourcesUnsubscribe:
		return nil
	default:
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: fmt.Sprintf("method not found: %.256q", call.Method())}
	}
}

func (e *Enforcer) named(ctx context.Context, call *mcp.Call, kind mcp.Kind, raw json.RawMessage) error {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the name or uri must be a string"}
	}
	return e.check(ctx, call, kind, jsonscan.Unquote(raw))
}

func (e *Enforcer) completion(ctx context.Context, call *mcp.Call) error {
	switch about := call.Member("ref", "type"); {
	case jsonscan.KindOf(about) != jsonscan.String:
	case jsonscan.KeyIs(about, "ref/prompt"):
		return e.named(ctx, call, mcp.KindPrompt, call.Member("ref", "name"))
	case jsonscan.KeyIs(about, "ref/resource"):
		return e.named(ctx, call, mcp.KindResourceTemplate, call.Member("ref", "uri"))
	}
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: `ref.type must be "ref/prompt" or "ref/resource"`}
}
