package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Failure is the reason why a server has not answered a call. Clients receive it as
// data.type of the error.
type Failure string

// The failures.
const (
	// Unavailable means that the server does not run, or cannot be reached.
	Unavailable Failure = "UPSTREAM_UNAVAILABLE"
	// Lost means that the connection ended before the reply.
	Lost Failure = "UPSTREAM_LOST"
	// TimedOut means that the reply did not come in time.
	TimedOut Failure = "UPSTREAM_TIMEOUT"
	// Busy means that too many calls run or wait at the server.
	Busy Failure = "UPSTREAM_BUSY"
	// LimitExceeded means that the server has exceeded one of [ProxyOptions].Limits.
	LimitExceeded Failure = "UPSTREAM_LIMIT_EXCEEDED"
	// Malformed means that the reply, or a list of the server, is not valid.
	Malformed Failure = "UPSTREAM_MALFORMED"
)

// An UpstreamError says that a server has not answered a call. Errors that the server itself
// returns are forwarded unchanged.
type UpstreamError struct {
	// Server is the alias, "" for a proxy or relay.
	Server string
	// Failure is the reason, for programs and clients.
	Failure Failure
	// Delivery says whether the call may have been executed.
	Delivery jsonrpc.Delivery
	// Err is the cause, for the operator. It is not sent to clients.
	Err error
}

// Error names the server, the cause and the delivery.
func (e *UpstreamError) Error() string {
	return fmt.Sprintf("server %q: %v (%v)", e.Server, e.Err, e.Delivery)
}

// Unwrap returns Err.
func (e *UpstreamError) Unwrap() error { return e.Err }

// As sets a target of type **[jsonrpc.Error] to the error that clients receive.
func (e *UpstreamError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if !ok {
		return false
	}
	executed, outcome := "no", "was not executed"
	if e.Delivery == jsonrpc.MaybeExecuted {
		executed, outcome = "maybe", "may have been executed"
	}
	data, err := json.Marshal(struct {
		Type     Failure `json:"type"`
		Server   string  `json:"server,omitempty"`
		Executed string  `json:"executed"`
	}{e.Failure, e.Server, executed})
	if err != nil {
		return false
	}
	reason := map[Failure]string{
		Unavailable: "is not available at the moment",
		Lost:        "closed the connection before it answered",
		TimedOut:    "did not answer in time",
		Busy:        "has too many calls to take another",
		Malformed:   "gave an answer that cannot be understood",

		LimitExceeded: "exceeded a limit for servers",
	}[e.Failure]
	if errors.Is(e.Err, errFurtherSession) {
		outcome += ": " + errFurtherSession.Error()
	}
	*wire = &jsonrpc.Error{
		Code: jsonrpc.InternalError, Message: fmt.Sprintf("%s %s; the call %s", ownerOf(e.Server), reason, outcome), Data: data,
	}
	return true
}

// An UnknownServerError says that a bridge has no server with an alias.
type UnknownServerError struct {
	Server string // the alias
}

// Error names the alias.
func (e *UnknownServerError) Error() string {
	return fmt.Sprintf("the bridge has no server %q", e.Server)
}

// notRun returns the error of a call that was not sent to the server.
func notRun(ctx context.Context, alias string, err error) error {
	e := &UpstreamError{Server: alias, Failure: Unavailable, Delivery: jsonrpc.NotSent, Err: err}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		e.Failure = TimedOut
	case errors.Is(err, errBusy), errors.Is(err, errTooManySessions):
		e.Failure = Busy
	}
	return e
}

// failed converts the error of a call that was sent. Errors and questions of the server, and errors about answers of the client,
// are returned unchanged.
func failed(ctx context.Context, alias string, err error) error {
	call, ok := errors.AsType[*jsonrpc.CallError](err)
	if _, unanswered := errors.AsType[*era.UnansweredError](err); unanswered || !ok { // the first is about a call to the client
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return &UpstreamError{Server: alias, Failure: failureOf(call), Delivery: call.Delivery, Err: call.Err}
}

func failureOf(err *jsonrpc.CallError) Failure {
	_, limited := errors.AsType[*mcp.LimitError](err)
	_, replied := errors.AsType[*jsonrpc.Error](err)
	switch {
	case limited:
		return LimitExceeded
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case err.Delivery == jsonrpc.Rejected && replied:
		return Busy
	case err.Delivery != jsonrpc.MaybeExecuted:
		return Unavailable
	case isNetworkError(err):
		return Lost
	}
	return Malformed
}

// isNetworkError reports whether the connection has failed, rather than brought an invalid
// reply.
func isNetworkError(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{jsonrpc.ErrClosed, transport.ErrNotReached, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe}, func(end error) bool {
		return errors.Is(err, end)
	})
}
