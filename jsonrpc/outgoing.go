package jsonrpc

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
)

// Call sends a request over the stream and waits for the response, for at most
// [Options.CallTimeout] if ctx has no deadline. See [Peer] for the errors. If ctx ends before
// the response, a handler that is a [CancelNotifier] notifies the peer.
func (c *Conn) Call(ctx context.Context, method string, params Appender) (*Response, error) {
	return c.call(ctx, c, method, params)
}

// Notify sends a notification over the stream. The error is a *[CallError].
func (c *Conn) Notify(ctx context.Context, method string, params Appender) error {
	return c.send(ctx, c, ID{}, method, params)
}

// Awaits reports whether a call to the peer waits for the response with an id.
func (c *Conn) Awaits(id ID) bool { return c.calls.awaits(id) }

// PeerVia returns a [Peer] that sends its calls and notifications with write instead of the
// stream. The responses may come from the stream or from [Conn.Receive]. write may be called
// concurrently and follows the rules of [Stream].Write.
func (c *Conn) PeerVia(write func(ctx context.Context, msg []byte) error) Peer {
	return &peerVia{c, write}
}

type peerVia struct {
	*Conn
	writeFunc func(ctx context.Context, msg []byte) error
}

func (p *peerVia) Call(ctx context.Context, method string, params Appender) (*Response, error) {
	return p.call(ctx, p, method, params)
}

func (p *peerVia) Notify(ctx context.Context, method string, params Appender) error {
	return p.send(ctx, p, ID{}, method, params)
}

func (p *peerVia) write(ctx context.Context, msg []byte) error { return p.writeFunc(ctx, msg) }

// A sender is a Peer with the function that writes its messages.
type sender interface {
	Peer
	write(ctx context.Context, msg []byte) error
}

// write writes to the stream.
func (c *Conn) write(ctx context.Context, msg []byte) error {
	if c.stream == nil {
		return errNoStream
	}
	err := c.stream.Write(ctx, msg)
	_, hasDelivery := err.(*CallError)
	if err != nil && !hasDelivery && c.isClosing() && !errors.Is(err, context.Canceled) {
		return ErrClosed
	}
	return err
}

var errNoStream = errors.New("the connection has no stream")

func (c *Conn) call(ctx context.Context, to sender, method string, params Appender) (*Response, error) {
	if ctx.Err() != nil {
		return nil, &CallError{Method: method, Delivery: NotSent, Err: context.Cause(ctx)}
	}
	asker, _ := ctx.Value(callKey{}).(*incomingCall)
	if asker != nil && asker.conn != c {
		asker = nil // a call that is forwarded
	}
	id, response, err := c.calls.send(asker, c.opts.MaxPending)
	if err != nil {
		return nil, &CallError{Method: method, Delivery: NotSent, Err: err}
	}
	if p, ok := params.(IDReceiver); ok {
		p.ReceiveID(id)
	}
	c.Sent(ctx, id)
	if err := c.send(ctx, to, id, method, params); err != nil {
		c.calls.abandon(id)
		return nil, err
	}
	var timeout <-chan time.Time
	if !deadline.Has(ctx) && c.opts.CallTimeout > 0 {
		timeout = time.After(c.opts.CallTimeout)
	}
	for {
		select {
		case resp, ok := <-response:
			return c.result(method, resp, ok)
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-timeout:
			if left := deadline.Left(ctx, c.opts.CallTimeout); left > 0 {
				timeout = time.After(left)
				continue
			}
			err = context.DeadlineExceeded
		}
		break
	}
	if !c.calls.abandon(id) { // the response has arrived in the meantime
		resp, ok := <-response
		return c.result(method, resp, ok)
	}
	if h, ok := c.handler.(CancelNotifier); ok {
		h.NotifyCancelled(to, id, err)
	}
	return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: err}
}

// result returns the result of Call. ok is false if the connection was closed before the
// response.
func (c *Conn) result(method string, resp *Response, ok bool) (*Response, error) {
	switch {
	case !ok:
		return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: c.calls.closeReason()}
	case resp.malformed != nil:
		return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: resp.malformed}
	case resp.Error != nil && resp.Error.Code == Busy:
		return nil, &CallError{Method: method, Delivery: Rejected, Err: resp.Error}
	case resp.Error != nil:
		return nil, resp.Error
	}
	return resp, nil
}

// send encodes a message and writes it. The error is a *CallError.
func (c *Conn) send(ctx context.Context, to sender, id ID, method string, params Appender) error {
	buffer := buffers.Get()
	defer buffer.Free()
	var err error
	if buffer.Bytes, err = AppendRequest(buffer.Bytes, id, method, params); err != nil {
		return &CallError{Method: method, Delivery: NotSent, Err: err}
	}
	if c.isClosing() {
		return &CallError{Method: method, Delivery: NotSent, Err: ErrClosed}
	}
	c.Trace(true, buffer.Bytes)
	switch err := to.write(ctx, buffer.Bytes).(type) {
	case nil:
		return nil
	case *CallError: // the stream reports the delivery
		return &CallError{Method: method, Delivery: err.Delivery, Err: err.Err}
	default:
		return &CallError{Method: method, Delivery: NotSent, Err: err}
	}
}
