package main

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// dovetailBytes has s answer the bytes of one request, as transports do.
func dovetailBytes(ctx context.Context, s *server.Server, w Work) (Rig, error) {
	answer, err := newDispatcher(ctx, s, w.Era)
	if err != nil {
		return nil, err
	}
	e := newEcho(w)
	request := e.request(w.Era)
	return newRig(func(ctx context.Context) error {
		reply, err := answer(ctx, request)
		if err != nil {
			return err
		}
		return e.checkBytes(reply)
	}), nil
}

// newDispatcher is a connection of s. What it answers is good until it is called again,
// by one goroutine at a time.
func newDispatcher(ctx context.Context, s *server.Server, era Era) (func(ctx context.Context, request []byte) ([]byte, error), error) {
	handler := s.Bind(transport.Link{Peer: nobody{}, Input: ctx, Go: func(func(context.Context)) {}})
	var kept []byte
	dispatch := func(ctx context.Context, request []byte) ([]byte, error) {
		message, err := jsonrpc.Decode(request)
		if err != nil {
			return nil, err
		}
		req, ok := message.(*jsonrpc.Request)
		if !ok {
			return nil, fmt.Errorf("%.100s is no request", request)
		}
		reply := jsonrpc.Reply{Buf: kept[:0]}
		err = jsonrpc.Answer(ctx, handler, nobody{}, req, &reply)
		kept = reply.Buf
		return reply.Buf, err
	}
	if era == Legacy {
		if _, err := dispatch(ctx, []byte(initialize)); err != nil {
			return nil, err
		}
	}
	return dispatch, nil
}

// nobody is a client that takes what it is told and is never asked.
type nobody struct{}

func (nobody) Call(context.Context, string, jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, jsonrpc.ErrClosed
}
func (nobody) Notify(context.Context, string, jsonrpc.Appender) error { return nil }
func (nobody) Cancel(jsonrpc.ID)                                      {}
