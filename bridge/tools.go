package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// ErrUnknownTool is the error of a call to a tool that does not exist, or that the caller
// may not see.
var ErrUnknownTool = errors.New("unknown tool")

// Tools returns the tools that the user may see, under their names in the bridge.
// [transport.Principal] of ctx names the user. Definitions that are not valid tools are left
// out. If there are none because the bridge has not been started, the error is [ErrNotStarted].
func (b *Bridge) Tools(ctx context.Context) ([]mcp.Tool, error) {
	tools := []mcp.Tool{}
	var params json.RawMessage
	for {
		result, _, err := b.serve(ctx, mcp.MethodToolsList, params)
		if err != nil {
			return nil, err
		}
		list, err := jsonscan.ReadObject(result)
		if err != nil {
			return nil, err
		}
		entries, _, err := appendEntries(nil, &listMethods[0], list.Get("tools"))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			var tool mcp.Tool
			if tool.UnmarshalJSON(entry.definition) == nil {
				tools = append(tools, tool)
			}
		}
		cursor := list.Get("nextCursor")
		if cursor == nil {
			if len(tools) == 0 && !b.hasStarted() {
				return nil, ErrNotStarted
			}
			return tools, nil
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}

// toolsOf returns the tools of one server that callers without a principal see.
func (b *Bridge) toolsOf(ctx context.Context, alias string) []mcp.Tool {
	tools := []mcp.Tool{}
	for e := range b.Catalog().All(mcp.KindTool) {
		var tool mcp.Tool
		if e.Origin.Server == alias && (e.Visible == nil || e.Visible(ctx, &mcp.Caller{})) && tool.UnmarshalJSON(e.Definition.JSON()) == nil {
			tools = append(tools, tool)
		}
	}
	return tools
}

// serve handles a call of this program like a call of a client. The caller cannot be asked
// questions.
func (b *Bridge) serve(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, call *mcp.Call, err error) {
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, params)
	if err != nil {
		return nil, nil, err
	}
	made := mcp.NewCall(request, &mcp.Caller{Principal: transport.Principal(ctx)}, nil)
	reply, err := b.guardedServer.Serve(ctx, &made)
	if err != nil {
		return nil, &made, err
	}
	result, err = reply.AppendJSON(nil)
	return result, &made, err
}

// CallTool calls a tool by its name in the bridge. arguments is a JSON object, or nil for
// none. [transport.Principal] of ctx names the user, who cannot be asked questions. The call
// passes [Options.Guards] and [Options.CallMiddleware] and ends with ctx; see also
// [ProxyOptions.CallTimeout].
//
// The result has the bytes of the server; a failure that the tool reports is a result with
// IsError. The error is [ErrUnknownTool] if the tool does not exist or the user may not see
// it, [ErrNotStarted] if the bridge does not know because it has not been started, an
// *[UpstreamError] if the server does not answer, or a *[jsonrpc.Error].
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
		if call.Target() == nil && !b.hasStarted() {
			return nil, ErrNotStarted
		}
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

// hasStarted reports whether any server of the bridge was started at least once.
func (b *Bridge) hasStarted() bool {
	members := *b.members.Load()
	return len(members) == 0 || slices.ContainsFunc(members, func(m *member) bool { return isClosed(m.pool.started) })
}

// isUnknown reports whether a call failed because the tool does not exist or is hidden from
// the caller.
func (b *Bridge) isUnknown(ctx context.Context, call *mcp.Call, err error) bool {
	if refused, ok := errors.AsType[*server.RefusedError](err); ok {
		return refused.Hidden
	}
	failed, ok := err.(*jsonrpc.Error)
	if !ok || failed.Code != jsonrpc.InvalidParams {
		return false
	}
	if call.Target() == nil {
		return true
	}
	e, err := b.guardedServer.Catalog().LookupFor(ctx, call.Caller, mcp.KindTool, call.Target().Name)
	return e == nil && err == nil
}

// maxInstructions is how many bytes of one server's instructions are used.
const maxInstructions = 16 << 10

// Instructions returns the instructions of all running servers, each under a heading with the
// alias, for [server.Options]. The instructions of one server are cut after 16 KiB.
func (b *Bridge) Instructions() string {
	var all strings.Builder
	for _, m := range *b.members.Load() {
		text := m.instructions()
		if text == "" {
			continue
		}
		if all.Len() > 0 {
			all.WriteString("\n\n")
		}
		fmt.Fprintf(&all, "## %s\n\n%s", m.alias, text)
	}
	return all.String()
}

func (u *Upstream) instructions() string {
	session := u.pool.main.opened()
	if session == nil {
		return ""
	}
	text := session.Instructions()
	if len(text) > maxInstructions {
		text = strings.ToValidUTF8(text[:maxInstructions], "") + "…"
	}
	return text
}
