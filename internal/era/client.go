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
	// Receiver, when set, takes what a server sends in the course of calls made with
	// [Session.Exchange].
	Receiver Receiver
}

// A Receiver takes messages that belong to single calls.
type Receiver interface {
	// Ask answers a question that a legacy server sends as a request.
	Ask(ctx context.Context, from jsonrpc.Peer, question mcp.InputRequest) (mcp.Result, error)
	// Log takes a log message, and reports whether it belongs to one of the calls. If
	// not, the Answerer gets it. Log must not block.
	Log(from jsonrpc.Peer, message *jsonrpc.Request) bool
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
	tracked map[string]func(progress *jsonrpc.Request) // by progress token
	listens map[jsonrpc.ID]*listen                     // subscription id to who listens
}

// A clientEra is what the two eras do differently once a session is open.
type clientEra interface {
	// do makes one call, however many requests it takes.
	do(ctx context.Context, s *Session, method string, params jsonrpc.Appender, token json.RawMessage) (*jsonrpc.Response, error)
	// listen subscribes until ctx ends.
	listen(ctx context.Context, s *Session, filter mcp.SubscriptionFilter, ready func(mcp.SubscriptionFilter)) error
	// ping asks for a sign of life.
	ping(ctx context.Context, s *Session) error
	// exchange makes one round of a call.
	exchange(ctx context.Context, s *Session, method string, params RoundParams) (*jsonrpc.Response, *mcp.InputRequiredResult, error)
	// asked answers a request of the server.
	asked(ctx context.Context, s *Session, from jsonrpc.Peer, req *jsonrpc.Request) (mcp.Result, error)
}

// Open connects and finds out which era the server speaks.
func Open(ctx context.Context, dialer transport.Dialer, config Config) (*Session, error) {
	setDefault(&config.ProbeTimeout, ProbeTimeout)
	setDefault(&config.OpenTimeout, OpenTimeout)
	if config.MaxRounds == 0 {
		config.MaxRounds = MaxRounds
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
	s := &Session{config: config, tracked: make(map[string]func(*jsonrpc.Request)), listens: make(map[jsonrpc.ID]*listen)}
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

// Close ends the connection.
func (s *Session) Close() error { return s.conn.Close() }

// Do makes one call, however many requests it takes, and answers the questions
// that come up on the way. progress, when not nil, is called on this goroutine,
// in order, before Do returns.
func (s *Session) Do(ctx context.Context, method string, params jsonrpc.Appender, progress func(*mcp.ProgressParams)) (*jsonrpc.Response, error) {
	if progress == nil {
		return s.era.do(ctx, s, method, params, nil)
	}
	return s.doTracked(ctx, method, params, progress)
}

// RoundParams are the parameters of a request that a server may answer with a state.
type RoundParams interface {
	jsonrpc.Appender
	// SetState makes the parameters those of the request that continues with the state.
	SetState(state string)
}

// Exchange makes one round of a call: it sends a request, in the modern era again and
// again, at most 4 times, while the server answers with a state and no question. The
// parameters are sent as they are. question is not nil if the server asks by its result,
// and the answers belong into the next round. Questions that a legacy server sends as
// requests go to the [Receiver]. An error that is neither a *jsonrpc.Error nor a
// *jsonrpc.CallError is about what the server has answered.
func (s *Session) Exchange(ctx context.Context, method string, params RoundParams) (resp *jsonrpc.Response, question *mcp.InputRequiredResult, err error) {
	return s.era.exchange(ctx, s, method, params)
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
	if note.Method != mcp.NotificationProgress {
		return false
	}
	h.s.heard.Add(1)
	h.s.progressed(note)
	return true
}

// Notified sorts what the server tells. It runs on the read loop.
func (h sessionHandler) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
	h.s.heard.Add(1)
	switch note.Method {
	case mcp.NotificationProgress:
		h.s.progressed(note)
	case mcp.NotificationMessage:
		if r := h.s.config.Receiver; r == nil || !r.Log(from, note) {
			h.s.config.Answerer.Logged(note.Params)
		}
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
