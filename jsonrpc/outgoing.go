package jsonrpc

import (
	"context"
	"errors"
	"time"
)

// Call sends a request and waits for its answer, at most
// [Options.CallTimeout] when ctx has no deadline. When nobody waits any more, the
// handler is asked to tell the peer (see [Abandoner]).
func (c *Conn) Call(ctx context.Context, method string, params Appender) (*Response, error) {
	if ctx.Err() != nil {
		return nil, &CallError{Method: method, Delivery: NotSent, Err: context.Cause(ctx)}
	}
	answer := c.answerChan()
	id, err := c.state.await(answer, c.opts.MaxPending)
	if err != nil {
		return nil, &CallError{Method: method, Delivery: NotSent, Err: err}
	}
	if p, ok := params.(Identified); ok {
		p.Identify(id)
	}
	if err := c.send(ctx, id, method, params); err != nil {
		c.state.forget(id)
		return nil, &CallError{Method: method, Delivery: NotSent, Err: err}
	}
	var timeout <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded && c.opts.CallTimeout > 0 {
		timer := c.timer()
		defer c.stop(timer)
		timeout = timer.C
	}
	select {
	case resp, ok := <-answer:
		return c.answered(method, answer, resp, ok)
	case <-ctx.Done():
		return c.abandon(id, method, answer, context.Cause(ctx))
	case <-timeout:
		return c.abandon(id, method, answer, context.DeadlineExceeded)
	}
}

// abandon gives up on an answer, unless it has come just now.
func (c *Conn) abandon(id ID, method string, answer chan *Response, cause error) (*Response, error) {
	if !c.state.forget(id) {
		resp, ok := <-answer
		return c.answered(method, answer, resp, ok)
	}
	if a, ok := c.handler.(Abandoner); ok {
		a.Abandoned(c, id, cause)
	}
	return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: cause}
}

func (c *Conn) answered(method string, answer chan *Response, resp *Response, ok bool) (*Response, error) {
	if !ok {
		return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: c.state.endedWith()}
	}
	c.answers.Put(answer)
	switch {
	case resp.malformed != nil:
		return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: resp.malformed}
	case resp.Error != nil && resp.Error.Code == Busy:
		return nil, &CallError{Method: method, Delivery: Rejected, Err: resp.Error}
	case resp.Error != nil:
		return nil, resp.Error
	}
	return resp, nil
}

// answerChan returns a channel for one answer. Only channels that have brought
// their answer go back to the pool: no other answer can come through them.
func (c *Conn) answerChan() chan *Response {
	if answer, ok := c.answers.Get().(chan *Response); ok {
		return answer
	}
	return make(chan *Response, 1)
}

func (c *Conn) timer() *time.Timer {
	if timer, ok := c.timers.Get().(*time.Timer); ok {
		timer.Reset(c.opts.CallTimeout)
		return timer
	}
	return time.NewTimer(c.opts.CallTimeout)
}

func (c *Conn) stop(timer *time.Timer) {
	timer.Stop()
	c.timers.Put(timer)
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params Appender) error {
	if err := c.send(ctx, ID{}, method, params); err != nil {
		return &CallError{Method: method, Delivery: NotSent, Err: err}
	}
	return nil
}

func (c *Conn) send(ctx context.Context, id ID, method string, params Appender) error {
	request := c.reply()
	defer c.release(request)
	var err error
	if request.Buf, err = appendRequest(request.Buf, id, method, params); err != nil {
		return err
	}
	return c.write(ctx, request.Buf)
}

func (c *Conn) write(ctx context.Context, msg []byte) error {
	if c.isClosing() {
		return ErrClosed // what handlers say because they were cut off is no answer
	}
	if c.opts.Trace != nil {
		c.opts.Trace(true, msg)
	}
	err := c.stream.Write(ctx, msg)
	if err != nil && c.isClosing() && !errors.Is(err, context.Canceled) {
		return ErrClosed
	}
	return err
}
