package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/era/forward"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Session is an open conversation with a server. Make one with [Connect].
//
// When its connection ends unasked, the session connects again, with growing
// pauses, and opens its subscriptions anew. Calls that were on their way fail,
// and are not repeated if they may have been executed; later ones wait.
type Session struct {
	opts     Options
	dialer   transport.Dialer
	answerer *answerer
	cache    cache
	codecs   codecs
	handle   mcp.Handler // Options.Middleware around transmit; nil if there is none

	ctx    context.Context // the session's life
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when nothing runs any more

	answered atomic.Bool // a call on this link

	mu      sync.Mutex
	link    *forward.Session
	lost    bool          // link has ended
	renewed chan struct{} // closed when lost changes
	dead    error         // why there will be no other link
}

// Connect opens a session.
func Connect(ctx context.Context, dialer transport.Dialer, opts *Options) (*Session, error) {
	if opts != nil && opts.LogLevel != "" && !opts.LogLevel.Valid() {
		return nil, fmt.Errorf("client: there is no log level %q", opts.LogLevel)
	}
	s := &Session{opts: opts.withDefaults(), dialer: dialer, ended: make(chan struct{}), renewed: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.handle = s.intercept(s.opts.Middleware)
	s.answerer = newAnswerer(&s.opts, s.cache.invalidate)
	link, err := s.open(ctx)
	if err != nil {
		s.cancel(err)
		s.answerer.close()
		return nil, fmt.Errorf("client: %w", err)
	}
	s.link = link
	go s.keepOpen()
	return s, nil
}

func (s *Session) open(ctx context.Context) (*forward.Session, error) {
	return forward.Open(ctx, s.dialer, s.opts.config(s.answerer), s.opts.Capabilities != nil, s.opts.SuspendedCalls)
}

// Close ends the session, within a bound: calls that wait fail, handlers that
// run are told to stop. It may be called more than once.
func (s *Session) Close() error {
	s.cancel(jsonrpc.ErrClosed)
	<-s.ended
	s.answerer.close()
	return nil
}

// Done is closed when the session is over: it was closed, or its connection has ended
// and could not be opened again.
func (s *Session) Done() <-chan struct{} { return s.ended }

// Server is what the server says of itself.
func (s *Session) Server() mcp.Implementation { return s.current().Server().Info }

// Capabilities are what the server offers.
func (s *Session) Capabilities() mcp.ServerCapabilities { return s.current().Server().Capabilities }

// Instructions are the server's, for a model; empty if it has none.
func (s *Session) Instructions() string { return s.current().Server().Instructions }

// Version is the protocol version that is spoken.
func (s *Session) Version() mcp.Version { return s.current().Version() }

// Ping asks the server for a sign of life.
func (s *Session) Ping(ctx context.Context) error {
	for {
		link, err := s.live(ctx)
		if err != nil {
			return notSent(mcp.MethodPing, err)
		}
		if err = link.Ping(ctx); err == nil || !s.again(ctx, link, err) {
			return err
		}
	}
}
