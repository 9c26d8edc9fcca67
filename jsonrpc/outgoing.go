package jsonrpc

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
)

var errTooManyPending = errors.New("too many calls wait for answers")

// Call sends a request and waits for its answer, at most
// [Options.CallTimeout] when ctx has no deadline. When nobody waits any more, the
// handler is asked to tell the peer (see [Abandoner]).
func (r *Route) Call(ctx context.Context, method string, params Appender) (*Response, error) {
	if ctx.Err() != nil {
		return nil, &CallError{Method: method, Delivery: NotSent, Err: context.Cause(ctx)}
	}
	answer := r.answerChan()
	id, err := r.d.state.await(answer, r.d.opts.MaxPending)
	if err != nil {
		return nil, &CallError{Method: method, Delivery: NotSent, Err: err}
	}
	if p, ok := params.(Identified); ok {
		p.Identify(id)
	}
	if err := r.send(ctx, id, method, params); err != nil {
		r.d.state.forget(id)
		return nil, err
	}
	var late <-chan time.Time
	var timer *time.Timer
	if !deadline.Has(ctx) && r.d.opts.CallTimeout > 0 {
		timer = r.d.timer(r.d.opts.CallTimeout)
		defer r.d.stop(timer)
		late = timer.C
	}
	for {
		select {
		case resp, ok := <-answer:
			return r.answered(method, answer, resp, ok)
		case <-ctx.Done():
			return r.abandon(id, method, answer, context.Cause(ctx))
		case <-late:
			if left := deadline.Left(ctx, r.d.opts.CallTimeout); left > 0 {
				timer.Reset(left)
				continue
			}
			return r.abandon(id, method, answer, context.DeadlineExceeded)
		}
	}
}

// abandon gives up on an answer, unless it has come just now.
func (r *Route) abandon(id ID, method string, answer chan *Response, cause error) (*Response, error) {
	if !r.d.state.forget(id) {
		resp, ok := <-answer
		return r.answered(method, answer, resp, ok)
	}
	if a, ok := r.d.handler.(Abandoner); ok {
		a.Abandoned(r.peer, id, cause)
	}
	return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: cause}
}

func (r *Route) answered(method string, answer chan *Response, resp *Response, ok bool) (*Response, error) {
	if !ok {
		return nil, &CallError{Method: method, Delivery: MaybeExecuted, Err: r.d.state.endedWith()}
	}
	r.d.answers.Put(answer)
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
func (r *Route) answerChan() chan *Response {
	if answer, ok := r.d.answers.Get().(chan *Response); ok {
		return answer
	}
	return make(chan *Response, 1)
}

func (d *Dispatcher) timer(limit time.Duration) *time.Timer {
	if timer, ok := d.timers.Get().(*time.Timer); ok {
		timer.Reset(limit)
		return timer
	}
	return time.NewTimer(limit)
}

func (d *Dispatcher) stop(timer *time.Timer) {
	timer.Stop()
	d.timers.Put(timer)
}

// Notify sends a notification.
func (r *Route) Notify(ctx context.Context, method string, params Appender) error {
	return r.send(ctx, ID{}, method, params)
}

// send encodes a message and writes it. The error is a *CallError.
func (r *Route) send(ctx context.Context, id ID, method string, params Appender) error {
	request := r.d.reply()
	defer r.d.release(request)
	var err error
	if request.Buf, err = AppendRequest(request.Buf, id, method, params); err != nil {
		return &CallError{Method: method, Delivery: NotSent, Err: err}
	}
	switch err := r.write(ctx, request.Buf).(type) {
	case nil:
		return nil
	case *CallError: // the outlet knows how far the message got
		return &CallError{Method: method, Delivery: err.Delivery, Err: err.Err}
	default:
		return &CallError{Method: method, Delivery: NotSent, Err: err}
	}
}
