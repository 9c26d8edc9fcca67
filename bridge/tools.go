package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Tools returns all tools that the user whom [transport.Principal] of ctx names may see, under
// the names that they have here. Definitions that are no tool are left out.
func (b *Bridge) Tools(ctx context.Context) ([]mcp.Tool, error) {
	entries, err := b.listTools(ctx)
	tools := make([]mcp.Tool, 0, len(entries))
	for _, entry := range entries {
		var tool mcp.Tool
		if tool.UnmarshalJSON(entry.definition) == nil {
			tools = append(tools, tool)
		}
	}
	return tools, err
}

func (b *Bridge) listTools(ctx context.Context) ([]listed, error) {
	result, _, err := b.serve(ctx, mcp.MethodToolsList, nil)
	if err != nil {
		return nil, err
	}
	list, err := jsonscan.ReadObject(result)
	if err != nil {
		return nil, err
	}
	return appendEntries(nil, mcp.KindTool, list.Get("tools"), "name")
}

// serve answers a call that the program makes for itself. It passes all that a call of a
// client passes.
func (b *Bridge) serve(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, call *mcp.Call, err error) {
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, params)
	if err != nil {
		return nil, nil, err
	}
	made := mcp.NewCall(request, &mcp.Caller{Principal: transport.Principal(ctx)}, nil) // who cannot be asked
	answer, err := b.server.Serve(ctx, &made)
	if err != nil {
		return nil, &made, err
	}
	result, err = answer.AppendJSON(nil)
	return result, &made, err
}

// CallTool calls a tool by its name here, for the user that [transport.Principal] of ctx
// names, if any, who cannot be asked. The call passes [Options.Guards] and
// [Options.CallMiddleware], as calls of clients do, and ends with ctx; see also
// [ProxyOptions.CallTimeout]. arguments are an object, nil means none.
// The result is as the server gave it; a failure that the tool reports is a result with
// IsError. The error of a name that no tool has, or none that the user may see, is
// [ErrUnknownTool].
func (b *Bridge) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	if jsonscan.KindOf(arguments) != jsonscan.Object || jsonscan.Valid(arguments) != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "arguments must be an object"}
	}
	params := jsonscan.AppendString([]byte(`{"name":`), name)
	params = append(append(append(params, `,"arguments":`...), arguments...), '}')
	encoded, call, err := b.serve(ctx, mcp.MethodToolsCall, params)
	switch {
	case err != nil && call != nil && b.isUnknown(ctx, call, err):
		return nil, fmt.Errorf("%w: %.256q", ErrUnknownTool, name)
	case err != nil:
		return nil, err
	}
	result := new(mcp.CallToolResult)
	if err := result.UnmarshalJSON(encoded); err != nil {
		return nil, &UpstreamError{Server: call.Target().Origin.Server, Failure: Malformed, Delivery: jsonrpc.MaybeExecuted, Err: err}
	}
	return result, nil
}

// isUnknown reports whether a call has failed since its caller knows no such tool.
func (b *Bridge) isUnknown(ctx context.Context, call *mcp.Call, err error) bool {
	if hidden, ok := errors.AsType[*server.RefusedError](err); ok {
		return hidden.Hidden
	}
	refused, ok := err.(*jsonrpc.Error)
	if !ok || refused.Code != jsonrpc.InvalidParams {
		return false
	}
	if call.Target() == nil {
		return true
	}
	e := b.server.Catalog().Lookup(mcp.KindTool, call.Target().Name)
	return e == nil || e.Visible != nil && !e.Visible(ctx, call.Caller)
}

// Instructions are those of all servers, each under a heading with its alias, for
// [server.Options]; those of a server that does not run are missing.
func (b *Bridge) Instructions() string {
	var text strings.Builder
	for _, m := range *b.members.Load() {
		said := m.instructions()
		if said == "" {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		fmt.Fprintf(&text, "## %s\n\n%s", m.alias, said)
	}
	return text.String()
}

// maxInstructions is how much of one server's instructions is passed on, in bytes.
const maxInstructions = 16 << 10

func (u *Upstream) instructions() string {
	main := u.pool.main
	main.mu.Lock()
	session := main.session
	main.mu.Unlock()
	if session == nil {
		return ""
	}
	said := session.Instructions()
	if len(said) > maxInstructions {
		said = strings.ToValidUTF8(said[:maxInstructions], "") + "…"
	}
	return said
}
