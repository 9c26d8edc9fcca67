package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// A Conn is a duplex JSON-RPC peer over a [Stream]. It is idle until [Conn.Run].
// All methods may be called concurrently.
type Conn struct {
	route   Route
	stream  Stream
	peeker  Peeker        // the stream, if it is one
	readEnd chan error    // has why reading has ended
	done    chan struct{} // closed when Run has returned
	running atomic.Bool

	endInput context.CancelCauseFunc
}

// NewConn returns a connection over a stream. The handler is made by bind,
// which may keep the connection to call back.
func NewConn(stream Stream, bind func(*Conn) Handler, opts *Options) *Conn {
	c := &Conn{stream: stream, readEnd: make(chan error, 1), done: make(chan struct{})}
	c.route.recycler, _ = stream.(Recycler)
	c.peeker, _ = stream.(Peeker)
	c.route.out, c.route.peer = connOutlet{c}, c
	NewDispatcher(func(d *Dispatcher) Handler {
		c.route.d, c.route.calls.Context = d, d.ctx
		d.input, c.endInput = context.WithCancelCause(d.ctx)
		return bind(c)
	}, opts)
	return c
}

// Run reads and handles messages until the stream ends, the connection is
// closed or ctx ends. At the end of input, calls that run may still finish and
// be answered, for at most [Options.Drain]. Run returns nil at the end of
// input and after Close. It must be called once. The contexts of calls have the
// values of ctx.
func (c *Conn) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return errors.New("jsonrpc: Conn.Run called twice")
	}
	defer close(c.done)
	d := c.route.d
	c.route.calls.values = ctx
	stop := context.AfterFunc(ctx, func() { c.shut(context.Cause(ctx)) })
	defer stop()

	d.run(reader{c})
	err := <-c.readEnd
	if errors.Is(err, io.EOF) {
		d.state.end(ErrClosed)
		c.endInput(ErrClosed)
		d.tellEnd()
		d.wait(d.opts.Drain, d.ctx.Done())
	}
	closed := d.isClosing()
	c.shut(ErrClosed)
	d.wait(d.opts.Grace, nil)

	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case closed, errors.Is(err, io.EOF), errors.Is(err, ErrClosed):
		return nil
	}
	return fmt.Errorf("jsonrpc: reading: %w", err)
}

// shut ends reading, writing and every handler's context.
func (c *Conn) shut(reason error) {
	c.route.d.shut(reason)
	c.stream.Close()
}

// Close ends the connection: running calls are cancelled, waiting ones fail.
// What was written before is sent, within a bound. It returns when Run has; it
// may be called more than once.
func (c *Conn) Close() error {
	c.shut(ErrClosed)
	if c.running.Load() {
		<-c.done
	}
	return nil
}

// Call sends a request and waits for its answer; see [Route.Call].
func (c *Conn) Call(ctx context.Context, method string, params Appender) (*Response, error) {
	return c.route.Call(ctx, method, params)
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params Appender) error {
	return c.route.Notify(ctx, method, params)
}

// Cancel ends a running call of the peer; its reply is dropped.
func (c *Conn) Cancel(id ID) { c.route.Cancel(id) }

// Go runs fn on a goroutine of its own that Run waits for. The context ends with
// the peer's input: calls may still go on then, but nothing that lasts.
func (c *Conn) Go(fn func(ctx context.Context)) { c.route.d.Go(fn) }

// Input ends with the peer's input.
func (c *Conn) Input() context.Context { return c.route.d.Input() }

// Malformed counts what was received and was not a message.
func (c *Conn) Malformed() int64 { return c.route.d.Malformed() }

// Done is closed when Run has returned.
func (c *Conn) Done() <-chan struct{} { return c.done }

// connOutlet sends everything over the stream.
type connOutlet struct{ c *Conn }

func (o connOutlet) Write(ctx context.Context, msg []byte) error {
	err := o.c.stream.Write(ctx, msg)
	_, knows := err.(*CallError)
	if err != nil && !knows && o.c.route.d.isClosing() && !errors.Is(err, context.Canceled) {
		return ErrClosed
	}
	return err
}

// Answer sends what nobody here waits for. It fails only when the connection
// ends, which Run reports.
func (o connOutlet) Answer(msg []byte) {
	if msg != nil {
		_ = o.Write(o.c.route.d.ctx, msg)
	}
}
