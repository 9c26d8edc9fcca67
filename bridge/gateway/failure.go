package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// A failure is why a call has no result, as callers and counters are told.
type failure struct {
	kind    string // one of a few
	status  int    // of HTTP
	message string
	wire    *jsonrpc.Error // what callers over MCP would be told, nil if that is nothing more
}

// Kinds of failures beside those that packages approval and bridge have, which are the same
// in lower case: "rejected", "upstream_timeout".
const (
	kindForbidden   = "forbidden"      // the policy denies the call
	kindAsks        = "input_required" // the call has a question to its caller
	kindOnlyAsked   = "only_asked"     // the call could be made, and was not to be
	kindCanceled    = "canceled"       // the caller has gone
	kindTimeout     = "timeout"        // the call's own bound
	kindParams      = "invalid_params" // the server does not take such arguments, or has no such tool
	kindUnknown     = "unknown_tool"
	kindNotAsked    = "approval_failed" // as approval.Failed is: it could not be asked whether the call may be made
	kindMalformed   = "upstream_malformed"
	kindUnavailable = "upstream_unavailable"
	kindServer      = "server_error" // any other error of the protocol
	kindInternal    = "internal"     // of which callers are not told
)

// failureOf says what an error is to callers. Only types of this module count: whatever a
// server says, it cannot pass for a decision that was made here.
func failureOf(err error) *failure {
	if _, asks := mcp.AsInputRequired(err); asks {
		return &failure{kindAsks, http.StatusConflict, "the tool has a question to its caller, which can be answered over MCP only", nil}
	}
	wire, _ := errors.AsType[*jsonrpc.Error](err)
	told := func(kind string, status int) *failure { return &failure{kind, status, wire.Message, wire} }
	if own, ok := errors.AsType[*runError](err); ok { // also where a gate has wrapped it
		return told(string(own.kind), http.StatusOK) // as a tool server answers
	}
	if refused, ok := errors.AsType[*approval.Error](err); ok {
		return told(strings.ToLower(string(refused.Kind)), statusOf(refused.Kind))
	}
	if _, ok := errors.AsType[*policy.DeniedError](err); ok {
		return told(kindForbidden, http.StatusForbidden)
	}
	if failed, ok := errors.AsType[*bridge.UpstreamError](err); ok {
		status := http.StatusBadGateway
		switch failed.Failure {
		case bridge.TimedOut:
			status = http.StatusGatewayTimeout
		case bridge.Busy:
			status = http.StatusServiceUnavailable
		}
		return told(strings.ToLower(string(failed.Failure)), status)
	}
	switch {
	case wire != nil && wire.Code == jsonrpc.InvalidParams:
		return told(kindParams, http.StatusUnprocessableEntity)
	case wire != nil:
		return told(kindServer, http.StatusBadGateway)
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{kindTimeout, http.StatusGatewayTimeout, "the call took too long; it may have been executed", nil}
	case errors.Is(err, context.Canceled):
		return &failure{kindCanceled, http.StatusServiceUnavailable, "the call was called off; it may have been executed", nil}
	default:
		return &failure{kindInternal, http.StatusInternalServerError, "internal error", nil}
	}
}

// statusOf is that of a call that was not approved.
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
	default: // nobody could be asked now
		return http.StatusServiceUnavailable
	}
}
