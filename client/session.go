package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/forward"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Session is a connection to one server. Open one with [Connect]. Its methods may be called
// concurrently.
//
// If the connection ends unexpectedly, the session connects again, with increasing pauses, and
// renews its subscriptions. Calls that were in progress fail, and are not repeated if they may have
// been executed. Later calls wait for the new connection.
type Session struct {
	opts     Options
	dialer   transport.Dialer
	handlers *handlers
	cache    cache
	handle   mcp.Handler // Options.Middleware, then transmit; nil without middleware

	ctx    context.Context // lasts as long as the session
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when reconnectLoop has returned
	onEnd  func(error)   // of Options.OnSession; may be nil

	answered   atomic.Bool                // a call on the current connection was answered
	lastCaller atomic.Pointer[mcp.Caller] // see caller

	mu      sync.Mutex
	conn    *forward.Client
	lost    bool          // connection has ended
	renewed chan struct{} // closed when lost changes
	dead    error         // why there will be no other connection
}

// Connect opens a session. It blocks until the server has answered, ctx ends, or Options.ConnectTimeout has passed.
// opts may be nil. The session lasts until [Session.Close], and not only as long as ctx. Over [transport.Pipe], the
// session has the principal of ctx (transport.WithPrincipal), also after it has connected again. The returned error
// wraps the error of the dialer or of ctx, or a *[mcp.HandshakeError] if the server has answered. That wraps the error of the
// server (*[jsonrpc.Error]), if it sent one.
func Connect(ctx context.Context, dialer transport.Dialer, opts *Options) (*Session, error) {
	if opts != nil {
		if err := opts.check(); err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	s := &Session{opts: opts.withDefaults(), dialer: dialer, ended: make(chan struct{}), renewed: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(transport.WithPrincipal(context.Background(), transport.Principal(ctx)))
	s.handle = s.composeMiddleware(s.opts.Middleware)
	s.handlers = newHandlers(&s.opts, s.cache.invalidate)
	conn, err := s.open(ctx)
	if err != nil {
		s.cancel(err)
		s.handlers.close()
		return nil, fmt.Errorf("client: %w", err)
	}
	s.conn = conn
	if s.opts.OnSession != nil {
		s.onEnd = s.opts.OnSession(ctx, s.caller())
	}
	go s.reconnectLoop()
	return s, nil
}

func (s *Session) open(ctx context.Context) (*forward.Client, error) {
	var roots era.Answerer
	if s.opts.Roots != nil {
		roots = s.handlers
	}
	return forward.Open(ctx, s.dialer, s.opts.config(s.handlers), s.opts.Capabilities != nil, roots, s.opts.SuspendedCalls.calls)
}

// Close ends the session and waits for it, at most a few seconds. Calls in progress fail with
// [jsonrpc.ErrClosed], and the contexts of handlers end. It may be called more than once. It
// returns nil.
func (s *Session) Close() error {
	s.cancel(jsonrpc.ErrClosed)
	<-s.ended
	s.handlers.close()
	return nil
}

// Done returns a channel that is closed when the session has ended: it was closed, or its
// connection was lost and could not be renewed.
func (s *Session) Done() <-chan struct{} { return s.ended }

// Err returns why the session has ended, or nil if it has not: [jsonrpc.ErrClosed] after Close, and
// otherwise an error that wraps it and says how the connection ended, such as a *[stdio.ExitError].
//
// [stdio.ExitError]: https://pkg.go.dev/github.com/dovetail-go/dovetail/transport/stdio#ExitError
func (s *Session) Err() error {
	select {
	case <-s.ended:
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead == nil {
		return jsonrpc.ErrClosed
	}
	return fmt.Errorf("%w: %w", jsonrpc.ErrClosed, s.dead)
}

// Server returns the server's name and version, as the server describes itself.
func (s *Session) Server() mcp.Implementation { return s.current().Server().Info }

// Capabilities returns what the server offers.
func (s *Session) Capabilities() mcp.ServerCapabilities { return s.current().Server().Capabilities }

// Instructions returns the server's instructions for a model, or "".
func (s *Session) Instructions() string { return s.current().Server().Instructions }

// Version returns the protocol version of the connection.
func (s *Session) Version() mcp.Version { return s.current().Version() }

// Era returns the era of the connection, [Modern] or [Legacy]. With it as [Options].Era, another
// session with the same server is opened without asking the server for its versions.
func (s *Session) Era() Era { return Era(s.current().Mode()) }

// Ping checks that the server answers. Errors are as in [Session.Call].
func (s *Session) Ping(ctx context.Context) error {
	for {
		conn, err := s.liveConn(ctx)
		if err != nil {
			return notSent(mcp.MethodPing, err)
		}
		if err = conn.Ping(ctx); s.isFinal(ctx, conn, err) {
			return withTimeoutOption(ctx, err)
		}
	}
}

// RootsChanged notifies the server that Options.Roots returns another list than before. In the modern
// era it does nothing, since the server asks for the roots in each call that needs them. Errors are
// as in [Session.Notify]; without Options.Roots it returns one.
func (s *Session) RootsChanged(ctx context.Context) error {
	if s.opts.capabilities().Roots == nil {
		return notSent(mcp.NotificationRootsListChanged, errNoRoots)
	}
	return s.Notify(ctx, mcp.NotificationRootsListChanged, nil)
}

var errNoRoots = errors.New("client.Options.Roots is not set")

// Notify sends a notification, for extensions of the protocol. params is an object; nil means an
// empty one. The session itself sends the notifications of the protocol, except for
// [Session.RootsChanged]. Middleware does not see notifications. A server may ignore them, without an
// error. The error is a *[jsonrpc.CallError].
func (s *Session) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if params == nil {
		params = json.RawMessage("{}")
	}
	encoded, err := userParams(params, nil)
	if err != nil {
		return notSent(method, err)
	}
	for {
		conn, err := s.liveConn(ctx)
		if err != nil {
			return notSent(method, err)
		}
		err = conn.Notify(ctx, method, encoded)
		if !notSentOnClosed(err) || s.awaitEnd(ctx, conn) != nil {
			return asCallError(method, err)
		}
	}
}

// stableAfter is how long a connection without an answered call must last before the number of
// attempts to connect is reset. It bounds reconnecting to a server that accepts connections and
// ends them.
const stableAfter = 10 * time.Second

// reconnectLoop replaces the connection when it ends, until the session ends.
func (s *Session) reconnectLoop() {
	defer close(s.ended)
	defer s.notifyEnd()
	var attempts attemptCounter
	for {
		conn, opened := s.current(), time.Now()
		select {
		case <-conn.Done():
		case <-s.ctx.Done():
			conn.Close()
			return
		}
		conn.Close()
		s.setConn(conn, true, nil)
		if s.answered.Swap(false) || time.Since(opened) >= stableAfter {
			attempts.reset()
		}
		next, err := s.reopen(&attempts, reasonOf(s.ctx, conn))
		if err != nil {
			s.setConn(conn, true, err)
			return
		}
		s.cache.clear()
		s.setConn(next, false, nil)
	}
}

// notifyEnd calls the function of Options.OnSession.
func (s *Session) notifyEnd() {
	if s.onEnd == nil {
		return
	}
	if s.ctx.Err() != nil { // Close was called
		s.onEnd(nil)
		return
	}
	s.mu.Lock()
	dead := s.dead
	s.mu.Unlock()
	s.onEnd(dead)
}

// An attemptCounter counts consecutive attempts to connect.
type attemptCounter struct {
	count int
	pause backoff.Backoff
}

func (a *attemptCounter) reset() {
	a.count = 0
	a.pause.Reset()
}

var errEnded = errors.New("the connection has ended")

// reasonOf returns why a connection has ended. It sends a ping, since the errors of calls on a closed connection
// contain the reason.
func reasonOf(ctx context.Context, conn *forward.Client) error {
	if err := conn.Ping(ctx); err != nil && err != jsonrpc.ErrClosed {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return errEnded
}

// reopen connects again. ended is why the last connection has ended. The error says why there will be no
// further attempt.
func (s *Session) reopen(attempts *attemptCounter, ended error) (*forward.Client, error) {
	failure := ended
	for !s.opts.NoReconnect && attempts.count < s.opts.Limits.Reconnects {
		attempts.count++
		if err := attempts.pause.Wait(s.ctx); err != nil {
			return nil, err
		}
		conn, err := s.open(s.ctx)
		if err == nil {
			return conn, nil
		}
		failure = fmt.Errorf("%w and could not be renewed in %d attempts: %w", errEnded, attempts.count, err)
	}
	return nil, failure
}

func (s *Session) current() *forward.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

func (s *Session) setConn(conn *forward.Client, lost bool, dead error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.lost, s.dead = conn, lost, dead
	close(s.renewed)
	s.renewed = make(chan struct{})
}

// liveConn returns a connection that is not known to have ended. It waits while the session connects
// again.
func (s *Session) liveConn(ctx context.Context) (*forward.Client, error) {
	for {
		s.mu.Lock()
		conn, lost, renewed, dead := s.conn, s.lost, s.renewed, s.dead
		s.mu.Unlock()
		switch {
		case s.ctx.Err() != nil:
			return nil, jsonrpc.ErrClosed
		case dead != nil:
			return nil, fmt.Errorf("%w: %w", jsonrpc.ErrClosed, dead)
		case !lost:
			return conn, nil
		}
		select {
		case <-renewed:
		case <-s.ctx.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// send makes one call. If it continues as a task, send waits for the task.
func (s *Session) send(ctx context.Context, method string, params jsonrpc.Appender, opts *CallOptions) (*jsonrpc.Response, error) {
	resp, conn, err := s.request(ctx, method, params, opts.options())
	if err == nil && s.opts.Capabilities == nil && conn.IsTask(method, resp) {
		return s.finishTask(ctx, resp, opts)
	}
	return resp, err
}

// request makes one call, and returns the connection on which it was made.
func (s *Session) request(ctx context.Context, method string, params jsonrpc.Appender, opts era.CallOptions) (*jsonrpc.Response, *forward.Client, error) {
	for {
		conn, err := s.liveConn(ctx)
		if err != nil {
			return nil, nil, notSent(method, err)
		}
		resp, err := conn.Do(ctx, method, params, opts)
		if s.isFinal(ctx, conn, err) {
			return resp, conn, withTimeoutOption(ctx, asCallError(method, err))
		}
	}
}

// isFinal reports whether a call on a connection has ended with its own result or error. Otherwise the
// call was not sent, because the connection had ended, and has to be made on the next connection.
func (s *Session) isFinal(ctx context.Context, conn *forward.Client, err error) bool {
	if err == nil && !s.answered.Load() {
		s.answered.Store(true)
	}
	return !notSentOnClosed(err) || s.awaitEnd(ctx, conn) != nil
}

// notSentOnClosed reports whether a call was not sent because its connection had ended.
func notSentOnClosed(err error) bool {
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	return ok && failed.Delivery == jsonrpc.NotSent && errors.Is(err, jsonrpc.ErrClosed)
}

// asCallError returns an error as a *[jsonrpc.CallError], which says whether the call may have been
// executed. It returns errors of the server unchanged.
func asCallError(method string, err error) error {
	switch err.(type) {
	case nil, *jsonrpc.Error, *jsonrpc.CallError:
		return err
	}
	return &jsonrpc.CallError{Method: method, Delivery: jsonrpc.MaybeExecuted, Err: err}
}

// errTimeout is the error of a call that has reached the timeout of the transport.
var errTimeout = fmt.Errorf("the server sent neither a result nor progress in the default time (client.Options.CallTimeout): %w", context.DeadlineExceeded)

// withTimeoutOption adds the name of the option to the error of a call that has reached the timeout
// of the transport.
func withTimeoutOption(ctx context.Context, err error) error {
	failed, ok := err.(*jsonrpc.CallError)
	if !ok || failed.Err != context.DeadlineExceeded || deadline.Has(ctx) {
		return err
	}
	return &jsonrpc.CallError{Method: failed.Method, Delivery: failed.Delivery, Err: errTimeout}
}

// awaitEnd waits for the end of a connection. It makes the next call wait for another connection, even before
// reconnectLoop has noticed.
func (s *Session) awaitEnd(ctx context.Context, conn *forward.Client) error {
	select {
	case <-conn.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.lost = true
	}
	return nil
}
