package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// handlerGrace bounds how long Close waits for handlers.
const handlerGrace = 2 * time.Second

// A handlers runs the handlers of a session: each question on its own goroutine, changes and log
// messages one at a time on another one.
type handlers struct {
	ctx        context.Context // the context of handlers
	cancel     context.CancelCauseFunc
	opts       *Options
	invalidate func(mcp.Change) // called for each change, before OnChange
	queued     chan struct{}

	questions era.QuestionLimit
	limited   atomic.Bool // the last question exceeded the limit, which is logged once

	mu       sync.Mutex
	current  Handlers
	onChange listeners[mcp.Change]
	onLog    listeners[*mcp.LoggingMessageParams]
	queue    []queued
	size     int // bytes in queue
	waiting  map[mcp.Change]bool
	closed   bool
	running  sync.WaitGroup // Add only while closed is false
}

// A queued is a change, or the params of a log message.
type queued struct {
	isLog  bool
	change mcp.Change
	log    json.RawMessage
}

func (q *queued) size() int { return len(q.change.URI) + len(q.change.TaskID) + len(q.log) }

func newHandlers(opts *Options, changed func(mcp.Change)) *handlers {
	h := &handlers{opts: opts, invalidate: changed, queued: make(chan struct{}, 1), waiting: make(map[mcp.Change]bool)}
	h.current = Handlers{Elicit: opts.Elicit, Sample: opts.Sample, Roots: opts.Roots}
	if opts.OnChange != nil {
		h.onChange = h.onChange.with(opts.OnChange)
	}
	if opts.OnLog != nil {
		h.onLog = h.onLog.with(opts.OnLog)
	}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	h.running.Go(h.run)
	return h
}

// close ends the handlers' context and waits for them, at most handlerGrace. The connection has
// ended before, so their results are not sent.
func (h *handlers) close() {
	h.cancel(jsonrpc.ErrClosed)
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		h.running.Wait()
	}()
	select {
	case <-idle:
	case <-time.After(handlerGrace):
	}
}

// Answer answers a question of the server. It returns an error when ctx or the session ends, even
// if the handler is still running. The error is a *mcp.LimitError if the server asks too often.
func (h *handlers) Answer(ctx context.Context, question mcp.InputRequest) (mcp.Result, error) {
	result, err := h.answer(ctx, question)
	_, limited := errors.AsType[*mcp.LimitError](err)
	if wasLimited := h.limited.Swap(limited); err != nil && !(limited && wasLimited) && ctx.Err() == nil && h.ctx.Err() == nil {
		h.opts.Logger.Warn("a question of the server was not answered", "method", fmt.Sprintf("%.64s", question.Method), "error", err)
	}
	return result, err
}

func (h *handlers) answer(ctx context.Context, question mcp.InputRequest) (mcp.Result, error) {
	if most := h.opts.Limits.QuestionBytes; len(question.Params) > most {
		return nil, era.QuestionSizeError(most)
	}
	if err := h.questions.Take(1, h.opts.Limits.QuestionsPerMinute, h.opts.Limits.QuestionBurst); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(jsonrpc.ErrClosed) })()

	var result mcp.Result
	var err error
	done := make(chan struct{})
	if !h.start(func() {
		defer close(done)
		result, err = h.runHandler(ctx, question)
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

// Handlers are functions that answer questions of a server, as in [Options].
type Handlers struct {
	Elicit func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error)
	Sample func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	Roots  func(ctx context.Context) ([]mcp.Root, error)
}

// SetHandlers replaces handlers of the session for later questions. A handler that is nil stays as it
// is. Questions that are being answered keep their handler. SetHandlers may be called concurrently.
//
// The client declares its capabilities when the session is opened. A handler can therefore be replaced only if
// [Options] had one, or else SetHandlers returns an error and replaces none. A client that gets its handler later
// starts with one that returns an error. SetHandlers also returns an error if Options.Capabilities is set, because
// handlers do not answer then. After a new Roots, call [Session.RootsChanged].
func (s *Session) SetHandlers(replacements Handlers) error { return s.handlers.replace(replacements) }

func (h *handlers) replace(with Handlers) error {
	if h.opts.Capabilities != nil {
		return errors.New("client: handlers cannot be set after Connect: Options.Capabilities is set")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, handler := range []struct {
		name         string
		set, offered bool
	}{
		{"Elicit", with.Elicit != nil, h.current.Elicit != nil},
		{"Sample", with.Sample != nil, h.current.Sample != nil},
		{"Roots", with.Roots != nil, h.current.Roots != nil},
	} {
		if handler.set && !handler.offered {
			return fmt.Errorf("client: %[1]s cannot be set after Connect: the server was not offered it, since Options had no %[1]s", handler.name)
		}
	}
	if with.Elicit != nil {
		h.current.Elicit = with.Elicit
	}
	if with.Sample != nil {
		h.current.Sample = with.Sample
	}
	if with.Roots != nil {
		h.current.Roots = with.Roots
	}
	return nil
}

func (h *handlers) get() Handlers {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// start runs fn on a goroutine. It returns false if the handlers are closed.
func (h *handlers) start(fn func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.running.Go(fn)
	}
	return !h.closed
}

var errNoAnswer = errors.New("the handler returned neither an answer nor an error")

// runHandler calls the handler of a question. A panic is returned as an error.
func (h *handlers) runHandler(ctx context.Context, question mcp.InputRequest) (result mcp.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("the handler of %s panicked: %v\n%s", question.Method, p, debug.Stack())
		}
	}()
	switch current := h.get(); {
	case question.Method == mcp.MethodElicit && current.Elicit != nil:
		return h.elicit(ctx, question.Params)
	case question.Method == mcp.MethodCreateMessage && current.Sample != nil:
		return h.sample(ctx, question.Params)
	case question.Method == mcp.MethodRootsList && current.Roots != nil:
		roots, err := current.Roots(ctx)
		if err != nil {
			return nil, err
		}
		return &mcp.ListRootsResult{Roots: roots}, nil
	}
	return nil, fmt.Errorf("the client has no handler for %.80q", question.Method)
}

func (h *handlers) sample(ctx context.Context, raw json.RawMessage) (mcp.Result, error) {
	params := new(mcp.CreateMessageParams)
	if err := params.UnmarshalJSON(raw); err != nil {
		return nil, invalidParams(mcp.MethodCreateMessage, err)
	}
	result, err := h.get().Sample(ctx, params)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, errNoAnswer
	}
	return result, nil
}

// elicit calls the handler and adds the defaults of fields that the user has left out.
func (h *handlers) elicit(ctx context.Context, raw json.RawMessage) (mcp.Result, error) {
	params := new(mcp.ElicitParams)
	if err := params.UnmarshalJSON(raw); err != nil {
		return nil, invalidParams(mcp.MethodElicit, err)
	}
	if err := checkForm(params); err != nil {
		return nil, invalidParams(mcp.MethodElicit, err)
	}
	result, err := h.get().Elicit(ctx, params)
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

func invalidParams(method string, err error) error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("%s: %v", method, err)}
}

// listeners are functions that get changes or log messages. The list is copied when it changes, so that it can be read
// without a lock.
type listeners[T any] []*listener[T]

type listener[T any] struct {
	call func(ctx context.Context, message T)
}

// with returns the listeners and fn as the last one.
func (l listeners[T]) with(fn func(context.Context, T)) listeners[T] {
	return append(slices.Clip(l), &listener[T]{fn})
}

// without returns the listeners except one.
func (l listeners[T]) without(removed *listener[T]) listeners[T] {
	return slices.DeleteFunc(slices.Clone(l), func(other *listener[T]) bool { return other == removed })
}

// OnChange adds a function that is called for each change, after Options.OnChange and the functions that were added
// before. Calls are made as for [Options].OnChange. remove removes the function: calls of it that have begun may still run.
// OnChange and remove may be called concurrently, also by listeners, and remove more than once.
func (s *Session) OnChange(fn func(ctx context.Context, change mcp.Change)) (remove func()) {
	return addListener(s.handlers, &s.handlers.onChange, fn)
}

// OnLog adds a function that is called for each log message, as [Session.OnChange] does for changes. The server sends
// messages from [Options].LogLevel on. Set it, if Options.OnLog is not set: otherwise a server of 2026-07-28 sends none.
func (s *Session) OnLog(fn func(ctx context.Context, message *mcp.LoggingMessageParams)) (remove func()) {
	return addListener(s.handlers, &s.handlers.onLog, fn)
}

// addListener adds a function to a list of h.
func addListener[T any](h *handlers, to *listeners[T], fn func(context.Context, T)) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*to = to.with(fn)
	added := (*to)[len(*to)-1]
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		*to = to.without(added)
	}
}

// Changed queues a change for the listeners.
func (h *handlers) Changed(change mcp.Change) {
	if len(change.URI) > h.opts.Limits.URIBytes {
		return
	}
	h.invalidate(change)
	h.enqueue(queued{change: change})
}

// Logged queues a log message for the listeners.
func (h *handlers) Logged(params json.RawMessage) { h.enqueue(queued{isLog: true, log: params}) }

func (h *handlers) enqueue(item queued) {
	if item.size() > h.opts.Limits.QueuedBytes {
		return // it must not remove all others
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if item.isLog && len(h.onLog) == 0 || !item.isLog && len(h.onChange) == 0 {
		return
	}
	if !item.isLog {
		if h.waiting[item.change] {
			return
		}
		h.waiting[item.change] = true
	}
	h.queue = append(h.queue, item)
	h.size += item.size()
	for limits := &h.opts.Limits; len(h.queue) > limits.QueuedNotifications || h.size > limits.QueuedBytes; {
		oldest := h.queue[0]
		h.size -= oldest.size()
		if !oldest.isLog {
			delete(h.waiting, oldest.change)
		}
		h.queue = h.queue[1:]
	}
	select {
	case h.queued <- struct{}{}:
	default:
	}
}

func (h *handlers) takeQueue() []queued {
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := h.queue
	h.queue, h.size = nil, 0
	clear(h.waiting)
	return queue
}

// run calls the listeners until the session ends.
func (h *handlers) run() {
	for {
		select {
		case <-h.queued:
		case <-h.ctx.Done():
			return
		}
		for _, item := range h.takeQueue() {
			if h.ctx.Err() != nil {
				return
			}
			h.deliver(item)
		}
	}
}

func (h *handlers) deliver(item queued) {
	h.mu.Lock()
	onChange, onLog := h.onChange, h.onLog
	h.mu.Unlock()
	if !item.isLog {
		for _, listener := range onChange {
			listener.call(h.ctx, item.change)
		}
		return
	}
	for _, listener := range onLog {
		message := new(mcp.LoggingMessageParams) // each has its own
		if message.UnmarshalJSON(item.log) != nil {
			return
		}
		listener.call(h.ctx, message)
	}
}
