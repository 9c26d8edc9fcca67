package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A Failure is why a call has no answer of the server.
type Failure string

// The failures. What a caller is told has them as data.type.
const (
	// Unavailable: the server does not run, or cannot be reached.
	Unavailable Failure = "UPSTREAM_UNAVAILABLE"
	// Lost: the connection ended before the answer came.
	Lost Failure = "UPSTREAM_LOST"
	// TimedOut: the answer did not come in time.
	TimedOut Failure = "UPSTREAM_TIMEOUT"
	// Busy: too many calls run at the server, or wait to.
	Busy Failure = "UPSTREAM_BUSY"
	// Malformed: what came is no answer.
	Malformed Failure = "UPSTREAM_MALFORMED"
)

// An UpstreamError is a call that a server has not answered. What a server answers, an
// error too, is passed on as it is.
type UpstreamError struct {
	// Server is the alias.
	Server string
	// Failure is what went wrong.
	Failure Failure
	// Delivery says whether the call may have been executed.
	Delivery jsonrpc.Delivery
	// Err is the reason, for the operator: callers are not told.
	Err error
}

// Error says what went wrong and how far the call got.
func (e *UpstreamError) Error() string {
	return fmt.Sprintf("server %q: %v (%v)", e.Server, e.Err, e.Delivery)
}

// Unwrap returns the reason.
func (e *UpstreamError) Unwrap() error { return e.Err }

// As makes the error one of JSON-RPC where a caller is to be told.
func (e *UpstreamError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if !ok {
		return false
	}
	executed, words := "no", "was not executed"
	if e.Delivery == jsonrpc.MaybeExecuted {
		executed, words = "maybe", "may have been executed"
	}
	data, err := json.Marshal(struct {
		Type     Failure `json:"type"`
		Server   string  `json:"server,omitempty"`
		Executed string  `json:"executed"`
	}{e.Failure, e.Server, executed})
	if err != nil {
		return false
	}
	what := map[Failure]string{
		Unavailable: "is not available at the moment",
		Lost:        "has gone away before it answered",
		TimedOut:    "did not answer in time",
		Busy:        "has too many calls to take another",
		Malformed:   "gave an answer that cannot be understood",
	}[e.Failure]
	*wire = &jsonrpc.Error{
		Code: jsonrpc.InternalError, Message: fmt.Sprintf("%s %s; the call %s", ownerOf(e.Server), what, words), Data: data,
	}
	return true
}

// notRun is a call that could not be passed on.
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

// failed is what has become of a call that was passed on.
func failed(ctx context.Context, alias string, err error) error {
	call, ok := errors.AsType[*jsonrpc.CallError](err)
	if !ok {
		return err // the server's, or a question
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return &UpstreamError{Server: alias, Failure: failureOf(call), Delivery: call.Delivery, Err: call.Err}
}

func failureOf(err *jsonrpc.CallError) Failure {
	_, spoken := errors.AsType[*jsonrpc.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case err.Delivery == jsonrpc.Rejected && spoken:
		return Busy
	case err.Delivery != jsonrpc.MaybeExecuted:
		return Unavailable
	case isOfNetwork(err):
		return Lost
	}
	return Malformed
}

// isOfNetwork says whether a connection has ended rather than brought something odd.
func isOfNetwork(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{jsonrpc.ErrClosed, transport.ErrNotReached, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe}, func(end error) bool {
		return errors.Is(err, end)
	})
}
