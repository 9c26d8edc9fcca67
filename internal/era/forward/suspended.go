package forward

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Limits of [SuspendedCalls].
const (
	// MaxSuspended is how many calls may wait for answers of their callers.
	MaxSuspended = 1024
	// MaxSuspendedPerPrincipal is how many of them may be of one principal.
	MaxSuspendedPerPrincipal = 64
	// SuspendedLifetime is how long one waits for a caller that has to come back.
	SuspendedLifetime = 5 * time.Minute
)

// SuspendedCalls holds calls to legacy servers that stay open while their callers are
// asked: such a server waits for the answer, and has already executed what came before
// the question. Any number of sessions may share one. Its methods may be called
// concurrently.
type SuspendedCalls struct {
	replica string // names this one among those of all replicas

	mu    sync.Mutex
	calls map[key]*forwardedCall
}

// A key is that of one server's part of one call.
type key struct{ call, label string }

// NewSuspendedCalls returns an empty SuspendedCalls.
func NewSuspendedCalls() *SuspendedCalls {
	return &SuspendedCalls{replica: rand.Text(), calls: make(map[key]*forwardedCall)}
}

var (
	errAbandoned = errors.New("the caller no longer waits for the result")
	errTooMany   = fmt.Errorf("too many calls wait for answers: at most %d of one user and %d in all", MaxSuspendedPerPrincipal, MaxSuspended)
	errTwice     = errors.New("two calls to the same server wait for answers within one call")
	errTooLate   = fmt.Errorf("the question was not answered within %v", SuspendedLifetime)
)

// put suspends a call until the question is answered. It returns the question, or the
// reason for which the call cannot wait and has been cancelled.
func (s *SuspendedCalls) put(c *forwardedCall, call *mcp.Call, opts *Options, question error) error {
	at := key{call.ID(), opts.ServerLabel}
	lifetime := SuspendedLifetime
	if !call.Caller.Version.Modern() {
		lifetime = era.InputTimeout + time.Minute // the caller's call is open, and ends this one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.calls {
		if other.principal == c.principal {
			own++
		}
	}
	switch {
	case s.calls[at] != nil:
		c.cancel(errTwice)
		return errTwice
	case len(s.calls) >= MaxSuspended || own >= MaxSuspendedPerPrincipal:
		c.cancel(errTooMany)
		return suspendError(jsonrpc.InternalError, "TOO_MANY_QUESTIONS", errTooMany.Error())
	}
	s.calls[at] = c
	c.resume = deadline.Pause(c.ctx)
	c.expiry = time.AfterFunc(lifetime, func() {
		if s.remove(at, c) != nil {
			c.cancel(errTooLate)
		}
	})
	call.OnDone(func() {
		s.remove(at, c)
		c.cancel(errAbandoned)
	})
	return (&round{Replica: s.replica}).store(call, opts, question)
}

// take returns the suspended call that a run of the caller's call continues, nil if there
// is none to continue.
func (s *SuspendedCalls) take(call *mcp.Call, opts *Options, round *round) (*forwardedCall, error) {
	if round == nil || round.Replica == "" {
		return nil, nil
	}
	at := key{call.ID(), opts.ServerLabel}
	if c := s.remove(at, nil); c != nil {
		return c, nil
	}
	if round.Replica != s.replica {
		return nil, suspendError(jsonrpc.InvalidParams, "CALL_ELSEWHERE",
			"the call waits for its answers at another replica, and cannot continue here: send the answers there, or make the call again from its beginning")
	}
	return nil, suspendError(jsonrpc.InvalidParams, "CALL_NOT_WAITING",
		"the call no longer waits for these answers: they came too late, or twice")
}

// remove returns the call that was there; if only is not nil, no other one is removed.
func (s *SuspendedCalls) remove(at key, only *forwardedCall) *forwardedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[at]
	if c == nil || only != nil && c != only {
		return nil
	}
	delete(s.calls, at)
	c.expiry.Stop()
	c.resume()
	return c
}

func suspendError(code jsonrpc.Code, kind, message string) error {
	return &jsonrpc.Error{Code: code, Message: message, Data: json.RawMessage(`{"type":"` + kind + `"}`)}
}
