package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// lateSize is more than the bytes that a late function retains beside the params of its call.
	lateSize = 16 << 10
	// lateGrace is how long after its timeout a function runs before that is logged.
	lateGrace = time.Second
)

// A timeLimit bounds one run of the calls of an entry. Time spent waiting for a person does not count. A nil timeLimit is
// no bound.
type timeLimit struct {
	server  *Server // nil if the function belongs to no server
	target  *mcp.Target
	timeout time.Duration
	err     error // of a call that took longer
}

func newTimeLimit(s *Server, timeout time.Duration, t *mcp.Target) *timeLimit {
	if timeout <= 0 {
		return nil
	}
	return &timeLimit{s, t, timeout, fmt.Errorf("%v %q took longer than %v", t.Kind, t.Name, timeout)}
}

// begin returns a handler with the bound: the context of next ends with it.
func (l *timeLimit) begin(next mcp.Handler) mcp.Handler {
	if l == nil || next == nil {
		return next
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		ctx, cancel := deadline.With(ctx, l.timeout, l.err)
		defer cancel()
		defer endRunWith(ctx, call)()
		result, err := next(ctx, call)
		if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused && !isProtocolError(err) && l.hasEnded(ctx) {
			err = functionErrorOf(l.err)
		}
		return result, err
	}
}

// hasEnded reports whether a run has taken too long. ctx is its context.
func (l *timeLimit) hasEnded(ctx context.Context) bool { return context.Cause(ctx) == l.err }

// answer returns a handler that returns when the bound is reached, even if next does not. begin is outside of it, and
// the guards between the two have decided.
func (l *timeLimit) answer(next mcp.Handler) mcp.Handler {
	if l == nil || next == nil {
		return next
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		began := time.Now()
		if l.server == nil || call.TaskID() != "" { // nothing else would wait for the function, or the task does
			result, err := next(ctx, call)
			return l.conclude(ctx, began, outcome{result, err})
		}
		own := call.Fork()
		returned := start(ctx, own, next)
		select {
		case o := <-returned:
			call.Join(own)
			return l.conclude(ctx, began, o)
		case <-ctx.Done():
		}
		if !l.hasEnded(ctx) || !l.leave(call, began, returned) {
			o := <-returned
			call.Join(own)
			return l.conclude(ctx, began, o)
		}
		return nil, functionErrorOf(l.err)
	}
}

// An outcome is what a handler has returned.
type outcome struct {
	result mcp.Result
	err    error
}

var errExited = errors.New("the function has ended its goroutine")

// start calls next in a goroutine. The channel gets what next returns.
func start(ctx context.Context, call *mcp.Call, next mcp.Handler) <-chan outcome {
	returned := make(chan outcome, 1)
	go func() {
		o := outcome{err: errExited}
		defer func() { returned <- o }()
		defer recoverPanic(&o.err)
		o.result, o.err = next(ctx, call)
	}()
	return returned
}

// conclude returns the outcome of a function that has returned. A function that has returned too late has failed.
func (l *timeLimit) conclude(ctx context.Context, began time.Time, o outcome) (mcp.Result, error) {
	if !l.hasEnded(ctx) {
		return o.result, o.err
	}
	l.log(time.Since(began), o.err)
	if o.err == nil {
		o.err = functionErrorOf(l.err)
	}
	return nil, o.err
}

// leave lets a function go on after its call was answered. It returns false if the server has to wait for the
// function before: what one client leaves behind is limited.
func (l *timeLimit) leave(call *mcp.Call, began time.Time, returned <-chan outcome) bool {
	s, holder, size := l.server, holderOf(call.Caller), lateSize+int64(len(call.Params()))
	if s.retained.Take(holder, size) != nil {
		return false
	}
	if !s.calls.extend() {
		s.retained.Return(holder, size)
		return false
	}
	s.late.running.Add(1)
	go func() {
		defer s.calls.end()
		defer s.retained.Return(holder, size)
		o := l.await(returned)
		s.late.running.Add(-1)
		s.late.returned.Add(1)
		l.log(time.Since(began), o.err)
	}()
	return true
}

// await waits for a late function.
func (l *timeLimit) await(returned <-chan outcome) outcome {
	timer := time.NewTimer(lateGrace)
	defer timer.Stop()
	select {
	case o := <-returned:
		return o
	case <-timer.C:
	}
	l.logger().Warn("a function still runs after its timeout; its call was answered", "kind", l.target.Kind, "name", l.target.Name, "timeout", l.timeout)
	return <-returned
}

// log logs what a function has returned too late.
func (l *timeLimit) log(took time.Duration, err error) {
	attrs := []any{"kind", l.target.Kind, "name", l.target.Name, "timeout", l.timeout, "took", took}
	level, message := slog.LevelWarn, "a function has failed after its timeout"
	switch _, panicked := errors.AsType[*panicError](err); {
	case err == nil:
		message = "a function has succeeded after its timeout, and its result is dropped"
	case panicked:
		level = slog.LevelError
	case took < l.timeout+lateGrace:
		level = slog.LevelDebug // it has ended with its context
	}
	if err != nil {
		attrs = append(errorAttrs(err), attrs...)
	}
	l.logger().Log(context.Background(), level, message, attrs...)
}

func (l *timeLimit) logger() *slog.Logger {
	if l.server == nil {
		return slog.Default()
	}
	return l.server.options.Logger
}

// lateFunctions counts functions that have not ended with their timeout.
type lateFunctions struct{ running, returned atomic.Int64 }

// LateFunctions returns how many functions of the server's tools still run after their [Tool].Timeout, and how many have
// returned after it since the server was created. Their calls were answered with an error. A function that is counted
// often ignores its context. It may be called concurrently.
func (s *Server) LateFunctions() (running, returned int) {
	return int(s.late.running.Load()), int(s.late.returned.Load())
}
