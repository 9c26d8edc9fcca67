package jsonrpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
)

// A Conn is a JSON-RPC connection to one peer. It sends calls and notifications, and passes the calls and notifications
// of the peer to a [Handler].
//
// A Conn over a [Stream] reads its messages in [Conn.Run]. A Conn without a stream gets
// its messages from [Conn.Receive] and is not run. HTTP uses it, since each HTTP request and
// each HTTP response carries messages of its own.
//
// All methods may be called concurrently.
type Conn struct {
	handler Handler
	stream  Stream // nil if all messages come through Receive
	opts    Options
	id      string // for Options.Trace; "" without it
	calls   callTable
	idle    atomic.Int32 // number of idle workers
	running atomic.Bool
	done    chan struct{} // closed when Run has returned; nil without a stream

	handlerBound  atomic.Bool // handler is set
	handlerClosed atomic.Bool // HandleClose was called

	ctx      context.Context // the parent of everything that runs for the peer; ends with the connection
	cancel   context.CancelCauseFunc
	input    context.Context // ends with the peer's input
	endInput context.CancelCauseFunc
}

// NewConn returns a connection over a stream; nil means that all messages come through
// [Conn.Receive]. bind returns the handler, and may keep the connection to call the peer.
func NewConn(stream Stream, bind func(*Conn) Handler, opts *Options) *Conn {
	c := &Conn{opts: opts.WithDefaults()}
	c.calls.firstID = c.opts.FirstID
	if c.opts.Trace != nil {
		c.id = rand.Text()
	}
	if stream != nil {
		c.done = make(chan struct{})
		if c.opts.Wrap != nil {
			stream = c.opts.Wrap(stream)
		}
		c.stream = stream
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.input, c.endInput = c.ctx, c.cancel
	if stream != nil { // otherwise the input ends with the connection
		c.input, c.endInput = context.WithCancelCause(c.ctx)
	}
	c.handler = bind(c)
	c.handlerBound.Store(true)
	if c.isClosing() { // bind may have started a goroutine that has closed the connection
		c.closeHandler()
	}
	return c
}

// Run reads and handles the messages of the stream until the stream ends, the connection
// is closed or ctx ends. It must be called at most once.
//
// At the end of the input, running calls may finish and be answered for at most
// [Options.Drain]. The contexts of calls have the values of ctx. Run returns nil at the
// end of the input and after Close, the cause of ctx if ctx has ended, and the stream's
// error otherwise.
func (c *Conn) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return errors.New("jsonrpc: Conn.Run called twice")
	}
	defer close(c.done)
	stop := context.AfterFunc(ctx, func() { c.shutdown(context.Cause(ctx)) })
	defer stop()

	err := c.read(ctx)
	if errors.Is(err, io.EOF) {
		c.calls.close(ErrClosed)
		c.endInput(ErrClosed)
		c.closeHandler()
		c.wait(c.opts.Drain, c.ctx.Done())
		if n := c.calls.unanswered(); n > 0 && !c.isClosing() && c.opts.Drain > 0 {
			c.report(&UnansweredError{Calls: n, Drain: c.opts.Drain})
		}
	}
	closed := c.isClosing()
	c.shutdown(ErrClosed)
	c.wait(c.opts.Grace, nil)

	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case closed, errors.Is(err, io.EOF), errors.Is(err, ErrClosed):
		return nil
	}
	return fmt.Errorf("jsonrpc: reading: %w", err)
}

// read is the read loop. It returns the reason why reading has ended, which is an error
// with the stack if a callback of [Options] has panicked.
func (c *Conn) read(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	o := origin{values: ctx, from: c, to: streamReplier{c}}
	for {
		if err := c.readFrame(o); err != nil {
			return err
		}
	}
}

// readFrame reads and handles one frame.
func (c *Conn) readFrame(o origin) error {
	frame, err := c.stream.Read()
	if charger, ok := c.stream.(bufpool.Charger); ok {
		o.charge = charger.TakeCharge()
		defer o.charge.Release() // running calls retain it
	}
	if c.isClosing() {
		return ErrClosed
	}
	if bad, ok := errors.AsType[*DecodeError](err); ok {
		c.refuse(o.to, bad)
		return nil
	}
	if err != nil {
		return err
	}
	if c.receive(o, frame) {
		if recycler, ok := c.stream.(bufpool.Recycler); ok {
			recycler.Recycle(frame)
		}
	}
	return nil
}

// Close ends the connection. It cancels the running calls of the peer and fails the
// pending calls to the peer. It returns when the handlers have returned and Run, if it was
// called, has too; it waits at most [Options.Grace] for handlers. Close may be called more
// than once.
func (c *Conn) Close() error {
	c.shutdown(ErrClosed)
	if c.running.Load() {
		<-c.done
	} else {
		c.wait(c.opts.Grace, nil)
	}
	return nil
}

// shutdown ends reading, writing and the context of every handler.
func (c *Conn) shutdown(reason error) {
	c.cancel(reason)
	c.calls.close(ErrClosed)
	c.closeHandler()
	if c.stream != nil {
		c.stream.Close()
	}
}

func (c *Conn) isClosing() bool { return c.ctx.Err() != nil }

// closeHandler calls HandleClose of the handler once.
func (c *Conn) closeHandler() {
	if !c.handlerBound.Load() {
		return
	}
	if h, ok := c.handler.(SessionHandler); ok && !c.handlerClosed.Swap(true) {
		h.HandleClose()
	}
}

// wait waits until nothing runs, limit has passed or stop is closed.
func (c *Conn) wait(limit time.Duration, stop <-chan struct{}) {
	if limit <= 0 {
		return
	}
	select {
	case <-c.calls.whenIdle():
	case <-time.After(limit):
	case <-stop:
	}
}

// Go runs fn on a goroutine that Run and Close wait for. The context of fn is [Conn.Input].
func (c *Conn) Go(fn func(ctx context.Context)) {
	c.calls.startGoroutine()
	go func() {
		defer c.calls.endGoroutine()
		fn(c.input)
	}()
}

// Input returns a context that ends when the peer can send nothing more. Calls of the peer
// may still run then.
func (c *Conn) Input() context.Context { return c.input }

// Done returns a channel that is closed when Run has returned. It is nil for a connection
// without a stream.
func (c *Conn) Done() <-chan struct{} { return c.done }

// report passes an error that does not end the connection to [Options.Malformed].
func (c *Conn) report(err error) {
	if c.opts.Malformed != nil {
		c.opts.Malformed(err)
	}
}

// Trace calls [Options.Trace], if it is set, for a frame that the connection has neither received nor sent itself. It is for
// transports with messages that a handler does not get.
func (c *Conn) Trace(sent bool, frame []byte) {
	if c.opts.Trace != nil {
		c.opts.Trace(c.id, sent, frame)
	}
}
