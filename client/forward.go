package client

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Parking holds calls that were forwarded to servers of the legacy era and are open
// there, while their callers are asked: at most 1,024, and 64 of one principal, each
// for 5 minutes. Make one with [NewParking].
type Parking = era.Parking

// NewParking returns an empty parking, for [Options.Parking].
func NewParking() *Parking { return era.NewParking() }

// ForwardOptions say how one call is forwarded.
type ForwardOptions struct {
	// Name is what the server calls the tool or prompt, if not as the caller does.
	Name string
	// Asker names the server in the questions that it asks the caller; "" for not
	// at all.
	Asker string
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
// by this session or one that shares its [Parking], goes on where the last one stopped.
// Nothing is executed twice. An *[jsonrpc.Error] is the server's, a *[jsonrpc.CallError]
// says how far the call got.
//
// The session must be one for such callers; see [Session.Serves].
func (s *Session) Forward(ctx context.Context, call *mcp.Call, opts *ForwardOptions) (mcp.Result, error) {
	if s.handle == nil {
		return s.forward(ctx, call, opts)
	}
	sending := &sending{forward: opts, forwards: true}
	call.Set(s, sending)
	result, err := s.handle(ctx, call)
	if err != nil {
		return nil, sending.failed(call.Method(), err)
	}
	return result, nil
}

func (s *Session) forward(ctx context.Context, call *mcp.Call, opts *ForwardOptions) (mcp.Result, error) {
	for {
		link, err := s.live(ctx)
		if err != nil {
			return nil, notSent(call.Method(), err)
		}
		result, err := link.Forward(ctx, call, (*era.Forwarding)(opts))
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

// Serves says whether calls of callers that can be asked this much can be forwarded by
// this session. A server of the legacy era is told once, when the session is opened,
// what it can ask: then it must have been this much, as [Options.Capabilities].
func (s *Session) Serves(can *mcp.ClientCapabilities) bool { return s.current().Serves(can) }
