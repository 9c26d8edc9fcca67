package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// answer answers a call that needs nothing but itself, on the goroutine of its
// request. That the client hangs up cancels it. MCP 2026-07-28,
// basic/transports/streamable-http.
func (e *Endpoint) answer(w http.ResponseWriter, r *http.Request, takes accepted, req *jsonrpc.Request, claim []byte) {
	if describesItself(req, claim) {
		if err := e.checkHeaders(r.Header, req, claim); err != nil {
			refuseCall(w, http.StatusBadRequest, req, asError(err))
			return
		}
	}
	if req.Method == mcp.MethodSubscriptionsListen {
		defer e.listens.Add(-1)
		if !e.admitsListen(w, takes, req) {
			return
		}
	}
	x := exchange{endpoint: e, w: w, takes: takes}
	if req.Method != mcp.MethodSubscriptionsListen { // which holds no memory until it ends
		memory := e.replies.Get()
		defer func() { memory.Bytes = x.reply.Buf; memory.Free() }()
		x.reply.Buf = memory.Bytes
	}
	err := jsonrpc.Answer(r.Context(), e.modern, &x, req, &x.reply)
	if errors.Is(r.Context().Err(), context.Canceled) { // not by a deadline, of which the client must be told
		x.abandon()
	} else {
		challenge(w, err) // without effect if the answer has begun
		x.finish(status(err), x.reply.Buf)
	}
}

// admitsListen counts a subscription. One that is not admitted has been answered.
func (e *Endpoint) admitsListen(w http.ResponseWriter, takes accepted, req *jsonrpc.Request) bool {
	open := e.listens.Add(1)
	switch {
	case !takes.events:
		refuseCall(w, http.StatusNotAcceptable, req, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "a subscription is a stream: Accept must list text/event-stream"})
	case e.opts.MaxListens >= 0 && open > int64(e.opts.MaxListens):
		refuseBusy(w, fmt.Sprintf("at most %d subscriptions can be open", e.opts.MaxListens))
	default:
		return true
	}
	return false
}

func asError(err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "internal error"}
}

// status is that of an answer: errors of a call that has run are no errors of HTTP.
// MCP 2026-07-28, basic/index, "Error Codes".
func status(err error) int {
	if err == nil {
		return http.StatusOK
	}
	switch asError(err).Code {
	case jsonrpc.MethodNotFound:
		return http.StatusNotFound
	case mcp.CodeMissingClientCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	if _, rejected := errors.AsType[*transport.RejectedError](err); rejected {
		return http.StatusBadRequest
	}
	if _, lacks := errors.AsType[*transport.ScopeError](err); lacks {
		return http.StatusForbidden
	}
	return http.StatusOK
}
