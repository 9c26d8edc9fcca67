package jsonrpc

import (
	"errors"
	"fmt"
	"net"
)

// Delivery says how far a request got that has no answer.
type Delivery int

const (
	// NotSent: the request never left; sending it again is safe.
	NotSent Delivery = iota
	// MaybeExecuted: the request left and its fate is unknown; only the caller
	// can know whether it may be sent again.
	MaybeExecuted
	// Rejected: the peer refused the request before executing it.
	Rejected
)

// String returns the constant's name in words.
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

// A CallError is a call that failed on this side or on the way: the peer did
// not answer it. Err is the reason; a closed connection is [ErrClosed], a
// deadline context.DeadlineExceeded.
type CallError struct {
	Method   string
	Delivery Delivery
	Err      error
}

// Error names the method, the reason and how far the request got.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s: %v (%v)", e.Method, e.Err, e.Delivery)
}

// Unwrap returns the reason.
func (e *CallError) Unwrap() error { return e.Err }

// ErrClosed is the reason of everything that fails because the connection has
// ended. It is net.ErrClosed under errors.Is.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string        { return "connection closed" }
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// ErrCancelled is the cause of a handler's context when the peer has cancelled
// its call.
var ErrCancelled = errors.New("cancelled by the peer")

// Busy is the code that answers a call beyond [Options.MaxInFlight]. It lies
// outside the range that JSON-RPC reserves.
const Busy Code = 429
