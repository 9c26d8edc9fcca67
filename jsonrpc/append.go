package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An Appender writes itself as one JSON value at the end of dst, which it
// returns. On an error what it returns is not used.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// Raw is a JSON value that is written as it is.
type Raw json.RawMessage

// AppendJSON appends the value, null when it is empty.
func (r Raw) AppendJSON(dst []byte) ([]byte, error) {
	if len(r) == 0 {
		return append(dst, "null"...), nil
	}
	return append(dst, r...), nil
}

// Append appends a message as one JSON object. Raw values are copied as they
// are, unchecked; strings are escaped no more than JSON asks. An error response
// without an id is written without that member, as MCP has it; JSON-RPC 2.0
// itself would write null, and [Decode] takes both. The error is that of a
// message that is none, such as a response with neither result nor error; dst
// then comes back as it was.
func Append(dst []byte, m Message) ([]byte, error) {
	switch m := m.(type) {
	case *Request:
		return appendCall(dst, m)
	case *Response:
		return appendResponse(dst, m)
	}
	return dst, errors.New("jsonrpc: no message to append")
}

func appendCall(dst []byte, r *Request) ([]byte, error) {
	if err := r.ID.checkLength(); err != nil {
		return dst, err
	}
	if r.Params == nil {
		return AppendRequest(dst, r.ID, r.Method, nil)
	}
	return AppendRequest(dst, r.ID, r.Method, (*Raw)(&r.Params))
}

func appendResponse(dst []byte, r *Response) ([]byte, error) {
	switch err := r.ID.checkLength(); {
	case err != nil:
		return dst, err
	case r.Error != nil && r.Result != nil:
		return dst, errors.New("jsonrpc: a response must not have both a result and an error")
	case r.Error != nil:
		return appendErrorResponse(dst, r.ID, r.Error), nil
	case r.Result == nil:
		return dst, errors.New("jsonrpc: a response must have a result or an error")
	case r.ID.IsZero():
		return dst, errors.New("jsonrpc: a response with a result must have an id")
	}
	dst = appendResultStart(dst, r.ID)
	dst = append(dst, r.Result...)
	return append(dst, '}'), nil
}

// checkLength keeps Append from writing what Decode would refuse.
func (id ID) checkLength() error {
	if len(id.text) > MaxIDLength {
		return fmt.Errorf("jsonrpc: id must have at most %d bytes, not %d", MaxIDLength, len(id.text))
	}
	return nil
}
