// Package forward carries calls of others through a client session.
//
// A proxy receives a call and passes it on to another server with [Session.Forward].
// The parameters and the result stay bytes. In order:
//
//  1. The call is checked and gets new hop-by-hop members (params.go).
//  2. The request is sent, and becomes one of the calls in flight (call.go).
//  3. Progress and log messages of the server go to the caller, before the result
//     (notifications.go). What does not name its call is attributed to one of those in
//     flight (inflight.go).
//  4. A question of the server is asked of the caller. A modern server asks by its
//     result, and what the next round needs is stored with the call (round.go). A legacy
//     server asks by a request and waits for the answer: the call to it stays open, and
//     is suspended until the next run of the caller's call (suspended.go).
package forward

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Options say how one call is forwarded.
type Options struct {
	// Name is the server's name of the tool or prompt. Default: the caller's.
	Name string
	// ServerLabel names the server in the questions that it asks. Default: questions
	// stay as they are.
	ServerLabel string
	// Timeout ends the call when the server has reported no progress for so long, without
	// the time during which the caller is asked. Default: a context with a deadline is the
	// only bound; without one the transport's timeout, or 60 s where a legacy server can
	// ask.
	Timeout time.Duration
}

// A Session is a client session that also carries calls of others. Its methods may be
// called concurrently.
type Session struct {
	*era.Session
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	suspended    *SuspendedCalls
	inFlight     inFlight
	level        logLevel
	meta         atomic.Pointer[callerMeta]
}

// callerMeta is the envelope of the calls of one caller.
type callerMeta struct {
	caller  *mcp.Caller
	members string
}

// Open opens a session. If it is dedicated to calls of others, their callers have
// config.Capabilities and are asked what the server wants to know; otherwise questions of
// a legacy server go to config.Answerer.
func Open(ctx context.Context, dialer transport.Dialer, config era.Config, dedicated bool, suspended *SuspendedCalls) (*Session, error) {
	s := &Session{info: config.Info, capabilities: config.Capabilities, suspended: suspended}
	s.level.turn = make(chan struct{}, 1)
	s.level.set(config.LogLevel) // by the handshake
	if !dedicated {
		s.inFlight.answerer = config.Answerer
	}
	config.Receiver = &s.inFlight
	var err error
	s.Session, err = era.Open(ctx, dialer, config)
	return s, err
}

// Close ends the connection, and waits for the calls in flight.
func (s *Session) Close() error {
	s.inFlight.close()
	err := s.Session.Close()
	s.inFlight.running.Wait()
	return err
}

// Forward passes on one run of a call to the server. opts may be nil. The error is
// *mcp.InputRequired if the server asks: then the next run of the call continues with
// the answers. Any other error that is neither a *jsonrpc.Error nor a *jsonrpc.CallError
// is about the server's answer, after the call may have been executed.
func (s *Session) Forward(ctx context.Context, call *mcp.Call, opts *Options) (mcp.Result, error) {
	if err := refuseVariants(call); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &Options{}
	}
	round, err := loadRound(call, opts)
	if err != nil {
		return nil, err
	}
	c, err := s.suspended.take(call, opts, round)
	switch {
	case err != nil:
		return nil, err
	case c != nil:
		c.attach(ctx, call)
	default:
		if c, err = s.begin(ctx, call, opts, round); err != nil {
			return nil, err
		}
	}
	if c.asks == nil {
		defer c.end()
		c.response, c.question, c.err = s.Exchange(c.ctx, call.Method(), &c.params)
	}
	question, err := c.wait(ctx, call)
	switch {
	case question != nil: // of a legacy server
		return nil, s.suspended.put(c, call, opts, question)
	case err != nil:
		return nil, err
	case c.question != nil:
		return nil, ask(call, opts, c.question)
	}
	return mcp.Raw(c.response.Result), nil
}

// metaFor returns the members of _meta that describe the caller, "" if the handshake has
// said them.
func (s *Session) metaFor(caller *mcp.Caller) (string, error) {
	if !s.Version().Modern() {
		return "", nil
	}
	if known := s.meta.Load(); known != nil && known.caller == caller {
		return known.members, nil
	}
	members, err := era.RequestMeta(s.Version(), &s.info, &caller.Capabilities, caller.LogLevel)
	if err == nil {
		s.meta.Store(&callerMeta{caller, members})
	}
	return members, err
}

// CanForward reports whether the session can carry calls of callers with these
// capabilities: a legacy session has declared its capabilities once, in the handshake.
func (s *Session) CanForward(can *mcp.ClientCapabilities) bool {
	if s.Version().Modern() {
		return true
	}
	declared, err := era.EncodeCapabilities(s.Version(), &s.capabilities)
	if err != nil {
		return false
	}
	wanted, err := era.EncodeCapabilities(s.Version(), can)
	return err == nil && bytes.Equal(declared, wanted)
}
