package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Mode says which era a client speaks.
type Mode int

// The modes. Auto asks the server, and falls back to the handshake when the
// server does not know the question.
const (
	Auto Mode = iota
	Modern
	Legacy
)

const (
	// ProbeTimeout is how long a server may take to say that it is modern.
	ProbeTimeout = 5 * time.Second
	// OpenTimeout bounds opening a session.
	OpenTimeout = 30 * time.Second
	// cancelTimeout bounds telling that a call is cancelled.
	cancelTimeout = time.Second
)

// An Answerer is what a client can be asked and told. It has no era.
type Answerer interface {
	// Answer answers a question of the server.
	Answer(ctx context.Context, question mcp.InputRequest) (mcp.Result, error)
	// Changed takes a change of what the server offers. It must not block.
	Changed(change mcp.Change)
	// Logged takes a log message. It must not block.
	Logged(params json.RawMessage)
}

// A Config says who a client is and how it opens sessions.
type Config struct {
	Info         mcp.Implementation
	Capabilities mcp.ClientCapabilities
	Answerer     Answerer
	Mode         Mode
	// Version is the handshake's, the newest legacy one by default.
	Version mcp.Version
	// LogLevel is the least severe level wanted, "" for none.
	LogLevel mcp.LoggingLevel
	// ProbeTimeout, OpenTimeout, MaxRounds: zero means the constants' values.
	ProbeTimeout time.Duration
	OpenTimeout  time.Duration
	MaxRounds    int
	// Forwards says that the session is for calls of others: Capabilities are theirs,
	// and so is the answer to a question.
	Forwards bool
	// Parking holds calls whose callers are asked. By default one of the session's
	// own.
	Parking *Parking
}

// A Session is a client's conversation with one server over one connection,
// without an era. Its methods may be called concurrently.
type Session struct {
	config Config
	conn   transport.Conn
	era    clientEra
	server Description
	speaks mcp.Version

	opening atomic.Bool   // the handshake must not be cancelled
	heard   atomic.Uint64 // counts what the server has sent unasked
	tokens  atomic.Int64
	mu      sync.Mutex
	tracked map[string]*track      // progress token to who waits for it
	listens map[jsonrpc.ID]*listen // subscription id to who listens

	passages passages
	running  sync.WaitGroup // grows only while closed is false
	closed   bool
}

// A clientEra is what the two eras do differently once a session is open.
type clientEra interface {
	// do makes one call, however many requests it takes.
	do(ctx context.Context, s *Session, method string, params jsonrpc.Appender, token json.RawMessage) (*jsonrpc.Response, error)
	// listen subscribes until ctx ends.
	listen(ctx context.Context, s *Session, filter mcp.SubscriptionFilter, ready func(mcp.SubscriptionFilter)) error
	// ping asks for a sign of life.
	ping(ctx context.Context, s *Session) error
	// asked answers a request of the server.
	asked(ctx context.Context, s *Session, from jsonrpc.Peer, req *jsonrpc.Request) (mcp.Result, error)
	// forward passes on one run of somebody else's call.
	forward(ctx context.Context, s *Session, call *mcp.Call, how *Forwarding) (mcp.Result, error)
	// serves says whether calls of callers that can be asked so can be forwarded.
	serves(s *Session, can *mcp.ClientCapabilities) bool
}

// Open connects and finds out which era the server speaks.
func Open(ctx context.Context, dialer transport.Dialer, config Config) (*Session, error) {
	setDefault(&config.ProbeTimeout, ProbeTimeout)
	setDefault(&config.OpenTimeout, OpenTimeout)
	if config.MaxRounds == 0 {
		config.MaxRounds = MaxRounds
	}
	if config.Parking == nil {
		config.Parking = NewParking()
	}
	if config.Version == "" {
		config.Version = mcp.LatestLegacyVersion
	}
	ctx, cancel := deadline.With(ctx, config.OpenTimeout, context.DeadlineExceeded)
	defer cancel()

	s, err := dial(ctx, dialer, config)
	if err != nil {
		return nil, err
	}
	var probed error
	if config.Mode != Legacy {
		err := s.probe(ctx)
		if err == nil {
			return s, nil
		}
		probed = err
		if config.Mode == Modern || ctx.Err() != nil || errors.Is(err, transport.ErrNotReached) {
			s.conn.Close()
			return nil, err
		}
		// A server that does not know the question may end over it: it gets a
		// fresh connection for the handshake.
		if errors.Is(err, jsonrpc.ErrClosed) {
			s.conn.Close()
			if s, err = dial(ctx, dialer, config); err != nil {
				return nil, err
			}
		}
	}
	if err := s.initialize(ctx); err != nil {
		s.conn.Close()
		if probed != nil {
			err = fmt.Errorf("%w; before that: %v", err, probed) // what the later attempt met is the error
		}
		return nil, err
	}
	return s, nil
}

func dial(ctx context.Context, dialer transport.Dialer, config Config) (*Session, error) {
	s := &Session{config: config, tracked: make(map[string]*track), listens: make(map[jsonrpc.ID]*listen)}
	conn, err := dialer.Dial(ctx, sessionHandler{s})
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	s.conn = conn
	return s, nil
}

// Server is what the server said of itself when the session was opened.
func (s *Session) Server() *Description { return &s.server }

// Version is the revision both sides speak.
func (s *Session) Version() mcp.Version { return s.speaks }

// Done is closed when the connection has ended.
func (s *Session) Done() <-chan struct{} { return s.conn.Done() }

// Close ends the connection, and waits for what uses it.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.conn.Close()
	s.running.Wait()
	return err
}

// start runs fn, which uses the connection, unless the session is closed.
func (s *Session) start(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Go(fn)
	}
	return !s.closed
}

// Do makes one call, however many requests it takes, and answers the questions
// that come up on the way. progress, when not nil, is called on this goroutine,
// in order, before Do returns.
func (s *Session) Do(ctx context.Context, method string, params jsonrpc.Appender, progress func(*mcp.ProgressParams)) (*jsonrpc.Response, error) {
	if progress == nil {
		return s.era.do(ctx, s, method, params, nil)
	}
	return s.doTracked(ctx, method, params, progress)
}

// Ping asks the server for a sign of life. All that the server sends before ctx ends is
// one.
func (s *Session) Ping(ctx context.Context) error {
	heard := s.heard.Load()
	err := s.era.ping(ctx, s)
	if errors.Is(err, context.DeadlineExceeded) && s.heard.Load() != heard {
		return nil
	}
	return err
}

// Listen subscribes to changes, which the Answerer is told, until ctx ends or
// the server ends the subscription (nil). ready, when not nil, is told once what
// the server has agreed to.
func (s *Session) Listen(ctx context.Context, filter mcp.SubscriptionFilter, ready func(mcp.SubscriptionFilter)) error {
	return s.era.listen(ctx, s, filter, ready)
}

func setDefault(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// sessionHandler takes what a server sends.
type sessionHandler struct{ s *Session }

// Handle answers a request of the server. Only legacy servers send any.
func (h sessionHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	h.s.heard.Add(1)
	if req.Method == mcp.MethodPing {
		return reply.Write(emptyResult)
	}
	if h.s.era == nil {
		return methodNotFound(req.Method)
	}
	result, err := h.s.era.asked(ctx, h.s, from, req)
	if err != nil {
		return err
	}
	return reply.Write(result)
}

// Borrow takes progress, of which there may be much, without keeping the notification.
func (h sessionHandler) Borrow(_ jsonrpc.Peer, note *jsonrpc.Request) bool {
	taken := note.Method == mcp.NotificationProgress && h.s.progressed(note)
	if taken {
		h.s.heard.Add(1)
	}
	return taken
}

// Notified sorts what the server tells. It runs on the read loop.
func (h sessionHandler) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
	h.s.heard.Add(1)
	switch note.Method {
	case mcp.NotificationProgress:
		if h.s.progressed(note) {
			return
		}
		if p := h.s.passages.withToken(note.Member(mcp.MetaProgressToken)); p != nil {
			p.add(note)
		}
	case mcp.NotificationMessage:
		if p, _ := h.s.passages.of(from, false); p != nil {
			p.add(note)
			return
		}
		h.s.config.Answerer.Logged(note.Params)
	case mcp.NotificationAcknowledged:
		h.s.acknowledged(note)
	case mcp.NotificationCancelled:
		h.s.cancelled(note)
	case mcp.NotificationToolsListChanged:
		h.s.config.Answerer.Changed(mcp.Change{Kind: mcp.KindTool})
	case mcp.NotificationPromptsListChanged:
		h.s.config.Answerer.Changed(mcp.Change{Kind: mcp.KindPrompt})
	case mcp.NotificationResourcesListChanged:
		h.s.config.Answerer.Changed(mcp.Change{Kind: mcp.KindResource})
	case mcp.NotificationResourceUpdated:
		if uri, err := uriOf(note); err == nil {
			h.s.config.Answerer.Changed(mcp.Change{Kind: mcp.KindResource, URI: uri})
		}
	}
}

// Abandoned tells the server that a call is not waited for any more. The
// handshake must not be cancelled.
func (h sessionHandler) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	if !h.s.opening.Load() {
		notifyCancelled(from, id, cause)
	}
}
