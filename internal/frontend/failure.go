package frontend

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// A Failure is why a call has no result, as clients and counters get it. It is an error, so
// that what a handler refuses by itself can be one too.
type Failure struct {
	// Kind is one of a few.
	Kind string
	// Status is that of HTTP.
	Status  int
	Message string
	// Wire is what a caller over MCP gets; nil if it says no more than Message.
	Wire *jsonrpc.Error
	// Err is the reason, which clients do not learn; it may be nil.
	Err error
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Err }

// As makes the failure an error of JSON-RPC.
func (f *Failure) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: f.Message}
	}
	return ok
}

// Kinds of failures, beside those of packages approval and bridge, which are the same in
// lower case: "rejected", "upstream_timeout".
const (
	Forbidden   = "forbidden"      // a guard refuses the call
	Asks        = "input_required" // the call has a question to its caller
	Canceled    = "canceled"       // the client has gone
	TimedOut    = "timeout"        // the call took too long
	BadParams   = "invalid_params" // the server does not accept the arguments
	UnknownTool = "unknown_tool"
	Malformed   = "upstream_malformed"
	Unavailable = "upstream_unavailable"
	ServerError = "server_error" // any other error of the protocol
	Internal    = "internal"     // the log has the reason
)

// MalformedAnswer is the failure of a call whose result cannot be read.
var MalformedAnswer = &Failure{
	Kind: Malformed, Status: http.StatusBadGateway,
	Message: "the server gave an answer that cannot be understood; the call was executed",
}

// FailureOf returns what an error is to clients. It depends on types of this module only, so
// that the error of a server cannot pass for a decision that was made here.
func FailureOf(err error) *Failure {
	if own, ok := errors.AsType[*Failure](err); ok { // also one that an approval has wrapped
		return own
	}
	if _, asks := mcp.AsInputRequired(err); asks {
		return &Failure{Kind: Asks, Status: http.StatusConflict, Message: "the tool has a question to its caller, which can be answered over MCP only"}
	}
	wire, _ := errors.AsType[*jsonrpc.Error](err)
	failure := func(kind string, status int) *Failure {
		f := &Failure{Kind: kind, Status: status, Message: "internal error", Wire: wire, Err: err}
		if wire != nil {
			f.Message = wire.Message
		}
		return f
	}
	if refused, ok := errors.AsType[*approval.Error](err); ok {
		return failure(strings.ToLower(string(refused.Kind)), statusOf(refused.Kind))
	}
	if _, ok := errors.AsType[*policy.DeniedError](err); ok {
		return failure(Forbidden, http.StatusForbidden)
	}
	if _, ok := errors.AsType[*server.RefusedError](err); ok {
		return failure(Forbidden, http.StatusForbidden)
	}
	if failed, ok := errors.AsType[*bridge.UpstreamError](err); ok {
		status := http.StatusBadGateway
		switch failed.Failure {
		case bridge.TimedOut:
			status = http.StatusGatewayTimeout
		case bridge.Busy:
			status = http.StatusServiceUnavailable
		}
		return failure(strings.ToLower(string(failed.Failure)), status)
	}
	if failed, ok := errors.AsType[*server.InternalError](err); ok {
		return &Failure{Kind: Internal, Status: http.StatusInternalServerError, Message: failed.Error(), Err: err}
	}
	switch {
	case wire != nil && wire.Code == jsonrpc.InvalidParams:
		return failure(BadParams, http.StatusUnprocessableEntity)
	case wire != nil:
		return failure(ServerError, http.StatusBadGateway)
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{TimedOut, http.StatusGatewayTimeout, "the call took too long; it may have been executed", nil, err}
	case errors.Is(err, context.Canceled):
		return &Failure{Canceled, http.StatusServiceUnavailable, "the call was called off; it may have been executed", nil, err}
	default:
		return failure(Internal, http.StatusInternalServerError)
	}
}

// CallFailureOf is [FailureOf] for the error of a call, which tells a tool that the caller
// cannot see from arguments that are wrong.
func CallFailureOf(call *mcp.Call, err error) *Failure {
	f := *FailureOf(err) // a copy, as the original may be shared
	refused, _ := errors.AsType[*server.RefusedError](err)
	hidden := refused != nil && refused.Hidden
	if call.Method() == mcp.MethodToolsCall && (hidden || f.Kind == BadParams && call.Target() == nil) {
		f.Kind, f.Status = UnknownTool, http.StatusNotFound
		f.Message = "there is no tool " + jsonscan.Quote(jsonscan.Unquote(call.Member("name")))
	}
	return &f
}

// statusOf is the status of a call that was not approved.
func statusOf(kind approval.Kind) int {
	switch kind {
	case approval.Rejected:
		return http.StatusForbidden
	case approval.Expired:
		return http.StatusGatewayTimeout
	case approval.Spent, approval.Changed:
		return http.StatusConflict
	case approval.TooMany:
		return http.StatusTooManyRequests
	default: // there is no one to ask at the moment
		return http.StatusServiceUnavailable
	}
}
