package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tools lists and calls tools. A *[bridge.Bridge] is one, and [SessionTools] makes one of a client session. Its
// methods are called concurrently.
type Tools interface {
	// Tools returns the definitions of all tools.
	Tools(ctx context.Context) ([]mcp.Tool, error)
	// CallTool calls a tool. arguments is a JSON object, or nil for none. A failure that the tool reports is a result
	// with IsError. The error is [bridge.ErrUnknownTool] if there is no tool of that name.
	CallTool(ctx context.Context, name string, arguments json.RawMessage) (*mcp.CallToolResult, error)
}

// SessionTools returns the tools of a session. Questions of the server go to the handlers of [client.Options]. A call
// that the server refuses, or that fails, has the error [bridge.ErrUnknownTool] if the server does not list the tool.
// Other errors are as in [client.Session.CallTool].
func SessionTools(s *client.Session) Tools { return sessionTools{s} }

type sessionTools struct{ *client.Session }

func (s sessionTools) Tools(ctx context.Context) ([]mcp.Tool, error) {
	tools := []mcp.Tool{}
	for tool, err := range s.Session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		tools = append(tools, *tool)
	}
	return tools, nil
}

func (s sessionTools) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	var encoded any // a nil json.RawMessage is not nil in an interface
	if arguments != nil {
		encoded = arguments
	}
	result, err := s.Session.CallTool(ctx, name, encoded, nil)
	// Some servers answer with an error, and others with a result whose text says so.
	refusal, refused := errors.AsType[*jsonrpc.Error](err)
	refused = refused && (refusal.Code == jsonrpc.InvalidParams || refusal.Code == jsonrpc.MethodNotFound)
	if (refused || err == nil && isUnknown(result)) && s.lacks(ctx, name) {
		return nil, fmt.Errorf("%w: %.256q", bridge.ErrUnknownTool, name)
	}
	return result, err
}

// isUnknown reports whether a result says that there is no such tool. Another error is that of a tool that was called.
func isUnknown(result *mcp.CallToolResult) bool {
	text := strings.ToLower(result.Text())
	return result.IsError && (strings.Contains(text, "unknown tool") || strings.Contains(text, "not found"))
}

// lacks reports whether the server lists its tools without this one.
func (s sessionTools) lacks(ctx context.Context, name string) bool {
	for tool, err := range s.Session.Tools(ctx, nil) {
		if err != nil || tool.Name == name {
			return false
		}
	}
	return true
}

// A Handler calls a tool by name and returns the result as text for a model. arguments is a
// JSON object, or empty for none. If the handler has no tool of that name, the error is
// [bridge.ErrUnknownTool] and nothing was called.
type Handler func(ctx context.Context, name string, arguments json.RawMessage) (string, error)

// NewHandler returns a handler that calls tools and converts their results with [Text].
func NewHandler(tools Tools) Handler {
	return func(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
		result, err := tools.CallTool(ctx, name, orNone(arguments))
		if err != nil {
			return "", err
		}
		return Text(result)
	}
}

// FirstMatch returns a handler that tries the handlers in order until one has the tool. Only after
// [bridge.ErrUnknownTool] it tries the next handler.
func FirstMatch(first, second Handler, more ...Handler) Handler {
	handlers := append([]Handler{first, second}, more...)
	return func(ctx context.Context, name string, arguments json.RawMessage) (result string, err error) {
		for _, handle := range handlers {
			result, err = handle(ctx, name, arguments)
			if !errors.Is(err, bridge.ErrUnknownTool) {
				break
			}
		}
		return result, err
	}
}
