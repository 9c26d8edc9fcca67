package sse

import (
	"context"
	"errors"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A conn is a client's connection.
type conn struct {
	*jsonrpc.Conn
	stream *clientStream
	done   chan struct{} // closed when nothing runs any more
}

// run reads until the stream ends.
func (c *conn) run() {
	defer close(c.done)
	defer c.stream.dialer.client.Release()
	_ = c.Conn.Run(context.Background()) // the stream knows better why it has ended
}

// Close ends the connection, and so the session.
func (c *conn) Close() error {
	err := c.Conn.Close()
	<-c.done
	return err
}

// Done is closed when the connection has ended.
func (c *conn) Done() <-chan struct{} { return c.done }

// Call sends a request. The error of one that met the end of the connection says why
// it has ended.
func (c *conn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	return resp, c.explained(err)
}

// Notify sends a notification and waits until the server has accepted it.
func (c *conn) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	return c.explained(c.Conn.Notify(ctx, method, params))
}

func (c *conn) explained(err error) error {
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	if !ok {
		return err
	}
	if reason := c.stream.endReason(); reason != nil && errors.Is(failed.Err, jsonrpc.ErrClosed) {
		return &jsonrpc.CallError{Method: failed.Method, Delivery: failed.Delivery, Err: &endedError{reason}}
	}
	return err
}
