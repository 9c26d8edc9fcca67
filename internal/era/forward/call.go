package forward

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A forwardedCall is a call to the server. It outlasts the run of the caller's call that
// begins it if the server asks by requests: each run waits for it.
type forwardedCall struct {
	notifications
	activity  deadline.Activity // the timeout counts from the last progress
	session   *Session
	params    params
	principal string
	label     string             // of the server in its questions
	untrack   func()             // stops progress; nil if the caller wants none
	ctx       context.Context    // of the request
	stop      context.CancelFunc // of the timeout, nil if there is none

	// The outcome. question is that of a modern server.
	response *jsonrpc.Response
	question *mcp.InputRequiredResult
	err      error

	// These are for calls whose server can ask by requests, nil for others.
	asks    chan *question
	cancel  context.CancelCauseFunc
	ended   chan struct{} // closed when there is an outcome
	pending *question     // that the caller has been asked; belongs to the current run
	keys    int           // of questions so far; belongs to the current run

	// These belong to the [SuspendedCalls] that the call is in.
	expiry *time.Timer
	resume func() // the clock
}

// A question is one that a legacy server asks by a request.
type question struct {
	key      string
	request  mcp.InputRequest
	answered chan struct{} // closed when there is an answer or an error
	answer   json.RawMessage
	err      error
}

// begin prepares the call, in a run that is attached to it; last is nil in the first round.
// If the server can ask by requests, a goroutine sends the call and waits for the outcome.
func (s *Session) begin(ctx context.Context, call *mcp.Call, opts *Options, last *round) (*forwardedCall, error) {
	params, err := s.paramsOf(call, opts, last)
	if err != nil {
		return nil, err
	}
	c := &forwardedCall{session: s, params: params, principal: call.Caller.Principal, label: opts.ServerLabel}
	c.attach(ctx, call)
	if !s.Version().Modern() {
		s.setLevel(ctx, call.Caller.LogLevel)
		if canBeAsked(call) {
			c.asks, c.ended = make(chan *question), make(chan struct{})
		}
	}
	if ctx.Err() != nil {
		return nil, notSent(call, context.Cause(ctx))
	}
	if call.Member(memberMeta, mcp.MetaProgressToken) != nil {
		c.params.token, c.untrack = s.TrackProgress(func(_ json.RawMessage, progress *jsonrpc.Request) {
			c.activity.Renew()
			c.add(progress)
		})
	}
	c.setContext(ctx, opts.Timeout)
	s.inFlight.add(c)
	if c.asks != nil && !s.inFlight.start(c.request) {
		c.end()
		return nil, notSent(call, jsonrpc.ErrClosed)
	}
	return c, nil
}

func canBeAsked(call *mcp.Call) bool {
	can := &call.Caller.Capabilities
	return era.MayAsk(call.Method()) && (can.Elicitation != nil || can.Sampling != nil || can.Roots != nil)
}

func notSent(call *mcp.Call, err error) error {
	return &jsonrpc.CallError{Method: call.Method(), Delivery: jsonrpc.NotSent, Err: err}
}

// maxOpen bounds a request that ends with the contexts of its caller.
const maxOpen = 24 * time.Hour

// setContext makes the context of the request. It has the values of the run that begins
// the call, and ends with that run unless the server can ask by requests.
func (c *forwardedCall) setContext(ctx context.Context, timeout time.Duration) {
	c.ctx = context.WithValue(ctx, callKey{}, c)
	if c.untrack != nil {
		c.ctx = c.activity.Context(c.ctx)
	}
	if c.asks != nil {
		c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(c.ctx))
		switch {
		case timeout > 0:
		case deadline.Has(ctx):
			timeout = maxOpen
		default:
			timeout = jsonrpc.DefaultCallTimeout
		}
	}
	if timeout > 0 {
		c.ctx, c.stop = deadline.With(c.ctx, timeout, context.DeadlineExceeded)
	}
}

// request waits for the outcome.
func (c *forwardedCall) request() {
	defer c.end()
	c.response, c.question, c.err = c.session.Exchange(c.ctx, c.params.call.Method(), &c.params)
}

// end releases what the call holds.
func (c *forwardedCall) end() {
	c.session.inFlight.remove(c)
	if c.untrack != nil {
		c.untrack()
	}
	if c.stop != nil {
		c.stop()
	}
	if c.asks != nil {
		c.cancel(nil)
		close(c.ended)
	}
}

// wait waits until the request has ended or, with a question, until the server asks. Then
// it ends the run.
func (c *forwardedCall) wait(ctx context.Context, call *mcp.Call) (question, err error) {
	defer c.detach()
	for c.asks != nil {
		select {
		case <-c.ended:
			return nil, c.err
		default:
		}
		if question := c.answer(call); question != nil {
			return question, nil
		}
		select {
		case q := <-c.asks:
			c.keys++
			q.key = questionKey(c.label, "question "+strconv.Itoa(c.keys))
			c.pending = q
		case <-c.ended:
		case <-ctx.Done():
			c.cancel(context.Cause(ctx))
			<-c.ended
		}
	}
	return nil, c.err
}

// answer gives the server the caller's answer to the pending question. It returns the
// error that asks the caller if there is no answer yet.
func (c *forwardedCall) answer(call *mcp.Call) (question error) {
	if c.pending == nil {
		return nil
	}
	answer, err := call.Input(c.pending.key, c.pending.request)
	if _, open := mcp.AsInputRequired(err); open {
		return err
	}
	c.pending.answer, c.pending.err = answer, err
	close(c.pending.answered)
	c.pending = nil
	return nil
}
