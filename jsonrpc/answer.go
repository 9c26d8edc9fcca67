package jsonrpc

import (
	"context"
	"errors"
	"fmt"
)

// Answer has a handler answer one call, and appends the whole response to
// reply.Buf: for a transport that has a way of its own for each call. It returns
// the handler's error, which the response holds in the form that the peer may
// see: an *[Error] as it is, any other, a panic too, as a masked internal error.
func Answer(ctx context.Context, handler Handler, from Peer, req *Request, reply *Reply) error {
	return answer(ctx, nil, handler, from, req, reply)
}

// answer is Answer for a call that has to be admitted first, unless may is nil.
func answer(ctx context.Context, may admit, handler Handler, from Peer, req *Request, reply *Reply) error {
	start := len(reply.Buf)
	reply.Buf = appendResultStart(reply.Buf, req.ID)
	empty := len(reply.Buf)
	err := handle(ctx, may, handler, from, req, reply)
	if err == nil && len(reply.Buf) <= empty {
		err = errNoResult
	}
	if err != nil {
		reply.Buf = reply.Buf[:start]
		reply.refuse(req.ID, err)
		return err
	}
	reply.Buf = append(reply.Buf, '}')
	return nil
}

// An admit says whether a call may be handled: see [Options].
type admit func(ctx context.Context, req *Request) error

// refuse is apart so that handlers that wait for long do so on a small stack.
func (r *Reply) refuse(id ID, err error) { r.Buf = appendErrorResponse(r.Buf, id, errorToSend(err)) }

var errNoResult = errors.New("jsonrpc: the handler gave no result")

// handle turns a panic into an error that tells the peer nothing: handlers that
// want more of it recover themselves.
func handle(ctx context.Context, may admit, handler Handler, from Peer, req *Request, reply *Reply) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{req.Method, p}
		}
	}()
	if may != nil {
		if err := may(ctx, req); err != nil {
			return err
		}
	}
	return handler.Handle(ctx, from, req, reply)
}

// A panicError is a panic of a handler.
type panicError struct {
	method string
	value  any
}

func (e *panicError) Error() string {
	return fmt.Sprintf("jsonrpc: panic on %s: %v", e.method, e.value)
}

// errorToSend masks whatever was not meant for the peer.
func errorToSend(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: InternalError, Message: "internal error"}
}
