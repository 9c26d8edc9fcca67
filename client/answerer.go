package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxTold is how many changes and log messages wait for a slow handler. More
// are dropped, the oldest first.
const maxTold = 1024

// handlerGrace is how long a handler may take to notice that its session is
// closed.
const handlerGrace = 2 * time.Second

// An answerer runs the handlers of a session: each question on a goroutine of its
// own, changes and log messages one after another on one.
type answerer struct {
	ctx     context.Context // of the handlers
	cancel  context.CancelCauseFunc
	opts    *Options
	changed func(mcp.Change) // told at once, before the handler
	wake    chan struct{}

	mu      sync.Mutex
	told    []any // mcp.Change or json.RawMessage
	closed  bool
	running sync.WaitGroup // grows only while closed is false
}

func newAnswerer(opts *Options, changed func(mcp.Change)) *answerer {
	a := &answerer{opts: opts, changed: changed, wake: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.running.Go(a.run)
	return a
}

// close ends the handlers that run and waits for them, as long as they may take.
// The connection has ended before: what a handler says to its end is not told to
// the server.
func (a *answerer) close() {
	a.cancel(jsonrpc.ErrClosed)
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		a.running.Wait()
	}()
	timer := time.NewTimer(handlerGrace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// Answer answers a question of the server, or fails when ctx ends or the session is closed,
// whether the handler notices or not.
func (a *answerer) Answer(ctx context.Context, question mcp.InputRequest) (mcp.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(jsonrpc.ErrClosed) })()

	var result mcp.Result
	var err error
	done := make(chan struct{})
	if !a.start(func() {
		defer close(done)
		result, err = a.handled(ctx, question)
	}) {
		return nil, jsonrpc.ErrClosed
	}
	select {
	case <-done:
		return result, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// start runs fn, unless the answerer is closed.
func (a *answerer) start(fn func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.running.Go(fn)
	}
	return !a.closed
}

var errNoAnswer = errors.New("the handler gave neither an answer nor an error")

// handled runs the handler of a question. A panic ends the question, not the
// process.
func (a *answerer) handled(ctx context.Context, question mcp.InputRequest) (result mcp.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("the handler of %s panicked: %v\n%s", question.Method, p, debug.Stack())
		}
	}()
	switch question.Method {
	case mcp.MethodElicit:
		return a.elicit(ctx, question.Params)
	case mcp.MethodCreateMessage:
		return a.sample(ctx, question.Params)
	case mcp.MethodRootsList:
		roots, err := a.opts.Roots(ctx)
		if err != nil {
			return nil, err
		}
		return &mcp.ListRootsResult{Roots: roots}, nil
	}
	return nil, fmt.Errorf("unknown question %.80q", question.Method)
}

func (a *answerer) sample(ctx context.Context, raw json.RawMessage) (mcp.Result, error) {
	params := new(mcp.CreateMessageParams)
	if err := params.UnmarshalJSON(raw); err != nil {
		return nil, invalidQuestion(mcp.MethodCreateMessage, err)
	}
	result, err := a.opts.Sample(ctx, params)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, errNoAnswer
	}
	return result, nil
}

// elicit asks the person and fills in what was left at its default.
func (a *answerer) elicit(ctx context.Context, raw json.RawMessage) (mcp.Result, error) {
	params := new(mcp.ElicitParams)
	if err := params.UnmarshalJSON(raw); err != nil {
		return nil, invalidQuestion(mcp.MethodElicit, err)
	}
	result, err := a.opts.Elicit(ctx, params)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, errNoAnswer
	case result.Action != mcp.ElicitAccept || params.RequestedSchema == nil:
		return result, nil
	}
	filled := *result
	if filled.Content, err = mcp.ApplyElicitDefaults(params.RequestedSchema, result.Content); err != nil {
		return nil, err
	}
	return &filled, nil
}

func invalidQuestion(method string, err error) error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("%s: %v", method, err)}
}

// Changed queues a change for the handler.
func (a *answerer) Changed(change mcp.Change) {
	a.changed(change)
	if a.opts.Changed != nil {
		a.tell(change)
	}
}

// Logged queues a log message for the handler.
func (a *answerer) Logged(params json.RawMessage) {
	if a.opts.Logged != nil {
		a.tell(params)
	}
}

func (a *answerer) tell(news any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.told) == maxTold {
		a.told = a.told[1:]
	}
	a.told = append(a.told, news)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *answerer) take() []any {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.told
	a.told = nil
	return told
}

// run tells news until the session ends.
func (a *answerer) run() {
	for {
		select {
		case <-a.wake:
		case <-a.ctx.Done():
			return
		}
		for _, news := range a.take() {
			if a.ctx.Err() != nil {
				return
			}
			a.handle(news)
		}
	}
}

func (a *answerer) handle(news any) {
	switch news := news.(type) {
	case mcp.Change:
		a.opts.Changed(a.ctx, news)
	case json.RawMessage:
		message := new(mcp.LoggingMessageParams)
		if message.UnmarshalJSON(news) == nil {
			a.opts.Logged(a.ctx, message)
		}
	}
}
