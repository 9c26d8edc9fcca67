package gateway

import (
	"context"
	"errors"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A RunKind is why a run has no result: "type" of what a [ToolServer] answers. It is an error,
// so that errors.Is(err, RunRejected) tells what a [RunnerError] is. Beside those below there
// are the outcomes of an [Audit].
type RunKind string

// Kinds of runs that have no result. The original clients know the first two.
const (
	RunRejected RunKind = "rejected" // somebody has said no
	RunExpired  RunKind = "timeout"  // nobody has answered in time

	RunForbidden     RunKind = "forbidden"      // the policy denies the call
	RunToolError     RunKind = "tool_error"     // the tool has failed, and says so
	RunTimedOut      RunKind = "call_timeout"   // the call took too long
	RunUnknownServer RunKind = "unknown_server" // the operator has no server of that name
	RunUnknownTool   RunKind = "unknown_tool"   // the server has no tool of that name
	RunNoLaunch      RunKind = "launch_refused" // the caller must not launch this server
	RunConflict      RunKind = "conflict"       // another server runs under that name
	RunNotStarted    RunKind = "start_failed"   // the server could not be launched
	RunReset         RunKind = "reset"          // the servers were reset meanwhile
	RunClosed        RunKind = "closed"         // the tool server has been closed
	RunBusy          RunKind = "busy"           // too many servers run
)

// Error is the kind.
func (k RunKind) Error() string { return "gateway: run failed: " + string(k) }

// A runError is why a run has no result, in words for its caller.
type runError struct {
	kind    RunKind
	message string
	err     error
}

func (e *runError) Error() string { return e.message }

func (e *runError) Unwrap() error { return e.err }

// As gives the error to interceptors as one that callers are told.
func (e *runError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.message}
	}
	return ok
}

var (
	errReset = &runError{RunReset, "the tool server was reset; the call may have been executed", context.Canceled}
	// errClosed ends runs whether or not their calls have been made.
	errClosed   = &runError{RunClosed, "the tool server has been closed; the call may have been executed", context.Canceled}
	errReplaced = &runError{RunConflict, "another server was launched under the same name; the call may have been executed", context.Canceled}
	errIdle     = errors.New("idle")
	errEnded    = errors.New("it has ended by itself")
	// errOnlyAsked ends a run that has got as far as its call and must not make it.
	errOnlyAsked = &runError{kindOnlyAsked, "nothing was run: only approval was asked for", nil}
	errNotMarked = &runError{kindNotAsked, "the approver was not told that nothing would be run: the gate's Describe must be that of the directory", nil}
)

// runErrorOf says what an error is to callers.
func runErrorOf(err error) *runError {
	if own, ok := errors.AsType[*runError](err); ok {
		return &runError{own.kind, own.message, err}
	}
	if said, ok := errors.AsType[*bridge.ToolError](err); ok {
		return &runError{RunToolError, said.Error(), err}
	}
	if refused, ok := errors.AsType[*approval.Error](err); ok {
		return &runError{kindOfApproval(refused.Kind), refused.Error(), err}
	}
	failed := failureOf(err)
	kind := RunKind(failed.kind)
	if failed.kind == kindTimeout {
		kind = RunTimedOut
	}
	return &runError{kind, failed.message, err}
}

// kindOfApproval is the kind of a call that was not approved, in the original's words where it
// has some.
func kindOfApproval(kind approval.Kind) RunKind {
	switch kind {
	case approval.Rejected:
		return RunRejected
	case approval.Expired:
		return RunExpired
	}
	return RunKind(strings.ToLower(string(kind)))
}

// upstreamError is a call that a server has not answered. What the server says stays what it
// is.
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
