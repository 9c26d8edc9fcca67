package jsonrpc

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An Appender appends itself as one JSON value to dst, and returns the extended slice. The
// slice is not used if there is an error.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// Raw is a JSON value that is written as it is.
type Raw json.RawMessage

// AppendJSON appends the value, or null if it is empty.
func (r Raw) AppendJSON(dst []byte) ([]byte, error) {
	if len(r) == 0 {
		return append(dst, "null"...), nil
	}
	return append(dst, r...), nil
}

// Append appends a message as one JSON object. Raw values are copied unchecked. An error
// response without an id is written without that member, as MCP requires; JSON-RPC 2.0
// itself writes null, and [Decode] accepts both. Append returns dst and an error if the
// message is invalid, such as a response with neither result nor error.
func Append(dst []byte, m Message) ([]byte, error) {
	switch m := m.(type) {
	case *Request:
		if m.Params == nil {
			return AppendRequest(dst, m.ID, m.Method, nil)
		}
		return AppendRequest(dst, m.ID, m.Method, (*Raw)(&m.Params))
	case *Response:
		return appendResponse(dst, m)
	}
	return dst, errors.New("jsonrpc: no message to append")
}

func appendResponse(dst []byte, r *Response) ([]byte, error) {
	switch {
	case r.Error != nil && r.Result != nil:
		return dst, errors.New("jsonrpc: a response must not have both a result and an error")
	case r.Error != nil:
		return appendErrorResponse(dst, r.ID, r.Error), nil
	case r.Result == nil:
		return dst, errors.New("jsonrpc: a response must have a result or an error")
	case r.ID.IsZero():
		return dst, errors.New("jsonrpc: a response with a result must have an id")
	}
	dst = append(appendResultStart(dst, r.ID), r.Result...)
	return append(dst, '}'), nil
}

// AppendRequest appends a call, or a notification if the id is zero. params may be nil. If params fails, AppendRequest
// returns its error, and the returned slice must not be used.
func AppendRequest(dst []byte, id ID, method string, params Appender) ([]byte, error) {
	dst = appendStart(dst, id)
	dst = jsonscan.AppendString(append(dst, `"method":`...), method)
	if params != nil {
		var err error
		if dst, err = params.AppendJSON(append(dst, `,"params":`...)); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// appendStart begins a message. It omits an id that is zero.
func appendStart(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if !id.IsZero() {
		dst = append(id.AppendJSON(append(dst, `"id":`...)), ',')
	}
	return dst
}

func appendResultStart(dst []byte, id ID) []byte {
	return append(appendStart(dst, id), `"result":`...)
}

// appendErrorResponse appends a response. It omits data that is not valid JSON, which would
// invalidate the message.
func appendErrorResponse(dst []byte, id ID, e *Error) []byte {
	dst = append(appendStart(dst, id), `"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = jsonscan.AppendString(append(dst, `,"message":`...), e.Message)
	if len(e.Data) > 0 && jsonscan.Valid(e.Data) == nil {
		dst = append(append(dst, `,"data":`...), e.Data...)
	}
	return append(dst, '}', '}')
}
