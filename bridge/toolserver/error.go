package toolserver

import (
	"context"
	"errors"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Kind is why a run has no result: "type" of what a [Server] answers. It is an error, so
// that errors.Is(err, Rejected) reports the kind of an [Error]. Other kinds are the outcomes
// of a gateway.Audit.
type Kind string

// Kinds of runs that have no result. The original clients know the first two.
const (
	Rejected Kind = "rejected" // a person has said no
	Expired  Kind = "timeout"  // no person has answered in time

	Forbidden     Kind = "forbidden"      // a guard refuses the call
	ToolError     Kind = "tool_error"     // the tool reports that it has failed
	TimedOut      Kind = "call_timeout"   // the call took too long
	UnknownServer Kind = "unknown_server" // the operator has no server of that name
	UnknownTool   Kind = "unknown_tool"   // the server has no tool of that name
	NoLaunch      Kind = "launch_refused" // the caller must not launch this server
	Conflict      Kind = "conflict"       // another server runs under that name
	NotStarted    Kind = "start_failed"   // the server could not be launched
	Reset         Kind = "reset"          // the servers were reset during the run
	Closed        Kind = "closed"         // the tool server has been closed
	Busy          Kind = "busy"           // too many servers run
)

// Error returns the kind.
func (k Kind) Error() string { return "toolserver: run failed: " + string(k) }

// failure returns why a run has no result, in words for its caller. err may be nil.
func failure(kind Kind, message string, err error) *frontend.Failure {
	return &frontend.Failure{Kind: string(kind), Message: message, Err: err}
}

const mayHaveRun = "; the call may have been executed"

var (
	errReset       = failure(Reset, "the tool server was reset"+mayHaveRun, context.Canceled)
	errClosed      = failure(Closed, "the tool server has been closed"+mayHaveRun, context.Canceled)
	errReplaced    = failure(Conflict, "another server was launched under the same name"+mayHaveRun, context.Canceled)
	errUnknownTool = failure(UnknownTool, "there is no such tool", nil)
	errIdle        = errors.New("idle")
	errEnded       = errors.New("it has ended by itself")
	errOnlyAsked   = failure("only_asked", "nothing was run: only approval was asked for", nil)
)

// failureOf returns what the caller of a run gets for an error.
func failureOf(q *runRequest, err error) *frontend.Failure {
	if said, ok := errors.AsType[*bridge.ToolError](err); ok {
		return failure(ToolError, said.Error(), err)
	}
	if refused, ok := errors.AsType[*approval.Error](err); ok {
		named := *refused
		named.Server, named.Tool = q.server, q.tool // as the caller names them
		return failure(kindOfApproval(refused.Kind), named.Error(), err)
	}
	f := *frontend.FailureOf(err) // a copy, as the original may be shared
	switch f.Kind {
	case frontend.TimedOut:
		f.Kind = string(TimedOut)
	case frontend.UnknownTool:
		f.Message = "Unknown tool: " + approval.Printable(frontend.Cut(q.tool))
	}
	return &f
}

// kindOfApproval returns the kind of a call that was not approved, which for two of them is a
// word of the original.
func kindOfApproval(kind approval.Kind) Kind {
	switch kind {
	case approval.Rejected:
		return Rejected
	case approval.Expired:
		return Expired
	}
	return Kind(strings.ToLower(string(kind)))
}

// upstreamError returns the error of a call that a server has not answered. Errors that the
// server has answered stay as they are.
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
