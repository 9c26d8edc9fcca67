package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn is a duplex JSON-RPC peer over a [Stream]. It is idle until [Conn.Run].
// All methods may be called concurrently.
type Conn struct {
	stream  Stream
	handler Handler
	opts    Options
	state   *inFlight
	replies sync.Pool // of *Reply, which serve as buffers for requests too
	answers sync.Pool // of chan *Response, empty and open
	timers  sync.Pool // of *time.Timer, stopped

	closing   chan struct{}
	closeOnce sync.Once
	done      chan struct{} // closed when Run has returned
	running   atomic.Bool
	malformed atomic.Int64

	ctx      context.Context // of everything that runs for the peer; it is the connection's life, not a call's
	cancel   context.CancelCauseFunc
	input    context.Context // of what runs as long as the peer may say more
	endInput context.CancelCauseFunc
}

var errTooManyPending = errors.New("too many calls wait for answers")

// NewConn returns a connection over a stream. The handler is made by bind,
// which may keep the connection to call back.
func NewConn(stream Stream, bind func(*Conn) Handler, opts *Options) *Conn {
	c := &Conn{
		stream: stream, opts: opts.withDefaults(), state: newInFlight(),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.input, c.endInput = context.WithCancelCause(c.ctx)
	c.handler = bind(c)
	return c
}

// Run reads and handles messages until the stream ends, the connection is
// closed or ctx ends. At the end of input, calls that run may still finish and
// be answered, for at most [Options.Drain]. Run returns nil at the end of
// input and after Close. It must be called once.
func (c *Conn) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return errors.New("jsonrpc: Conn.Run called twice")
	}
	defer close(c.done)
	stop := context.AfterFunc(ctx, func() { c.shut(context.Cause(ctx)) })
	defer stop()

	var err error
	for err == nil {
		err = c.readOne()
	}
	if errors.Is(err, io.EOF) {
		c.state.end(ErrClosed)
		c.endInput(ErrClosed)
		c.wait(c.opts.Drain, c.closing)
	}
	closed := c.isClosing()
	c.shut(ErrClosed)
	c.wait(c.opts.Grace, nil)

	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case closed, errors.Is(err, io.EOF), errors.Is(err, ErrClosed):
		return nil
	}
	return fmt.Errorf("jsonrpc: reading: %w", err)
}

func (c *Conn) readOne() error {
	data, err := c.stream.Read()
	if c.isClosing() {
		return ErrClosed // what still waits in the stream is not begun any more
	}
	if err == nil {
		c.receive(data)
		return nil
	}
	if bad, ok := errors.AsType[*FrameError](err); ok {
		c.refuse(&DecodeError{Err: &Error{Code: InvalidRequest, Message: bad.Reason}})
		return nil
	}
	return err
}

// wait waits until nothing runs, for at most limit, and no longer than until
// enough is closed.
func (c *Conn) wait(limit time.Duration, enough <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.state.whenIdle():
	case <-timer.C:
	case <-enough:
	}
}

func (c *Conn) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// shut ends reading, writing and every handler's context.
func (c *Conn) shut(reason error) {
	c.closeOnce.Do(func() {
		close(c.closing)
		c.state.end(ErrClosed)
		c.cancel(reason)
		c.stream.Close()
	})
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

// Done is closed when Run has returned.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Malformed counts what was received and was not a message.
func (c *Conn) Malformed() int64 { return c.malformed.Load() }

// Go runs fn on a goroutine of its own that Run waits for. The context ends with
// the peer's input: calls may still go on then, but nothing that lasts.
func (c *Conn) Go(fn func(ctx context.Context)) {
	c.state.start()
	go func() {
		defer c.state.finish()
		fn(c.input)
	}()
}

// reply returns an empty reply from the pool.
func (c *Conn) reply() *Reply {
	if r, ok := c.replies.Get().(*Reply); ok {
		return r
	}
	return &Reply{Buf: make([]byte, 0, 512)}
}

// release puts a reply back, unless one big message has made it too big to keep.
func (c *Conn) release(r *Reply) {
	if cap(r.Buf) <= maxPooled {
		r.Buf = r.Buf[:0]
		c.replies.Put(r)
	}
}
