package toolserver

import (
	"context"
	"errors"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Codes of runs without a result. The clients of ipybox know the first two.
const (
	codeRejected        = "rejected" // a person said no
	codeApprovalExpired = "timeout"  // no person answered in time

	codeForbidden     = "forbidden"      // a guard refuses the call
	codeToolError     = "tool_error"     // the tool reports a failure
	codeCallTimedOut  = "call_timeout"   // the call took too long
	codeUnknownServer = "unknown_server" // there is no such operator's server
	codeUnknownTool   = "unknown_tool"   // the server has no such tool
	codeLaunchRefused = "launch_refused" // the caller must not launch this server
	codeConflict      = "conflict"       // another server runs under that name
	codeStartFailed   = "start_failed"   // the server could not be launched
	codeReset         = "reset"          // the servers were reset during the run
	codeClosed        = "closed"         // the tool server has been closed
	codeBusy          = "busy"           // too many servers are running
)

// failure returns a failure with a message for the caller. err may be nil.
func failure(code, message string, err error) *frontend.Failure {
	return &frontend.Failure{Code: code, Message: message, Err: err}
}

// Failures of runs that are interrupted. [run.interrupted] adds whether the call may have been
// executed.
var (
	errReset    = failure(codeReset, "the tool server was reset", context.Canceled)
	errClosed   = failure(codeClosed, "the tool server has been closed", context.Canceled)
	errReplaced = failure(codeConflict, "another server was launched under the same name", context.Canceled)
)

var (
	errUnknownTool  = failure(codeUnknownTool, "there is no such tool", nil)
	errIdle         = errors.New("idle")
	errEnded        = errors.New("the server ended")
	errOtherParams  = errors.New("the running server has other params")
	errApprovalOnly = failure("only_asked", "only approval was requested; nothing was run", nil)
)

// interrupted adds to the failure of an interrupted run whether the call may have been executed. It
// returns other failures unchanged.
func (r *run) interrupted(f *frontend.Failure) *frontend.Failure {
	switch f.Code {
	case codeReset, codeClosed, codeConflict, frontend.TimedOut, frontend.Canceled:
	default:
		return f
	}
	if !errors.Is(f.Err, context.Canceled) && !errors.Is(f.Err, context.DeadlineExceeded) {
		return f
	}
	outcome := "; the call may have been executed"
	if r.unsent.Load() || r.launch != nil && !r.sent.Load() {
		outcome = "; the call was not executed"
	}
	said := *f
	said.Message, _, _ = strings.Cut(f.Message, ";")
	said.Message += outcome
	return &said
}

// failureOf classifies the error of a run.
func failureOf(q *runRequest, err error) *frontend.Failure {
	if tool, ok := errors.AsType[*llm.ToolError](err); ok {
		return failure(codeToolError, tool.Error(), err)
	}
	if refused, ok := errors.AsType[*approval.Error](err); ok {
		named := *refused
		named.Server, named.Tool = q.server, q.tool // the names that the caller uses
		return failure(codeOfApproval(refused.Code), named.Error(), err)
	}
	f := *frontend.FailureOf(err) // the original may be shared
	switch f.Code {
	case frontend.TimedOut:
		f.Code = codeCallTimedOut
	case frontend.UnknownTool:
		f.Message = "Unknown tool: " + approval.Printable(frontend.Truncate(q.tool))
	}
	return &f
}

// codeOfApproval returns the code of a call that was not approved. Two codes have the names
// that the clients of ipybox know.
func codeOfApproval(code approval.Code) string {
	switch code {
	case approval.Rejected:
		return codeRejected
	case approval.Expired:
		return codeApprovalExpired
	}
	return strings.ToLower(string(code))
}

// upstreamError returns the error of a call to which a server did not respond. It returns the
// server's own errors unchanged.
func upstreamError(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	call, ok := errors.AsType[*jsonrpc.CallError](err)
	if !ok {
		return err
	}
	failed := &bridge.UpstreamError{Server: name, Failure: bridge.Malformed, Delivery: call.Delivery, Err: call.Err}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		failed.Failure = bridge.TimedOut
	case call.Delivery != jsonrpc.MaybeExecuted:
		failed.Failure = bridge.Unavailable
	case errors.Is(err, jsonrpc.ErrClosed):
		failed.Failure = bridge.Lost
	}
	return failed
}
