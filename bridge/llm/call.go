package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Call is a call of a tool in the answer of a model.
type Call struct {
	// ID identifies the call in the conversation. It may be empty for Gemini.
	ID string
	// Name is the name of the tool.
	Name string
	// Arguments is a JSON object. Empty text and null mean none: models send them for tools without parameters.
	Arguments json.RawMessage
}

// A Reply answers a [Call].
type Reply struct {
	Call Call
	// Result is the result of the tool, and never nil. If there is none, it is a result with IsError whose text tells
	// the model why.
	Result *mcp.CallToolResult
	// Err is why the tool has no result, for the operator. It is nil if the tool has answered, also with a failure.
	Err error
}

// Run makes calls one after the other, in their order, and returns a reply to each. An API refuses a conversation in
// which a call has no reply. After the end of ctx, no further tool is called.
func Run(ctx context.Context, tools Tools, calls []Call) []Reply {
	replies := make([]Reply, len(calls))
	for i, call := range calls {
		replies[i] = run(ctx, tools, call)
	}
	return replies
}

func run(ctx context.Context, tools Tools, call Call) Reply {
	if err := ctx.Err(); err != nil {
		return failedReply(call, context.Cause(ctx))
	}
	result, err := tools.CallTool(ctx, call.Name, orNone(call.Arguments))
	if err != nil {
		return failedReply(call, err)
	}
	return Reply{Call: call, Result: result}
}

func failedReply(call Call, err error) Reply {
	text := mcp.Text(explain(call.Name, err))
	return Reply{Call: call, Result: &mcp.CallToolResult{Content: mcp.ContentList{text}, IsError: true}, Err: err}
}

// explain says why a call has no result. Only the server's own words are repeated: other errors may contain addresses
// and paths of the operator.
func explain(name string, err error) string {
	if errors.Is(err, bridge.ErrUnknownTool) {
		return fmt.Sprintf("There is no tool %.256q.", name)
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return answer.Message
	}
	call, ok := errors.AsType[*jsonrpc.CallError](err)
	switch {
	case ok && call.Delivery == jsonrpc.MaybeExecuted:
		return "The tool has not answered. It may have been executed."
	case ok:
		return "The tool cannot be reached. It was not executed."
	}
	return "The tool cannot be called."
}

// orNone returns arguments, or nil if they are empty or null.
func orNone(arguments json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(arguments); len(trimmed) == 0 || string(trimmed) == "null" {
		return nil
	}
	return arguments
}
