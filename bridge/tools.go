package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Names are those of all tools, in the order of the servers.
func (b *Bridge) Names() []string {
	var names []string
	for e := range b.Catalog().All(mcp.KindTool) {
		names = append(names, e.Name)
	}
	return names
}

// Tools are all tools, under the names that they have here.
func (b *Bridge) Tools() []mcp.Tool { return decodeTools(b.Catalog()) }

// decodeTools leaves out what is no tool: a server may list anything.
func decodeTools(c *server.Catalog) []mcp.Tool {
	tools := make([]mcp.Tool, 0, c.Len(mcp.KindTool))
	for e := range c.All(mcp.KindTool) {
		var tool mcp.Tool
		if tool.UnmarshalJSON(e.Definition.JSON()) == nil {
			tools = append(tools, tool)
		}
	}
	return tools
}

// nobody is the caller of calls that a Go program makes for itself: it cannot be asked.
var nobody = &mcp.Caller{}

// CallTool calls a tool by its name here, for the user that [transport.Principal] of ctx
// names, if any, and past the bridge's guards. arguments are an object, nil means none.
// The result is as the server gave it; a failure that the tool reports is a result with
// IsError. The error of a name that no tool has is [ErrUnknownTool].
func (b *Bridge) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	if jsonscan.KindOf(arguments) != jsonscan.Object || jsonscan.Valid(arguments) != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "arguments must be an object"}
	}
	params := jsonscan.AppendString([]byte(`{"name":`), name)
	params = append(append(append(params, `,"arguments":`...), arguments...), '}')
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, params)
	if err != nil {
		return nil, err
	}
	caller := nobody
	if principal := transport.Principal(ctx); principal != "" {
		caller = &mcp.Caller{Principal: principal}
	}
	call := mcp.NewCall(request, caller, nil)
	answer, err := b.server.Serve(ctx, &call)
	if err != nil {
		if spoken, ok := err.(*jsonrpc.Error); ok && spoken.Code == jsonrpc.InvalidParams && call.Target() == nil {
			err = fmt.Errorf("%w: %.256q", ErrUnknownTool, name)
		}
		return nil, err
	}
	encoded, err := answer.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	result := new(mcp.CallToolResult)
	if err := result.UnmarshalJSON(encoded); err != nil {
		return nil, &UpstreamError{Server: call.Target().Origin.Server, Failure: Malformed, Delivery: jsonrpc.MaybeExecuted, Err: err}
	}
	return result, nil
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
