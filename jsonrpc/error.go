package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Code is the code of an [Error]. JSON-RPC 2.0, section 5.1, reserves -32768 to -32000.
type Code int

const (
	// ParseError means that the text is not JSON.
	ParseError Code = -32700
	// InvalidRequest means that the JSON is not a valid message.
	InvalidRequest Code = -32600
	// MethodNotFound means that the receiver does not have the method.
	MethodNotFound Code = -32601
	// InvalidParams means that the method does not accept the params.
	InvalidParams Code = -32602
	// InternalError means that the receiver failed to execute the method.
	InternalError Code = -32603
	// Busy means that a limit such as [Options.MaxInFlight] is reached, or that the receiver is
	// shutting down. The call was not executed. JSON-RPC does not define this code.
	Busy Code = 429
)

// An Error is the error of a response. A call that fails without a response fails with a
// *[CallError].
type Error struct {
	Code    Code            `json:"code"`
	Message string          `json:"message"`        // one sentence
	Data    json.RawMessage `json:"data,omitempty"` // any value as received; nil if absent
}

// Error returns the code and the message. The message is quoted and cut after 256 bytes, so
// that a peer cannot forge lines of a log.
func (e *Error) Error() string {
	return fmt.Sprintf("jsonrpc: %d %s", int(e.Code), jsonscan.Quote(e.Message))
}

// UnmarshalJSON decodes the member error of a response, with the exceptions of [Decode]. The error says that it is
// neither an object nor text, or that it has a member twice.
func (e *Error) UnmarshalJSON(raw []byte) error {
	var d decoder
	d.data, d.scan = raw, jsonscan.New(raw)
	_, err := d.readError()
	switch {
	case err != nil:
		return err
	case d.issue != "":
		return errors.New("jsonrpc: " + d.issue)
	case d.err == nil:
		return fmt.Errorf("jsonrpc: error must be an object, not %v", jsonscan.KindOf(raw))
	}
	*e = *d.err
	e.Data = bytes.Clone(e.Data)
	return d.scan.End()
}

// A DecodeError is the error of a text that is not a valid message. It is found by the
// receiver, so it does not match *[Error] under [errors.As].
type DecodeError struct {
	// ID is the id of the message, zero if it cannot be read.
	ID ID
	// Response reports that the text has a result or an error and no method. Do not answer
	// it: two peers could answer each other's errors forever.
	Response bool
	// Err is the error to send to a peer that waits for a response. Its code is [ParseError]
	// or [InvalidRequest]; for a batch that a [SessionHandler] refuses, it is the handler's; for a
	// message that is refused because of its size, it is [Busy].
	Err *Error
}

// Error returns the message of Err.
func (e *DecodeError) Error() string {
	kind, problem := "message", "malformed"
	if e.Response {
		kind = "answer"
	}
	if e.Err.Code == Busy {
		problem = "refused"
	}
	return "jsonrpc: " + problem + " " + kind + ": " + e.Err.Message
}

// An UnexpectedResponseError is a response that answers no pending call. It is an error for
// [Options.Malformed] only: the response is dropped.
type UnexpectedResponseError struct {
	// ID is the id of the response, zero if it has none.
	ID ID
	// Late reports that a call with this id was made and has ended: it was answered, cancelled
	// or has timed out.
	Late bool
	// Err is the error in the response, nil if it has a result.
	Err *Error
}

// Error returns the id, why no call was pending, and the error in the response.
func (e *UnexpectedResponseError) Error() string {
	text := fmt.Sprintf("jsonrpc: a response without a pending call, with the id %.80s: ", e.ID.AppendJSON(nil))
	switch {
	case e.Late:
		text += "the call has been answered, cancelled or has timed out"
	case e.ID.IsZero():
		text += "the peer could not read a message"
	default:
		text += "no call had this id"
	}
	if e.Err != nil {
		text += "; " + e.Err.Error()
	}
	return text
}

// An UnansweredError says that calls still ran when [Options.Drain] after the end of the input had passed. It is an
// error for [Options.Malformed] only: the calls are cancelled, and their answers are dropped.
type UnansweredError struct {
	// Calls is the number of calls.
	Calls int
	// Drain is the time that they had.
	Drain time.Duration
}

// Error returns the number and the time.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("jsonrpc: the input has ended, and %d calls were not answered within %v: their answers are dropped", e.Calls, e.Drain)
}

// A Delivery is how far a request without a response got.
type Delivery int

const (
	// NotSent means that the request was not sent. It is safe to send it again.
	NotSent Delivery = iota
	// MaybeExecuted means that the request was sent and that the peer may have executed it.
	MaybeExecuted
	// Rejected means that the peer refused the request before executing it.
	Rejected
)

// String returns a phrase such as "not sent".
func (d Delivery) String() string {
	switch d {
	case NotSent:
		return "not sent"
	case MaybeExecuted:
		return "may have been executed"
	case Rejected:
		return "rejected before execution"
	}
	return fmt.Sprintf("Delivery(%d)", int(d))
}

// A CallError is the error of a call that got no valid response, or that the peer refused
// with [Busy].
type CallError struct {
	Method   string
	Delivery Delivery
	Err      error // such as [ErrClosed], context.DeadlineExceeded or a *[DecodeError]
}

// Error returns the method, the cause and the delivery.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s: %v (%v)", e.Method, e.Err, e.Delivery)
}

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// ErrClosed is the error of an operation on a connection that has ended. It matches
// net.ErrClosed under [errors.Is].
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string        { return "connection closed" }
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// ErrCancelled is the cause of a handler's context if the peer has cancelled the call.
var ErrCancelled = errors.New("cancelled by the peer")
