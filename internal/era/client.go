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

// A Mode selects the era of a client.
type Mode int

// The modes. Auto asks the server for its versions, and falls back to the handshake if the
// server does not answer that request.
const (
	Auto Mode = iota
	Modern
	Legacy
)

const (
	// ProbeTimeout is how long a server may take to answer the request for its versions before the
	// client sends the handshake.
	ProbeTimeout = 5 * time.Second
	// HandshakeDelay replaces a longer ProbeTimeout on a connection that is one stream. There the
	// answer to the request for the versions may still come after the handshake was sent.
	HandshakeDelay = time.Second
	// ProbeGrace is how long a client waits for that answer after the handshake was answered.
	ProbeGrace = 250 * time.Millisecond
	// OpenTimeout is how long opening a session may take.
	OpenTimeout = 30 * time.Second
)

// An Answerer handles the questions and notifications of a server, of either era.
type Answerer interface {
	// Answer answers a question of the server.
	Answer(ctx context.Context, question mcp.InputRequest) (mcp.Result, error)
	// Changed is called for a change of what the server offers. It must not block.
	Changed(change mcp.Change)
	// Logged is called for a log message. It must not block.
	Logged(params json.RawMessage)
}

// A Config describes a client and how it opens sessions.
type Config struct {
	Info         mcp.Implementation
	Capabilities mcp.ClientCapabilities
	Answerer     Answerer
	Mode         Mode
	// Version is the only version that the client accepts, which must be of the era of Mode. Default: all versions.
	Version mcp.Version
	// LogLevel is the least severe level of log messages, "" for none.
	LogLevel mcp.LoggingLevel
	// ProbeTimeout, OpenTimeout and MaxRounds default to the constants with these names. In mode
	// Modern, only OpenTimeout limits the request for the versions.
	ProbeTimeout time.Duration
	OpenTimeout  time.Duration
	MaxRounds    int
	// CallTimeout bounds the time in which a server sends neither a result nor progress of a
	// call, if the context of the call has no deadline. 0 means the timeout of the transport, and
	// a negative value none.
	CallTimeout time.Duration
	// QuestionsPerMinute and QuestionBurst limit how often the server may ask forwarded calls.
	// 0 means no limit.
	QuestionsPerMinute, QuestionBurst int
	// QuestionBytes bounds the parameters of one question. 0 means no limit.
	QuestionBytes int
	// CheckDescription, if set, returns an error if the server's description must not be
	// accepted. description is the result of the request that opens the session.
	CheckDescription func(description json.RawMessage) error
	// Receiver, if set, handles the messages of a server that belong to calls made with
	// [Client.Exchange].
	Receiver Receiver
}

// A Receiver handles messages that belong to single calls.
type Receiver interface {
	// Ask answers a question that a legacy server sends as a request.
	Ask(ctx context.Context, from jsonrpc.Peer, question mcp.InputRequest) (mcp.Result, error)
	// Log handles a log message and returns true if it belongs to one of the calls. Otherwise
	// the Answerer gets it. Log must not block.
	Log(from jsonrpc.Peer, message *jsonrpc.Request) bool
}

// ModeOf returns the mode in which a client speaks only one version, or mode if the version is "". The error says that there is
// no such version, or that it is of the other era.
func ModeOf(version mcp.Version, mode Mode) (Mode, error) {
	only := Legacy
	if version.Modern() {
		only = Modern
	}
	switch {
	case version == "":
		return mode, nil
	case !version.Known():
		return mode, fmt.Errorf("there is no protocol version %q", version)
	case mode != Auto && mode != only:
		return mode, fmt.Errorf("version %s is of the other era", version)
	}
	return only, nil
}

// checkDescription checks the result of the request that opens the session.
func (c *Config) checkDescription(description json.RawMessage) error {
	if c.CheckDescription == nil {
		return nil
	}
	return c.CheckDescription(description)
}

// A Client is the client's side of one session with a server, over one connection, in either era. Its methods may be
// called concurrently.
type Client struct {
	config  Config
	conn    transport.Conn
	era     clientEra
	server  Description
	version mcp.Version

	opening       atomic.Bool   // the handshake is under way, and must not be cancelled
	received      atomic.Uint64 // counts requests and notifications of the server
	tokens        atomic.Int64
	mu            sync.Mutex
	tracked       map[string]func(progress *jsonrpc.Request) // by progress token
	subscriptions map[jsonrpc.ID]*clientSubscription         // by subscription id
	closed        bool
	tasks         sync.WaitGroup // started while closed is false
}

// A listener receives what a subscription sends. Its functions may be nil. They run on the read loop, and
// must not block.
type listener struct {
	ready func(accepted mcp.SubscriptionFilter)
	task  func(state json.RawMessage)
}

// A clientEra is the part of a session that depends on the era.
type clientEra interface {
	// do makes one call, however many requests it takes.
	do(ctx context.Context, c *Client, method string, params jsonrpc.Appender, token json.RawMessage, opts CallOptions) (*jsonrpc.Response, error)
	// listen subscribes until ctx ends.
	listen(ctx context.Context, c *Client, filter mcp.SubscriptionFilter, to listener) error
	// ping returns when the server has answered.
	ping(ctx context.Context, c *Client) error
	// notify sends a notification.
	notify(ctx context.Context, c *Client, method string, params jsonrpc.Appender) error
	// exchange makes one round of a call.
	exchange(ctx context.Context, c *Client, method string, params RoundParams, timeout time.Duration) (*jsonrpc.Response, *mcp.InputRequiredResult, error)
	// handle answers a request of the server.
	handle(ctx context.Context, c *Client, from jsonrpc.Peer, req *jsonrpc.Request) (mcp.Result, error)
}

// Open connects to a server and opens a session in the era that the server supports.
func Open(ctx context.Context, dialer transport.Dialer, config Config) (*Client, error) {
	setDefault(&config.ProbeTimeout, ProbeTimeout)
	setDefault(&config.OpenTimeout, OpenTimeout)
	if config.MaxRounds == 0 {
		config.MaxRounds = MaxRounds
	}
	ctx, cancel := deadline.With(ctx, config.OpenTimeout, context.DeadlineExceeded)
	defer cancel()

	c, err := dial(ctx, dialer, config)
	if err != nil {
		return nil, err
	}
	probed, err := c.negotiate(ctx)
	// A server may end because of the unknown request. It gets another connection for the
	// handshake.
	if probed != nil && errors.Is(probed, jsonrpc.ErrClosed) && ctx.Err() == nil {
		c.conn.Close()
		if c, err = dial(ctx, dialer, config); err != nil {
			return nil, err
		}
		err = c.initialize(ctx)
	}
	if err != nil {
		c.conn.Close()
		if probed != nil && reason(probed) != reason(err) {
			err = fmt.Errorf("%w; before that: %v", err, probed) // the error to unwrap is the later one
		}
		return nil, openError(ctx, err, probed)
	}
	return c, nil
}

// reason returns the text of an error without the request that failed.
func reason(err error) string {
	if call, ok := errors.AsType[*jsonrpc.CallError](err); ok && call.Err != nil {
		err = call.Err
	}
	return err.Error()
}

// openError returns the error of a session that could not be opened: a *mcp.HandshakeError if the server has answered.
func openError(ctx context.Context, err, probed error) error {
	_, failed := errors.AsType[*jsonrpc.CallError](err)
	_, malformed := errors.AsType[*jsonrpc.DecodeError](err)
	_, known := errors.AsType[*mcp.HandshakeError](err)
	switch {
	case known, ctx.Err() != nil, errors.Is(err, transport.ErrNotReached), failed && !malformed && !errors.Is(err, transport.ErrRefused):
		return err
	}
	supported := namedVersions(err)
	if supported == nil {
		supported = namedVersions(probed)
	}
	return &mcp.HandshakeError{Supported: supported, Err: err}
}

// namedVersions returns the versions that the server has named in an error, or nil.
func namedVersions(err error) []mcp.Version {
	if h, ok := errors.AsType[*mcp.HandshakeError](err); ok {
		return h.Supported
	}
	var data mcp.UnsupportedVersionData
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Supported
}

// negotiate opens the session. probed is why the server is not modern, nil if it was not asked.
func (c *Client) negotiate(ctx context.Context) (probed, err error) {
	c.opening.Store(true)
	defer c.opening.Store(false)
	switch c.config.Mode {
	case Legacy:
		return nil, c.initialize(ctx)
	case Modern:
		found, err := c.probe(ctx)
		c.adopt(found)
		return nil, err
	case Auto:
	}
	if _, stream := c.conn.(streamConn); stream {
		return c.negotiateTogether(ctx)
	}
	probing, cancel := deadline.With(ctx, c.config.ProbeTimeout, errNoAnswer)
	found, probed := c.probe(probing)
	cancel()
	switch {
	case probed == nil:
		c.adopt(found)
		return nil, nil
	case ctx.Err() != nil, !mayBeLegacy(probed):
		return probed, probed
	}
	return probed, c.initialize(ctx)
}

// mayBeLegacy reports whether a server that did not answer the request for its versions may accept the handshake. Servers and
// gateways of the legacy era refuse the unknown request with any HTTP status.
func mayBeLegacy(probed error) bool {
	return errors.Is(probed, transport.ErrRefused) || !errors.Is(probed, transport.ErrNotReached) && !errors.Is(probed, jsonrpc.ErrClosed)
}

// An opened is the result of a request that opens a session.
type opened struct {
	server  Description
	version mcp.Version
	era     clientEra
	err     error
}

func (c *Client) adopt(o opened) { c.server, c.version, c.era = o.server, o.version, o.era }

// negotiateTogether is negotiate for a server that may take long to start, or may ignore the
// unknown request. After HandshakeDelay without an answer, it sends the handshake too. The first
// good answer opens the session, and the other is dropped when it comes. If both come within
// ProbeGrace, the session is modern.
func (c *Client) negotiateTogether(ctx context.Context) (probed, err error) {
	ctx, cancel := context.WithCancel(ctx)
	probes, handshakes := make(chan opened, 1), make(chan opened, 1)
	var requests sync.WaitGroup
	defer requests.Wait()
	defer cancel()
	start := func(results chan<- opened, request func(context.Context) (opened, error)) {
		requests.Go(func() {
			o, err := request(ctx)
			o.err = err
			results <- o
		})
	}
	start(probes, c.probe)
	due := time.After(min(c.config.ProbeTimeout, HandshakeDelay)) // the handshake
	var timeout <-chan time.Time                                  // of the probe, after the handshake has failed
	sent := false
	for {
		select {
		case found := <-probes:
			if found.err == nil {
				c.adopt(found)
				return nil, nil
			}
			probed = found.err
			switch {
			case err != nil: // the handshake has failed before
				return probed, err
			case sent:
			case ctx.Err() != nil, !mayBeLegacy(probed):
				return probed, probed
			default:
				return probed, c.initialize(ctx)
			}
		case <-due:
			sent = true
			start(handshakes, c.handshake)
		case found := <-handshakes:
			switch {
			case found.err == nil && probed == nil:
				// A modern server that has just started answers both, in any order.
				select {
				case probe := <-probes:
					if probe.err == nil {
						c.adopt(probe)
						return nil, nil
					}
				case <-time.After(ProbeGrace):
				case <-ctx.Done():
				}
				return errNoAnswer, c.initialized(ctx, found)
			case found.err == nil:
				return probed, c.initialized(ctx, found)
			case probed != nil:
				return probed, found.err
			}
			err = found.err
			timeout = time.After(c.config.ProbeTimeout)
		case <-timeout:
			return errNoAnswer, err
		}
	}
}

func dial(ctx context.Context, dialer transport.Dialer, config Config) (*Client, error) {
	c := &Client{config: config, tracked: make(map[string]func(*jsonrpc.Request)), subscriptions: make(map[jsonrpc.ID]*clientSubscription)}
	conn, err := dialer.Dial(ctx, clientHandler{c})
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c.conn = conn
	return c, nil
}

// Server returns the description that the server gave when the session was opened.
func (c *Client) Server() *Description { return &c.server }

// Version returns the version of the session.
func (c *Client) Version() mcp.Version { return c.version }

// Mode returns Modern or Legacy: the mode that opens another session of this era with the same
// server without asking it for its versions.
func (c *Client) Mode() Mode {
	if c.version.Modern() {
		return Modern
	}
	return Legacy
}

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.conn.Done() }

// Close ends the connection.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	defer c.tasks.Wait()
	return c.conn.Close()
}

// CallOptions configure one call. The zero value is valid.
type CallOptions struct {
	// Progress, if set, is called on the goroutine that makes the call, in order, before Do
	// returns.
	Progress func(*mcp.ProgressParams)
	// Timeout replaces Config.CallTimeout. If it is positive, it also applies to a context with a
	// deadline.
	Timeout time.Duration
	// NoTask says that the call must not continue as a task.
	NoTask bool
}

// Do makes one call with as many requests as it takes, and has the Answerer answer questions.
// The timeout of the call does not include the time of answering. The response may be a task; see
// [Client.IsTask].
func (c *Client) Do(ctx context.Context, method string, params jsonrpc.Appender, opts CallOptions) (*jsonrpc.Response, error) {
	if opts.Progress == nil {
		return c.era.do(ctx, c, method, params, nil, opts)
	}
	return c.doTracked(ctx, method, params, opts)
}

// call sends one request and waits for the response, at most for the timeout of [CallOptions].
func (c *Client) call(ctx context.Context, method string, params jsonrpc.Appender, timeout time.Duration) (*jsonrpc.Response, error) {
	perCall := timeout != 0
	hasDeadline := deadline.Has(ctx)
	if !perCall && !hasDeadline {
		timeout = c.config.CallTimeout
	}
	if timeout < 0 && !hasDeadline {
		timeout = forever
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = deadline.With(ctx, timeout, &timeoutError{timeout, perCall})
		defer cancel()
	}
	resp, err := c.conn.Call(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return dropNulls(method, c.version, resp), nil
}

// A timeoutError is the error of a call that reached its timeout. It is a
// context.DeadlineExceeded.
type timeoutError struct {
	timeout time.Duration
	perCall bool
}

func (e *timeoutError) Error() string {
	option := "client.Options.CallTimeout"
	if e.perCall {
		option = "client.CallOptions.Timeout"
	}
	return fmt.Sprintf("the server sent neither a result nor progress for %v (%s)", e.timeout, option)
}

func (*timeoutError) Unwrap() error { return context.DeadlineExceeded }

// Notify sends a notification. It drops a change of the roots in the modern era, where the server
// asks for them in each call. The error is a *jsonrpc.CallError.
func (c *Client) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	return c.era.notify(ctx, c, method, params)
}

// RoundParams are the parameters of a request that a server may answer with a state.
type RoundParams interface {
	jsonrpc.Appender
	// SetState turns the parameters into the parameters of the request that continues with the state.
	SetState(state string)
}

// Exchange makes one round of a call: it sends a request with these params. In the modern era
// it sends the request again, at most 3 times, while the server answers with a state and no
// question. question is not nil if the result asks the client; the next round sends the answers.
// The [Receiver] gets the questions that a legacy server sends as requests. An error
// that is neither a *jsonrpc.Error nor a *jsonrpc.CallError means that the result is invalid.
func (c *Client) Exchange(ctx context.Context, method string, params RoundParams) (resp *jsonrpc.Response, question *mcp.InputRequiredResult, err error) {
	return c.era.exchange(ctx, c, method, params, 0)
}

// Ping returns nil if the server answers, or sends any message, before ctx ends.
func (c *Client) Ping(ctx context.Context) error {
	received := c.received.Load()
	err := c.era.ping(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) && c.received.Load() != received {
		return nil
	}
	return err
}

// Listen subscribes to changes and passes them to the Answerer until ctx ends. It returns nil
// if the server ends the subscription. ready, if not nil, is called once with the part of the
// filter that the server has accepted.
func (c *Client) Listen(ctx context.Context, filter mcp.SubscriptionFilter, ready func(mcp.SubscriptionFilter)) error {
	return c.era.listen(ctx, c, filter, listener{ready: ready})
}

func setDefault(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// A clientHandler handles the messages of the server.
type clientHandler struct{ client *Client }

// Handle answers a request of the server. Only legacy servers send any.
func (h clientHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	h.client.received.Add(1)
	if req.Method == mcp.MethodPing {
		return reply.Write(emptyResult)
	}
	if h.client.era == nil {
		return methodNotFound(req.Method)
	}
	result, err := h.client.era.handle(ctx, h.client, from, req)
	if err != nil {
		return err
	}
	return reply.Write(result)
}

// Borrow handles progress without retaining the notification: there may be a lot.
func (h clientHandler) Borrow(notification *jsonrpc.Request) bool {
	if notification.Method != mcp.NotificationProgress {
		return false
	}
	h.client.received.Add(1)
	h.client.handleProgress(notification)
	return true
}

// HandleNotification passes on the notifications of the server. It runs on the read loop.
func (h clientHandler) HandleNotification(from jsonrpc.Peer, notification *jsonrpc.Request) {
	h.client.received.Add(1)
	switch notification.Method {
	case mcp.NotificationMessage:
		if r := h.client.config.Receiver; r == nil || !r.Log(from, notification) {
			h.client.config.Answerer.Logged(notification.Params)
		}
	case mcp.NotificationAcknowledged:
		h.client.handleAcknowledged(notification)
	case mcp.NotificationTasks:
		h.client.handleTask(notification)
	case mcp.NotificationCancelled:
		h.client.handleCancelled(notification)
	case mcp.NotificationEventActive, mcp.NotificationEvent, mcp.NotificationEventError, mcp.NotificationEventHeartbeat, mcp.NotificationEventTerminated:
		h.client.handleEvent(notification)
	case mcp.NotificationResourceUpdated:
		if uri, err := uriOf(notification); err == nil {
			h.client.config.Answerer.Changed(mcp.Change{Kind: mcp.KindResource, URI: uri})
		}
	default:
		if kind := changedList(notification.Method); kind != 0 {
			h.client.config.Answerer.Changed(mcp.Change{Kind: kind})
		}
	}
}

// NotifyCancelled notifies the server of an abandoned call. The handshake must not be cancelled.
func (h clientHandler) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	if !h.client.opening.Load() {
		notifyCancelled(from, id, cause)
	}
}
