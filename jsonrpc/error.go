package jsonrpc

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Code says what kind of error an [Error] is. JSON-RPC 2.0, section 5.1,
// reserves -32768 to -32000 and defines those below.
type Code int

// The codes of JSON-RPC 2.0.
const (
	ParseError     Code = -32700 // the text is not JSON
	InvalidRequest Code = -32600 // it is JSON, but not a message
	MethodNotFound Code = -32601 // there is no such method
	InvalidParams  Code = -32602 // the method does not take such params
	InternalError  Code = -32603 // the method failed for a reason of its own
)

// String names a code of JSON-RPC 2.0, and writes any other as its number.
func (c Code) String() string {
	switch c {
	case ParseError:
		return "parse error"
	case InvalidRequest:
		return "invalid request"
	case MethodNotFound:
		return "method not found"
	case InvalidParams:
		return "invalid params"
	case InternalError:
		return "internal error"
	}
	return strconv.Itoa(int(c))
}

// An Error is an error of the protocol: the peer said so, or will be told so.
// A failure on this side or on the way has another type. It may be read
// concurrently.
type Error struct {
	Code    Code            `json:"code"`
	Message string          `json:"message"`        // one sentence
	Data    json.RawMessage `json:"data,omitempty"` // any value as it came, nil when there is none
}

// Error returns the code and the message. What came from the peer is quoted and
// cut after 256 bytes, so that it cannot forge lines of a log.
func (e *Error) Error() string {
	return fmt.Sprintf("jsonrpc: %d %s", int(e.Code), jsonscan.Quote(e.Message))
}

// AppendJSON appends the error object. The data are appended as they are.
func (e *Error) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = jsonscan.AppendString(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}'), nil
}

// A DecodeError is a text that is not a message.
type DecodeError struct {
	// ID is the id of what came, if it could be read; zero otherwise.
	ID ID
	// Response tells that it was meant as a response, which must not be
	// answered: it has a result or an error, and no method.
	Response bool
	// Err is what a peer who sent a request is to be told: its code is
	// [ParseError] or [InvalidRequest].
	Err *Error
}

// Error says what was expected and what came.
func (e *DecodeError) Error() string {
	return "jsonrpc: " + e.Err.Code.String() + ": " + e.Err.Message
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }
