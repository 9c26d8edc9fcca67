package jsonrpc

import (
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// The parts of a message that are written around what others append, so that
// params and results are never encoded twice.

// AppendRequest appends a call whose params append themselves, or a notification
// when the id is zero. params may be nil. On an error what it returns is not used.
func AppendRequest(buf []byte, id ID, method string, params Appender) ([]byte, error) {
	buf = append(buf, `{"jsonrpc":"2.0",`...)
	if !id.IsZero() {
		buf = append(buf, `"id":`...)
		buf = append(id.AppendJSON(buf), ',')
	}
	buf = jsonscan.AppendString(append(buf, `"method":`...), method)
	if params != nil {
		var err error
		if buf, err = params.AppendJSON(append(buf, `,"params":`...)); err != nil {
			return buf, err
		}
	}
	return append(buf, '}'), nil
}

func appendResultStart(buf []byte, id ID) []byte {
	buf = append(buf, `{"jsonrpc":"2.0","id":`...)
	buf = id.AppendJSON(buf)
	return append(buf, `,"result":`...)
}

// appendErrorResponse leaves the id out when it could not be read, as MCP has
// it since 2025-11-25; JSON-RPC 2.0 itself would have null.
func appendErrorResponse(buf []byte, id ID, e *Error) []byte {
	buf = append(buf, `{"jsonrpc":"2.0",`...)
	if !id.IsZero() {
		buf = append(buf, `"id":`...)
		buf = append(id.AppendJSON(buf), ',')
	}
	buf = append(buf, `"error":{"code":`...)
	buf = strconv.AppendInt(buf, int64(e.Code), 10)
	buf = jsonscan.AppendString(append(buf, `,"message":`...), e.Message)
	if len(e.Data) > 0 && jsonscan.Valid(e.Data) == nil { // anything else would break the message
		buf = append(append(buf, `,"data":`...), e.Data...)
	}
	return append(buf, '}', '}')
}
