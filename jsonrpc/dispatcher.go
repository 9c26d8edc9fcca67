package jsonrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Dispatcher is what two peers have under way: calls of the other side that
// run here, own calls that wait for their answers. It moves no message: what
// comes in is handed to a [Route], and what goes out leaves by one. A [Conn] is
// a dispatcher with one route, its stream; over HTTP each request has a route of
// its own. All methods may be called concurrently.
type Dispatcher struct {
	handler Handler
	opts    Options
	state   inFlight
	answers sync.Pool // of chan *Response, empty and open
	timers  sync.Pool // of *time.Timer, stopped

	tasks     chan task    // to idle workers
	idle      atomic.Int32 // how many
	malformed atomic.Int64
	bound     atomic.Bool // the handler is there
	ended     atomic.Bool // and knows of the end

	ctx    context.Context // of everything that runs for the peer; it is the connection's life, not a call's
	cancel context.CancelCauseFunc
	input  context.Context // of what runs as long as the peer may say more; of a [Conn], it ends first
}

// NewDispatcher returns a dispatcher for the messages of one peer. The handler is
// made by bind, which may keep the dispatcher. Of the options, Drain is for a
// [Conn] only.
func NewDispatcher(bind func(*Dispatcher) Handler, opts *Options) *Dispatcher {
	d := &Dispatcher{opts: opts.withDefaults(), tasks: make(chan task)}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.input = d.ctx
	d.handler = bind(d)
	d.bound.Store(true)
	if d.isClosing() { // what bind has begun may have closed it
		d.tellEnd()
	}
	return d
}

// Input ends as soon as the peer can say no more.
func (d *Dispatcher) Input() context.Context { return d.input }

// Malformed counts what was received and was not a message.
func (d *Dispatcher) Malformed() int64 { return d.malformed.Load() }

// Go runs fn on a goroutine of its own that Close waits for. Its context is
// [Dispatcher.Input]: calls may still go on when that ends, but nothing that lasts.
func (d *Dispatcher) Go(fn func(ctx context.Context)) {
	d.state.start()
	go func() {
		defer d.state.finish()
		fn(d.input)
	}()
}

// Close cancels the calls that run, fails those that wait, and returns when
// nothing runs any more, after [Options.Grace] at the latest. It may be called
// more than once.
func (d *Dispatcher) Close() {
	d.shut(ErrClosed)
	d.wait(d.opts.Grace, nil)
}

// shut ends every handler's context.
func (d *Dispatcher) shut(reason error) {
	d.cancel(reason)
	d.state.end(ErrClosed)
	d.tellEnd()
}

// tellEnd tells the handler that the peer can say no more.
func (d *Dispatcher) tellEnd() {
	if !d.bound.Load() {
		return
	}
	if e, ok := d.handler.(Ender); ok && !d.ended.Swap(true) {
		e.Ended()
	}
}

func (d *Dispatcher) isClosing() bool { return d.ctx.Err() != nil }

// wait waits until nothing runs, for at most limit, and no longer than until
// enough is closed.
func (d *Dispatcher) wait(limit time.Duration, enough <-chan struct{}) {
	if limit <= 0 {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-d.state.whenIdle():
	case <-timer.C:
	case <-enough:
	}
}

// report tells who wants to know of something that went wrong and ends nothing.
func (d *Dispatcher) report(err error) {
	if d.opts.Malformed != nil {
		d.opts.Malformed(err)
	}
}

func (d *Dispatcher) trace(sent bool, frame []byte) {
	if d.opts.Trace != nil {
		d.opts.Trace(sent, frame)
	}
}

// replies serve as buffers for requests too.
var replies sync.Pool

// reply returns an empty reply from the pool.
func (d *Dispatcher) reply() *Reply {
	if r, ok := replies.Get().(*Reply); ok {
		return r
	}
	return &Reply{Buf: make([]byte, 0, 512)}
}

// release puts a reply back, unless a big message has made it too big to keep.
func (d *Dispatcher) release(r *Reply) {
	if r.usage.IsWorthKeeping(r.Buf) {
		r.Buf = r.Buf[:0]
		replies.Put(r)
	}
}
