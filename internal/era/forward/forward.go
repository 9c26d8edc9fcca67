package forward

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure the forwarding of one call.
type Options struct {
	// Name is the name of the tool or prompt at the server. Default: the name in the call.
	Name string
	// ServerLabel is put before the messages of the server's questions. Default: questions
	// stay as they are.
	ServerLabel string
	// Timeout bounds the time without progress of the server. It is paused while the caller
	// is asked. The default is the deadline of the context. Without one, it is
	// era.Config.CallTimeout, otherwise the timeout of the transport, or 60 s if a legacy
	// server can ask.
	Timeout time.Duration
	// AsTask makes the call a task of a server of 2025-11-25, and waits for its result.
	AsTask bool
}

// A Client is an [era.Client] that also carries calls of other clients. Its methods may be called concurrently.
type Client struct {
	*era.Client
	info        mcp.Implementation
	suspended   *SuspendedCalls
	limits      questionLimits
	callTimeout time.Duration // era.Config.CallTimeout
	inFlight    inFlight
	level       logLevel                   // for legacy servers
	meta        atomic.Pointer[callerMeta] // of the last caller
}

// questionLimits limit the questions of the server. A rate or size of 0 means no limit.
type questionLimits struct{ rounds, perMinute, burst, bytes int }

// checkSize returns a *mcp.LimitError if a question is too large.
func (l *questionLimits) checkSize(question mcp.InputRequest) error {
	if l.bytes > 0 && len(question.Params) > l.bytes {
		return era.QuestionSizeError(l.bytes)
	}
	return nil
}

// callerMeta is the encoded _meta of the calls of one caller.
type callerMeta struct {
	caller  *mcp.Caller
	members string
}

// Open opens a session. In a dedicated session, the clients whose calls it carries get the questions of a legacy server, as far
// as they and config.Capabilities have declared the capability. Otherwise config.Answerer gets them.
// roots, if not nil, lists roots outside of calls.
func Open(ctx context.Context, dialer transport.Dialer, config era.Config, dedicated bool, roots era.Answerer, suspended *SuspendedCalls) (*Client, error) {
	c := &Client{
		info: config.Info, suspended: suspended, callTimeout: config.CallTimeout,
		limits: questionLimits{rounds: cmp.Or(config.MaxRounds, era.MaxRounds), perMinute: config.QuestionsPerMinute, burst: config.QuestionBurst, bytes: config.QuestionBytes},
	}
	c.level.lock = make(chan struct{}, 1)
	c.level.set(config.LogLevel) // by the handshake
	if c.inFlight.roots = roots; !dedicated {
		c.inFlight.answerer = config.Answerer
	}
	config.Receiver = &c.inFlight
	var err error
	c.Client, err = era.Open(ctx, dialer, config)
	return c, err
}

// Close ends the connection, and waits for the calls in flight.
func (c *Client) Close() error {
	c.inFlight.close()
	err := c.Client.Close()
	c.inFlight.running.Wait()
	return err
}

// Forward forwards one run of a call to the server. opts may be nil. If the server asks, the
// error is an *mcp.InputRequired, and the next run of the call continues with the answers. Any
// other error that is neither a *jsonrpc.Error nor a *jsonrpc.CallError means that the server's
// result is invalid; the call may have been executed.
func (c *Client) Forward(ctx context.Context, call *mcp.Call, opts *Options) (mcp.Result, error) {
	if err := refuseVariants(call); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &Options{}
	}
	if call.Method() == mcp.MethodEventsStream {
		return c.forwardStream(ctx, call, opts)
	}
	round, err := loadRound(call, opts)
	if err != nil {
		return nil, err
	}
	forwarded, err := c.suspended.take(call, opts, round)
	switch {
	case err != nil:
		return nil, err
	case forwarded != nil:
		forwarded.attach(ctx, call)
	default:
		if forwarded, err = c.begin(ctx, call, opts, round); err != nil {
			return nil, err
		}
	}
	if forwarded.asks == nil {
		defer forwarded.end()
		forwarded.exchange()
	}
	question, err := forwarded.wait(ctx, call)
	switch {
	case question != nil: // from a legacy server
		return nil, c.suspended.put(forwarded, call, opts, question)
	case err != nil:
		return nil, err
	case forwarded.question != nil:
		return nil, c.ask(call, opts, round, forwarded.question)
	}
	return c.resultOf(call, opts, forwarded.response)
}

// metaFor returns the members of _meta that describe the caller, "" in a legacy session.
func (c *Client) metaFor(caller *mcp.Caller) (string, error) {
	if !c.Version().Modern() {
		return "", nil
	}
	if known := c.meta.Load(); known != nil && known.caller == caller {
		return known.members, nil
	}
	members, err := era.RequestMeta(c.Version(), &c.info, &caller.Capabilities, caller.LogLevel)
	if err == nil {
		c.meta.Store(&callerMeta{caller, members})
	}
	return members, err
}

// A logLevel is the log level of a legacy server. It applies to all calls of a session.
type logLevel struct {
	lock    chan struct{} // held by the call that changes the level; a mutex with context
	current atomic.Pointer[mcp.LoggingLevel]
}

// set records the level of the server.
func (l *logLevel) set(level mcp.LoggingLevel) {
	if level != "" {
		l.current.Store(&level)
	}
}

// levelTimeout bounds how long a call waits until the server has set a log level.
const levelTimeout = 5 * time.Second

// exceeds reports whether a level is more verbose than the level of the server.
func (l *logLevel) exceeds(level mcp.LoggingLevel) bool {
	current := l.current.Load()
	return level != "" && (current == nil || level.Severity() < current.Severity())
}

// setLevel raises the verbosity of a legacy server to the caller's level. Errors are ignored,
// since the call does not depend on log messages.
func (c *Client) setLevel(ctx context.Context, level mcp.LoggingLevel) {
	l := &c.level
	if c.Server().Capabilities.Logging == nil || !l.exceeds(level) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	// One change at a time, so that the last level is the most verbose.
	select {
	case l.lock <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-l.lock }()
	if !l.exceeds(level) {
		return
	}
	_, err := c.Do(ctx, mcp.MethodSetLevel, &mcp.SetLevelParams{Level: level}, era.CallOptions{})
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.NotSent {
		l.set(level)
	}
}

// forwardStream forwards a call of events/stream. It relays the notifications of the stream, in
// order and unchanged except for what belongs to one hop. If the caller reads too slowly, the stream
// ends, and the caller continues it at its last position.
func (c *Client) forwardStream(ctx context.Context, call *mcp.Call, opts *Options) (mcp.Result, error) {
	params, err := c.paramsOf(call, opts, nil)
	if err != nil {
		return nil, notSent(call, err)
	}
	streaming, cancel := context.WithCancel(ctx)
	queue := era.NewEventQueue(maxQueued, maxQueuedBytes, cancel)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { queue.End(c.ExchangeStream(streaming, &params, queue.Add)) })
	for {
		waiting, ended, err := queue.Take()
		for _, n := range waiting {
			if err := call.Notify(ctx, n.Method, mcp.Raw(n.Params)); err != nil {
				return nil, err
			}
		}
		switch {
		case len(waiting) > 0:
			continue
		case ended:
			return mcp.Raw("{}"), err
		}
		select {
		case <-queue.Ready():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
