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

// A Failure says why a call has no result, for clients and counters. It is an error, so that a
// handler can return one of its own.
type Failure struct {
	// Code identifies the failure. It is one of the constants of this package, or a code of
	// package approval, bridge or toolserver.
	Code string
	// Status is the HTTP status.
	Status  int
	Message string
	// Wire is the error that a caller over MCP gets; nil if it contains no more than Message.
	Wire *jsonrpc.Error
	// Err is the cause, for the log only; it may be nil.
	Err error
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// As sets a **[jsonrpc.Error] to the error for a caller over MCP.
func (f *Failure) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: f.Message}
	}
	return ok
}

// MaybeExecuted reports whether the tool may have run.
func (f *Failure) MaybeExecuted() bool {
	if failed, ok := errors.AsType[*bridge.UpstreamError](f.Err); ok {
		return failed.Delivery == jsonrpc.MaybeExecuted
	}
	switch f.Code {
	case Canceled, TimedOut, Malformed, Internal:
		return true
	case ServerError: // the error of another gateway says so
		executed, err := jsonscan.Find(f.Wire.Data, "executed")
		return err == nil && jsonscan.KindOf(executed) == jsonscan.String && jsonscan.KeyIs(executed, "maybe")
	}
	return false
}

// Codes of failures. The codes of packages approval and bridge are added in lower case:
// "rejected", "upstream_timeout".
const (
	Forbidden     = "forbidden"      // a guard refuses the call
	InputRequired = "input_required" // the tool asks its caller for input
	Canceled      = "canceled"       // the caller no longer waits, or an operator has canceled the call
	TimedOut      = "timeout"        // the call took too long
	BadParams     = "invalid_params" // the server refuses the arguments
	UnknownTool   = "unknown_tool"
	Malformed     = "upstream_malformed"
	Unavailable   = "upstream_unavailable"
	ServerError   = "server_error" // any other protocol error
	Internal      = "internal"     // the log has the cause
)

// MalformedResult is the failure of a call with an invalid result.
var MalformedResult = &Failure{
	Code: Malformed, Status: http.StatusBadGateway,
	Message: "the server returned an invalid result; the call was executed",
}

// FailureOf classifies an error. It tests only for types of this module, so that the error of
// an upstream server cannot imitate a decision of this process.
func FailureOf(err error) *Failure {
	if own, ok := errors.AsType[*Failure](err); ok { // also one that an approval error wraps
		return own
	}
	if _, asks := mcp.AsInputRequired(err); asks {
		return &Failure{Code: InputRequired, Status: http.StatusConflict, Message: "the tool asks its caller for input, which is possible over MCP only"}
	}
	wire, _ := errors.AsType[*jsonrpc.Error](err)
	failure := func(code string, status int) *Failure {
		f := &Failure{Code: code, Status: status, Message: "internal error", Wire: wire, Err: err}
		if wire != nil {
			f.Message = wire.Message
		}
		return f
	}
	if refused, ok := errors.AsType[*approval.Error](err); ok {
		return failure(strings.ToLower(string(refused.Code)), statusOf(refused.Code))
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
		return &Failure{Code: Internal, Status: http.StatusInternalServerError, Message: failed.Error(), Err: err}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Failure{Canceled, http.StatusServiceUnavailable, "the call was canceled; it may have been executed", nil, err}
	case wire != nil && wire.Code == jsonrpc.InvalidParams:
		return failure(BadParams, http.StatusUnprocessableEntity)
	case wire != nil:
		return failure(ServerError, http.StatusBadGateway)
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{TimedOut, http.StatusGatewayTimeout, "the call took too long; it may have been executed", nil, err}
	default:
		return failure(Internal, http.StatusInternalServerError)
	}
}

// CallFailureOf is [FailureOf] for the error of a call. It reports a tool that is hidden from
// the caller, or does not exist, as [UnknownTool].
func CallFailureOf(call *mcp.Call, err error) *Failure {
	f := *FailureOf(err) // the original may be shared
	refused, _ := errors.AsType[*server.RefusedError](err)
	hidden := refused != nil && refused.Hidden
	if call.Method() == mcp.MethodToolsCall && (hidden || f.Code == BadParams && call.Target() == nil) {
		f.Code, f.Status = UnknownTool, http.StatusNotFound
		f.Message = "there is no tool " + jsonscan.Quote(jsonscan.Unquote(call.Member("name")))
	}
	return &f
}

// statusOf returns the HTTP status of a call that was not approved.
func statusOf(code approval.Code) int {
	switch code {
	case approval.Rejected:
		return http.StatusForbidden
	case approval.Expired:
		return http.StatusGatewayTimeout
	case approval.Spent, approval.Changed:
		return http.StatusConflict
	case approval.TooMany:
		return http.StatusTooManyRequests
	default: // no approver is available
		return http.StatusServiceUnavailable
	}
}
