package era

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxStateOnly is how often a server may answer with a state and no question.
const maxStateOnly = 3

// probe asks whether the server is modern. MCP 2026-07-28, basic/versioning.
func (c *Client) probe(ctx context.Context) (opened, error) {
	version := cmp.Or(c.config.Version, mcp.LatestVersion)
	era, err := newModernClient(&c.config, version)
	if err != nil {
		return opened{}, err
	}
	resp, err := era.discover(ctx, c)
	if supported := supportedBy(err); slices.Contains(supported, version) {
		// The server supports the version that it has refused, so it may accept it now.
		resp, err = era.discover(ctx, c)
	}
	if err != nil {
		return opened{}, fmt.Errorf("asking for the server's versions: %w", err)
	}
	if err := c.config.checkDescription(resp.Result); err != nil {
		return opened{}, err
	}
	var found mcp.DiscoverResult
	if err := found.UnmarshalJSON(resp.Result); err != nil {
		return opened{}, fmt.Errorf("the server's description: %w", err)
	}
	if !slices.Contains(found.SupportedVersions, version) {
		return opened{}, &mcp.HandshakeError{Supported: found.SupportedVersions, Err: fmt.Errorf("the server speaks %v", found.SupportedVersions)}
	}
	server := Description{Capabilities: found.Capabilities, Instructions: found.Instructions, CacheHint: found.CacheHint}
	if info := resp.Member("_meta", mcp.MetaServerInfo); info != nil {
		if err := server.Info.UnmarshalJSON(info); err != nil {
			return opened{}, fmt.Errorf("the server's name: %w", err)
		}
	}
	return opened{server: server, version: version, era: era}, nil
}

var errNoAnswer = errors.New("no answer in time")

// supportedBy returns the versions that an unsupported-version error names.
func supportedBy(err error) []mcp.Version {
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != mcp.CodeUnsupportedVersion {
		return nil
	}
	var data mcp.UnsupportedVersionData
	if json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Supported
}

// A modernClient adds the metadata of the client to each request.
type modernClient struct {
	meta   string        // members of _meta, encoded once
	tasks  bool          // meta declares that the client supports tasks
	direct *modernClient // makes the calls that must not continue as tasks; nil unless tasks is true
}

func newModernClient(config *Config, version mcp.Version) (*modernClient, error) {
	can := config.Capabilities
	meta, err := RequestMeta(version, &config.Info, &can, config.LogLevel)
	m := &modernClient{meta: meta, tasks: can.HasExtension(mcp.ExtensionTasks)}
	if err != nil || !m.tasks {
		return m, err
	}
	can.Extensions = maps.Clone(can.Extensions)
	delete(can.Extensions, mcp.ExtensionTasks)
	meta, err = RequestMeta(version, &config.Info, &can, config.LogLevel)
	m.direct = &modernClient{meta: meta}
	return m, err
}

// RequestMeta returns the members of _meta of a modern request, as JSON text without the
// braces. level may be empty.
func RequestMeta(version mcp.Version, info *mcp.Implementation, can *mcp.ClientCapabilities, level mcp.LoggingLevel) (string, error) {
	client, err := info.MarshalJSON()
	if err != nil {
		return "", err
	}
	capabilities, err := EncodeCapabilities(version, can)
	if err != nil {
		return "", err
	}
	meta := fmt.Sprintf(`"%s":"%s","%s":%s,"%s":%s`, mcp.MetaProtocolVersion, version,
		mcp.MetaClientCapabilities, capabilities, mcp.MetaClientInfo, client)
	if level != "" {
		meta += fmt.Sprintf(`,"%s":%q`, mcp.MetaLogLevel, level)
	}
	return meta, nil
}

// EncodeCapabilities returns the capabilities as a client of that version declares them.
func EncodeCapabilities(version mcp.Version, can *mcp.ClientCapabilities) ([]byte, error) {
	declared := capabilitiesAs(version, *can)
	return declared.MarshalJSON()
}

// do makes a call. While its result is a question, do answers the question and makes the call
// again. MCP 2026-07-28, basic/patterns/mrtr.
func (m *modernClient) do(ctx context.Context, c *Client, method string, params jsonrpc.Appender, token json.RawMessage, opts CallOptions) (*jsonrpc.Response, error) {
	if opts.NoTask && m.tasks {
		m = m.direct
	}
	round := &modernParams{era: m, params: params, token: token}
	for asked := 0; ; asked++ {
		resp, question, err := m.exchange(ctx, c, method, round, opts.Timeout)
		switch {
		case err != nil:
			return nil, afterRounds(asked, err)
		case question == nil && !m.tasks && IsTask(method, resp.Member("resultType")):
			return nil, errors.New("the server continues the call as a task, and the client has not declared to support tasks")
		case question == nil:
			return resp, nil
		case !MayAsk(method):
			return nil, errors.New("the server asked a question, which it may not for this method")
		case asked == c.config.MaxRounds:
			return nil, RoundsError(c.config.MaxRounds)
		}
		round.state = question.RequestState
		if round.responses, err = c.AnswerAll(ctx, question.InputRequests); err != nil {
			return nil, err
		}
	}
}

// exchange sends a request, and sends it again while the server answers with a state and no
// question. MCP 2026-07-28, basic/patterns/mrtr.
func (*modernClient) exchange(ctx context.Context, c *Client, method string, params RoundParams, timeout time.Duration) (*jsonrpc.Response, *mcp.InputRequiredResult, error) {
	var pause backoff.Backoff
	for again := range maxStateOnly + 1 {
		resp, err := c.call(ctx, method, params, timeout)
		if err != nil {
			return nil, nil, afterRounds(again, err)
		}
		kind := resp.Member("resultType")
		switch {
		case kind == nil, isString(kind, "complete"), IsTask(method, kind), method == mcp.MethodTasksGet && isString(kind, string(mcp.ResultTask)):
			return resp, nil, nil
		case !isString(kind, "input_required"):
			return nil, nil, fmt.Errorf("the result is of an unknown type %s", jsonscan.Quote(string(kind)))
		}
		var question mcp.InputRequiredResult
		if err := question.UnmarshalJSON(resp.Result); err != nil {
			return nil, nil, fmt.Errorf("the server's question: %w", err)
		}
		if len(question.InputRequests) > 0 {
			return nil, &question, nil
		}
		if question.RequestState == "" {
			break
		}
		params.SetState(question.RequestState)
		if err := pause.Wait(ctx); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("the server repeatedly returned a state without a question")
}

// IsTask reports whether the type of a result says that a call continues as a task. Only calls of tools
// may. SEP-2663, "Supported Methods".
func IsTask(method string, resultType json.RawMessage) bool {
	return methods[method].task && isString(resultType, string(mcp.ResultTask))
}

// afterRounds returns the error of a later round: earlier rounds may have been executed,
// however far that round got.
func afterRounds(asked int, err error) error {
	failed, ok := err.(*jsonrpc.CallError)
	if !ok || asked == 0 {
		return err
	}
	return &jsonrpc.CallError{Method: failed.Method, Delivery: jsonrpc.MaybeExecuted, Err: failed.Err}
}

// AnswerAll answers the questions of a round concurrently and encodes the answers.
func (c *Client) AnswerAll(ctx context.Context, questions map[string]mcp.InputRequest) (json.RawMessage, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	keys := sortedKeys(questions)
	answers := make([]mcp.Result, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	for i, key := range keys {
		question := questions[key]
		if err := checkAskable(&mcp.Caller{Capabilities: c.config.Capabilities}, question); err != nil {
			return nil, fmt.Errorf("the server asked %q: %v", key, err) // not wrapped: it is not an answer of the server
		}
		group.Go(func() (err error) {
			answers[i], err = c.config.Answerer.Answer(ctx, question)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("a question of the server was not answered: %w", err)
	}
	out := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonscan.AppendString(out, key), ':')
		var err error
		if out, err = answers[i].AppendJSON(out); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// ping requests the description, which every server has: the modern era has no ping.
func (m *modernClient) ping(ctx context.Context, c *Client) error {
	_, err := m.discover(ctx, c)
	return err
}

func (m *modernClient) discover(ctx context.Context, c *Client) (*jsonrpc.Response, error) {
	return c.call(ctx, mcp.MethodDiscover, &modernParams{era: m}, 0)
}

// notify adds the metadata, as for requests.
func (m *modernClient) notify(ctx context.Context, c *Client, method string, params jsonrpc.Appender) error {
	if method == mcp.NotificationRootsListChanged {
		return nil
	}
	return c.conn.Notify(ctx, method, &modernParams{era: m, params: params})
}

// handle refuses all requests: a modern server sends none.
func (*modernClient) handle(_ context.Context, _ *Client, _ jsonrpc.Peer, req *jsonrpc.Request) (mcp.Result, error) {
	return nil, methodNotFound(req.Method)
}

// modernParams are the params of a call with the metadata of a modern request and the members
// of a later round.
type modernParams struct {
	era       *modernClient
	params    jsonrpc.Appender
	token     json.RawMessage
	state     string
	responses json.RawMessage
}

// SetState turns the parameters into the parameters of the request that continues with the state.
func (p *modernParams) SetState(state string) { p.state, p.responses = state, nil }

// Hold keeps the buffer of a response for the caller of the call.
func (p *modernParams) Hold(buffer *bufpool.Buffer) { hold(p.params, buffer) }

// AppendJSON appends the parameters in their envelope.
func (p *modernParams) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst, err := appendParams(dst, p.params)
	if err != nil {
		return dst, err
	}
	if dst, err = appendMeta(dst, start, p.era.meta, p.token); err != nil {
		return dst, err
	}
	if p.state == "" && p.responses == nil {
		return dst, nil
	}
	var state json.RawMessage
	if p.state != "" {
		state = jsonscan.AppendString(nil, p.state)
	}
	return jsonscan.Splice(dst[:start], bytes.Clone(dst[start:]),
		jsonscan.Edit{Name: memberResponses, Value: p.responses}, jsonscan.Edit{Name: memberState, Value: state})
}

// forever is longer than any use of a call or subscription. A call without a deadline gets the
// timeout of the transport.
const forever = 10 * 365 * 24 * time.Hour

var errEndedByServer = errors.New("the server has ended the subscription")

// A clientSubscription is an open subscription of a modern client.
type clientSubscription struct {
	listener
	event func(notification *jsonrpc.Request) // of a stream of events
	end   context.CancelCauseFunc
}

// listen makes a call, which ends with the subscription. MCP 2026-07-28,
// basic/patterns/subscriptions.
func (m *modernClient) listen(ctx context.Context, c *Client, filter mcp.SubscriptionFilter, to listener) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	ctx, cancel := context.WithTimeout(ctx, forever)
	defer cancel()
	params := &listenParams{
		Appender: &modernParams{era: m, params: &mcp.SubscriptionsListenParams{Notifications: filter}},
		client:   c, subscription: &clientSubscription{listener: to, end: end},
	}
	defer params.forget()
	_, err := c.conn.Call(ctx, mcp.MethodSubscriptionsListen, params)
	if errors.Is(err, errEndedByServer) {
		return nil
	}
	return err
}

// listenParams get the id of their request, which identifies the subscription.
type listenParams struct {
	jsonrpc.Appender
	client       *Client
	subscription *clientSubscription
	id           jsonrpc.ID
}

// ReceiveID registers the subscription.
func (p *listenParams) ReceiveID(id jsonrpc.ID) {
	p.id = id
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	p.client.subscriptions[id] = p.subscription
}

func (p *listenParams) forget() {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	delete(p.client.subscriptions, p.id)
}

// handleAcknowledged passes on the filter that the server has accepted.
func (c *Client) handleAcknowledged(notification *jsonrpc.Request) {
	l := c.subscription(notification.Member("_meta", mcp.MetaSubscriptionID))
	if l == nil || l.ready == nil {
		return
	}
	var accepted mcp.SubscriptionFilter
	if err := decodeObject(notification.Member("notifications"), &accepted); err == nil {
		l.ready(accepted)
	}
}

// handleTask passes on the state of a task, or reports the change if the subscription does not read
// states.
func (c *Client) handleTask(notification *jsonrpc.Request) {
	l := c.subscription(notification.Member("_meta", mcp.MetaSubscriptionID))
	switch {
	case l == nil:
	case l.task != nil:
		l.task(dropTaskNulls(c.version, notification.Params))
	default:
		if id := notification.Member("taskId"); jsonscan.KindOf(id) == jsonscan.String && len(id) <= maxTaskID {
			c.config.Answerer.Changed(mcp.Change{TaskID: jsonscan.Unquote(id)})
		}
	}
}

// handleCancelled ends a subscription. A server cancels nothing else.
func (c *Client) handleCancelled(notification *jsonrpc.Request) {
	if l := c.subscription(notification.Member("requestId")); l != nil {
		l.end(errEndedByServer)
	}
}

func (c *Client) subscription(id []byte) *clientSubscription {
	known, err := jsonrpc.ParseID(id)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.subscriptions[known]; s != nil {
		return s
	}
	for sent, s := range c.subscriptions { // some servers send a number as text
		if known.Matches(sent) {
			return s
		}
	}
	return nil
}
