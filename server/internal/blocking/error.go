package blocking

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Causes of the end of a function's context.
var (
	errTooLate   = fmt.Errorf("the question was not answered within %v", WaitTimeout)
	errAbandoned = errors.New("the caller no longer waits for the result")
	errShutdown  = errors.New("the server is shutting down")
	errTaskEnded = errors.New("the task of the call has ended")
)

// partly returns an error that says that the function has begun. kind is for programs.
func partly(code jsonrpc.Code, kind, message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: message + "; the call may have been executed in part", Data: json.RawMessage(`{"type":"` + kind + `"}`)}
}

// Interrupted returns the error of a call whose function was interrupted.
func Interrupted(cause error) *jsonrpc.Error {
	return partly(jsonrpc.InternalError, "CALL_INTERRUPTED", "the call was interrupted: "+cause.Error())
}

// ErrShutdown is the error of a call that cannot continue, because the server is shutting down.
var ErrShutdown = Interrupted(errShutdown)

var (
	errNotWaiting = partly(jsonrpc.InvalidParams, "CALL_NOT_WAITING", "the call no longer waits for these answers: they came too late, or again")
	errElsewhere  = partly(jsonrpc.InvalidParams, "CALL_ELSEWHERE", "the call waits for its answers in another process, which shares no store with this one")
	errNoRoom     = partly(jsonrpc.InternalError, "TOO_MANY_QUESTIONS", "the server has no room for another question")
)

// errLost is the error of a call whose replica does not answer.
func errLost() error {
	return partly(jsonrpc.InternalError, "CALL_LOST", "the server that ran the call has ended, or cannot be reached")
}

// A wireError is an error between replicas: a *[jsonrpc.Error], or a text.
type wireError struct {
	Code    jsonrpc.Code    `json:"code,omitempty"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func newWireError(err error) *wireError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &wireError{e.Code, e.Message, e.Data}
	}
	return &wireError{Message: err.Error()}
}

func (e *wireError) error() error {
	switch {
	case e == nil:
		return nil
	case e.Code == 0:
		return errors.New(e.Message)
	}
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}
