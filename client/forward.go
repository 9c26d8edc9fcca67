package client

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/era/forward"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// SuspendedCalls holds forwarded calls that stay open at servers of the legacy era while
// their callers are asked: at most 1,024, and 64 of one principal, each for 5 minutes. Any
// number of sessions may share one. Make one with [NewSuspendedCalls].
type SuspendedCalls = forward.SuspendedCalls

// NewSuspendedCalls returns an empty SuspendedCalls, for [Options.SuspendedCalls].
func NewSuspendedCalls() *SuspendedCalls { return forward.NewSuspendedCalls() }

// ForwardOptions say how one call is forwarded.
type ForwardOptions struct {
	// Name is the server's name of the tool or prompt. Default: the caller's.
	Name string
	// ServerLabel names the server in the questions that it asks the caller. Default:
	// questions stay as they are.
	ServerLabel string
	// Timeout ends the call when the server has reported no progress for so long. Time in
	// which the caller is asked does not count. By default a context with a deadline is
	// the only bound; without one it is the transport's timeout, and 60 s where the server
	// of a legacy session can ask.
	Timeout time.Duration
}

// Forward passes on somebody else's call, and returns the server's result, both byte by
// byte but for what belongs to one hop: the request's id, the progress token, what the
// protocol has reserved in _meta, and the state and answers of a call that asks.
//
// Progress and log messages go to the caller, before the result. What the server asks
// is asked of the caller, whatever the eras of the two are: the error is then
// *[mcp.InputRequired], to be returned as it is, and the next run of the call, forwarded
// by this session or one that shares its [SuspendedCalls], continues where the last one
// stopped. Nothing is executed twice. An *[jsonrpc.Error] is the server's, a
// *[jsonrpc.CallError] says how far the call got.
//
// The session must be one for such callers; see [Session.CanForward].
func (s *Session) Forward(ctx context.Context, call *mcp.Call, opts *ForwardOptions) (mcp.Result, error) {
	if s.handle != nil && !s.isSending(call) {
		return s.forwardWithin(ctx, call, opts)
	}
	for {
		link, err := s.live(ctx)
		if err != nil {
			return nil, notSent(call.Method(), err)
		}
		result, err := link.Forward(ctx, call, (*forward.Options)(opts))
		if err == nil {
			if !s.answered.Load() {
				s.answered.Store(true)
			}
			return result, nil
		}
		if !s.again(ctx, link, err) {
			return nil, asForwardError(call.Method(), err)
		}
	}
}

// asForwardError leaves a question what it is.
func asForwardError(method string, err error) error {
	if _, asks := errors.AsType[*mcp.InputRequired](err); asks {
		return err
	}
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
		return failed // what it wraps is not all
	}
	if spoken, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return spoken
	}
	return asCallError(method, err)
}

// CanForward reports whether this session can carry calls of clients with these
// capabilities. A server of the legacy era is told once, when the session is opened, what
// it can ask: then [Options.Capabilities] must be equal to them.
func (s *Session) CanForward(can *mcp.ClientCapabilities) bool { return s.current().CanForward(can) }
