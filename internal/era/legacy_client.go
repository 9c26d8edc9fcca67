package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// initialize opens a legacy session. MCP 2025-11-25, basic/lifecycle.
func (c *Client) initialize(ctx context.Context) error {
	c.opening.Store(true)
	defer c.opening.Store(false)
	found, err := c.handshake(ctx)
	if err != nil {
		return err
	}
	return c.initialized(ctx, found)
}

// handshake sends the request that opens a legacy session.
func (c *Client) handshake(ctx context.Context) (found opened, err error) {
	version := cmp.Or(c.config.Version, mcp.LatestLegacyVersion)
	resp, err := c.conn.Call(ctx, mcp.MethodInitialize, &mcp.InitializeParams{
		ProtocolVersion: version,
		Capabilities:    capabilitiesAs(version, c.config.Capabilities),
		ClientInfo:      implementationFor(version, c.config.Info),
	})
	if err != nil {
		return found, fmt.Errorf("initializing: %w", err)
	}
	if err := c.config.checkDescription(resp.Result); err != nil {
		return found, err
	}
	var result mcp.InitializeResult
	if err := result.UnmarshalJSON(resp.Result); err != nil {
		return found, fmt.Errorf("initializing: %w", err)
	}
	chosen := result.ProtocolVersion
	switch {
	case !chosen.Known(), chosen.Modern():
		err = fmt.Errorf("initializing: the server chose version %s, which has no handshake in this client", jsonscan.Quote(string(chosen)))
	case c.config.Version != "" && chosen != c.config.Version:
		err = fmt.Errorf("initializing: the server chose version %s, and the client speaks only %s", chosen, c.config.Version)
	}
	if err != nil {
		return found, &mcp.HandshakeError{Supported: []mcp.Version{chosen}, Err: err}
	}
	found.server = Description{Info: result.ServerInfo, Capabilities: result.Capabilities, Instructions: result.Instructions}
	found.version, found.era = result.ProtocolVersion, newLegacyClient()
	return found, nil
}

// initialized completes a handshake.
func (c *Client) initialized(ctx context.Context, found opened) error {
	c.adopt(found)
	if err := c.conn.Notify(ctx, mcp.NotificationInitialized, nil); err != nil {
		return fmt.Errorf("initializing: %w", err)
	}
	if c.config.LogLevel == "" || c.server.Capabilities.Logging == nil {
		return nil
	}
	_, err := c.conn.Call(ctx, mcp.MethodSetLevel, &mcp.SetLevelParams{Level: c.config.LogLevel})
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil // a server may declare logging and have no levels
	}
	return err
}

// A legacyClient adds nothing to requests, because the session has the metadata.
type legacyClient struct {
	lock      chan struct{}     // held while subscribing or unsubscribing; a mutex with context
	watched   map[string]int    // number of listeners by resource; guarded by lock
	questions deadline.Activity // pauses the timeouts of calls while a question is answered
}

func newLegacyClient() *legacyClient {
	return &legacyClient{lock: make(chan struct{}, 1), watched: make(map[string]int)}
}

func (l *legacyClient) do(ctx context.Context, c *Client, method string, params jsonrpc.Appender, token json.RawMessage, opts CallOptions) (*jsonrpc.Response, error) {
	if token != nil {
		params = &tokenParams{params, token}
	}
	return c.call(l.questions.Context(ctx), method, params, opts.Timeout)
}

func (*legacyClient) exchange(ctx context.Context, c *Client, method string, params RoundParams, timeout time.Duration) (*jsonrpc.Response, *mcp.InputRequiredResult, error) {
	resp, err := c.call(ctx, method, params, timeout)
	return resp, nil, err
}

// tokenParams are parameters with a progress token.
type tokenParams struct {
	params jsonrpc.Appender
	token  json.RawMessage
}

// Hold keeps the buffer of a response for the caller of the call.
func (p *tokenParams) Hold(buffer *bufpool.Buffer) { hold(p.params, buffer) }

// AppendJSON appends the parameters with the token in their _meta.
func (p *tokenParams) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst, err := appendParams(dst, p.params)
	if err != nil {
		return dst, err
	}
	return appendMeta(dst, start, "", p.token)
}

func (*legacyClient) ping(ctx context.Context, c *Client) error {
	_, err := c.call(ctx, mcp.MethodPing, nil, 0)
	return err
}

func (*legacyClient) notify(ctx context.Context, c *Client, method string, params jsonrpc.Appender) error {
	return c.conn.Notify(ctx, method, params)
}

// handle answers a question of the server.
func (l *legacyClient) handle(ctx context.Context, c *Client, from jsonrpc.Peer, req *jsonrpc.Request) (mcp.Result, error) {
	question := mcp.InputRequest{Method: req.Method, Params: req.Params}
	switch req.Method {
	case mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList:
	default:
		return nil, methodNotFound(req.Method)
	}
	if err := RefuseQuestion(&c.config.Capabilities, question); err != nil {
		return nil, err
	}
	defer l.questions.Pause()()
	if c.config.Receiver != nil {
		result, err := c.config.Receiver.Ask(ctx, from, question)
		return result, questionError(err)
	}
	result, err := c.config.Answerer.Answer(ctx, question)
	return result, questionError(err)
}

// RefuseQuestion returns the error with which a legacy client refuses a question for which it did not declare the capability, nil if
// it did. MCP 2025-11-25, client/roots, client/sampling and client/elicitation.
func RefuseQuestion(has *mcp.ClientCapabilities, question mcp.InputRequest) error {
	switch {
	case missingCapability(has, question) == "":
		return nil
	case question.Method == mcp.MethodElicit:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "this client did not declare the capability for this question"}
	}
	return methodNotFound(question.Method)
}

// listen subscribes to each resource; changes of lists need no subscription. A session has one
// subscription for a resource, which ends with its last listener.
func (l *legacyClient) listen(ctx context.Context, c *Client, filter mcp.SubscriptionFilter, to listener) error {
	filter = accepted(filter, &c.server.Capabilities)
	watched, err := l.watch(ctx, c, filter.ResourceSubscriptions)
	defer l.unwatch(c, watched)
	if err != nil {
		return err
	}
	filter.ResourceSubscriptions = watched
	if to.ready != nil {
		to.ready(filter)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.conn.Done():
		return jsonrpc.ErrClosed
	}
}

// watch subscribes to resources and returns the resources to unwatch. As in the modern era, it leaves out resources
// that do not exist. It holds the lock until the server has answered: a server may handle requests in any order, and a
// late unsubscribe must not end a new subscription.
func (l *legacyClient) watch(ctx context.Context, c *Client, uris []string) (watched []string, err error) {
	if len(uris) == 0 {
		return nil, nil
	}
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	for _, uri := range uris {
		if l.watched[uri] == 0 {
			_, err := c.call(ctx, mcp.MethodResourcesSubscribe, &mcp.ResourceParams{URI: uri}, 0)
			if mcp.IsResourceNotFound(err) {
				continue
			}
			if err != nil {
				return watched, err
			}
		}
		l.watched[uri]++
		watched = append(watched, uri)
	}
	return watched, nil
}

const (
	// cancelTimeout bounds the notification that a call is cancelled, and how long the end of a
	// subscription waits for the server.
	cancelTimeout = time.Second
	// unwatchTimeout bounds how long the next subscription waits for the end of the last one.
	unwatchTimeout = 30 * time.Second
)

// unwatch runs after the end of the listener's context, so it has a timeout of its own. If the server
// takes longer to answer, unwatch returns, and the next subscription waits for the answer. Errors are
// ignored: the client drops notifications without a listener.
func (l *legacyClient) unwatch(c *Client, uris []string) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	if len(uris) == 0 || l.acquire(ctx) != nil {
		return
	}
	answered := make(chan struct{})
	unwatch := func() {
		defer close(answered)
		defer l.release()
		ctx, cancel := context.WithTimeout(context.Background(), unwatchTimeout)
		defer cancel()
		for _, uri := range uris {
			if l.watched[uri]--; l.watched[uri] == 0 {
				delete(l.watched, uri)
				_, _ = c.conn.Call(ctx, mcp.MethodResourcesUnsubscribe, &mcp.ResourceParams{URI: uri})
			}
		}
	}
	if !c.start(unwatch) {
		l.release() // the subscriptions end with the session
		return
	}
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// start runs a task in the background, which ends with the connection, unless the session is closed.
// Close waits for it.
func (c *Client) start(task func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(task)
	return true
}

func (l *legacyClient) acquire(ctx context.Context) error {
	select {
	case l.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *legacyClient) release() { <-l.lock }
