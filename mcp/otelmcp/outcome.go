package otelmcp

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

const (
	// maxName and maxText bound what comes from the other side, in bytes.
	maxName, maxText = 256, 1024
	// other is the value of the conventions for what has no value of its own.
	other = "_OTHER"
	// toolError is the error.type of a tool result with isError.
	toolError = "tool_error"
)

// An outcome is how a call has ended. The zero outcome is success.
type outcome struct {
	code    jsonrpc.Code // of the JSON-RPC error; 0 if there is none
	class   string       // error.type; "" if the call is no error
	message string       // of the JSON-RPC error
}

// panicked is the outcome of a call whose handler does not return. A server then answers with an
// internal error.
var panicked = outcome{class: "panic"}

// attributes appends the attributes of the outcome.
func (o outcome) attributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	if o.code != 0 {
		attrs = append(attrs, semconv.RPCResponseStatusCode(strconv.Itoa(int(o.code))))
	}
	if o.class != "" {
		attrs = append(attrs, semconv.ErrorTypeKey.String(o.class))
	}
	return attrs
}

func (t *Telemetry) outcomeOf(call *mcp.Call, result mcp.Result, err error) outcome {
	if err == nil {
		if call.Method() == mcp.MethodToolsCall && isToolError(result) {
			return outcome{class: toolError}
		}
		return outcome{}
	}
	if _, asks := mcp.AsInputRequired(err); asks {
		return outcome{}
	}
	if t.isServer {
		return serverOutcome(call, err)
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && !isLocal(err) {
		return outcome{answer.Code, strconv.Itoa(int(answer.Code)), cut(answer.Message, maxText)}
	}
	return outcome{class: classOf(err)}
}

// isLocal reports whether a call has failed before it was sent.
func isLocal(err error) bool {
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	return ok && failed.Delivery == jsonrpc.NotSent
}

// isToolError reports whether a result says that the tool has failed.
func isToolError(result mcp.Result) bool {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		return r != nil && r.IsError
	case mcp.Raw:
		// Most results have no such member. A name with escapes contains \u.
		if !bytes.Contains(r, []byte("isError")) && !bytes.Contains(r, []byte(`\u`)) {
			return false
		}
		value, _ := jsonscan.Find(r, "isError")
		return string(value) == "true"
	}
	return false
}

// serverOutcome returns what the client gets for an error of the handler.
func serverOutcome(call *mcp.Call, err error) outcome {
	if call.Method() == mcp.MethodToolsCall && becomesResult(err) {
		return outcome{class: toolError}
	}
	if refused, ok := errors.AsType[*server.RefusedError](err); ok && refused.Hidden {
		err = &jsonrpc.Error{Code: hiddenCode(call)}
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](era.ErrorFor(call.Caller.Version, err)); ok {
		if isFaultOfClient(answer.Code) {
			return outcome{code: answer.Code}
		}
		return outcome{answer.Code, strconv.Itoa(int(answer.Code)), cut(answer.Message, maxText)}
	}
	if errors.Is(err, context.Canceled) { // the client no longer waits for an answer
		return outcome{class: classOf(err)}
	}
	// The client gets no more than a reference to the log.
	return outcome{code: jsonrpc.InternalError, class: strconv.Itoa(int(jsonrpc.InternalError))}
}

// becomesResult reports whether the server converts the error of a tool to a result.
func becomesResult(err error) bool {
	if refusal, ok := errors.AsType[mcp.ToolRefusal](err); ok {
		return refusal.ToolResult() != nil
	}
	_, failed := errors.AsType[*server.FunctionError](err)
	return failed
}

// hiddenCode returns the code for a name that does not exist.
func hiddenCode(call *mcp.Call) jsonrpc.Code {
	if call.Method() == mcp.MethodResourcesRead {
		return mcp.CodeResourceNotFound
	}
	return jsonrpc.InvalidParams
}

// isFaultOfClient reports whether a code is no error of the server by the conventions.
func isFaultOfClient(code jsonrpc.Code) bool {
	switch code {
	case jsonrpc.ParseError, jsonrpc.InvalidRequest, jsonrpc.MethodNotFound, jsonrpc.InvalidParams, mcp.CodeResourceNotFound:
		return true
	}
	return false
}

// classOf returns the class of an error that is not one of JSON-RPC.
func classOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, transport.ErrNotReached):
		return "not_reached"
	case errors.Is(err, jsonrpc.ErrClosed):
		return "closed"
	}
	return other
}

// cut returns at most limit bytes of s, as valid UTF-8.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
