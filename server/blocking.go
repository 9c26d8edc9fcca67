package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/internal/blocking"
)

// newBlockingCalls returns the calls of blocking tools, which may use a quarter of what clients may leave behind.
func (s *Server) newBlockingCalls() *blocking.Calls {
	return blocking.New(blocking.Config{
		Store: s.options.Store, Key: s.stateKey.Key, Retained: s.retained.Part(s.retainedBytes() / 4),
		Watch: s.watchTaskOfCall, Stopping: errStopping, Logger: s.options.Logger,
	})
}

// blockingKey is the key of the server that has received a call of a blocking tool, in the values of the call. It keeps
// the function, since its clients send the answers to it.
type blockingKey struct{}

// runBlocking is one run of a call of a blocking tool. registered identifies the tool among the variants of its name.
func (r *Request) runBlocking(ctx context.Context, tool string, registered any, function func(ctx context.Context, r *Request) (mcp.Result, error)) (mcp.Result, error) {
	received, _ := r.call.Get(blockingKey{}).(*Server)
	if received == nil {
		received = r.server // a wrapper of the entry has left it out
	}
	if received == nil {
		return nil, errors.New("a blocking tool needs a server")
	}
	return received.blocking.Run(ctx, r.call, tool, registered, func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = received.internalError("a call panicked", append(errorAttrs(&panicError{p, debug.Stack()}), "method", call.Method(), "name", tool)...)
			}
		}()
		call.Set(continuesKey{}, true)
		return function(ctx, &Request{ctx: ctx, call: call, server: r.server})
	})
}

// continuesKey is the key of true in the values of a call whose function continues in later requests.
type continuesKey struct{}

// continues reports whether later requests may want progress and log messages although the first one does not.
func (r *Request) continues() bool { return r != nil && r.call.Get(continuesKey{}) != nil }

// watchTaskOfCall calls ended when the task that a call runs as has ended, until stop is called.
func (s *Server) watchTaskOfCall(ctx context.Context, call *mcp.Call, ended func()) (stop func()) {
	changed := make(chan struct{}, 1)
	unwatch, err := s.watchTask(ctx, call.Caller, call.TaskID(), func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return func() {} // the function waits for a limited time
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			if task, err := (core{s}).Task(ctx, call.Caller, call.TaskID()); err == nil && task.Status.Ended() {
				ended()
				return
			}
		}
	})
	return func() {
		cancel()
		unwatch()
		watching.Wait()
	}
}

// blockingFeature ends the calls of blocking tools.
var blockingFeature = feature{
	needed: func(*Catalog, bool) bool { return false },
	stop: func(s *Server) func(context.Context) error {
		s.blocking.Drain()
		return func(ctx context.Context) error {
			if err := s.blocking.Stop(ctx); err != nil {
				return fmt.Errorf("calls of blocking tools: %w", err)
			}
			return nil
		}
	},
}
