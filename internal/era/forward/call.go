package forward

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A forwardedCall is a call to the server. If the server can ask by requests, the call may last
// for several runs of the caller's call. Each run waits for it.
type forwardedCall struct {
	notifications
	activity deadline.Activity // the timeout counts from the last progress
	client   *Client
	params   params
	caller   *mcp.Caller
	label    string             // names the server in its questions
	untrack  func()             // stops progress; nil if the caller wants no progress
	ctx      context.Context    // for the request
	stop     context.CancelFunc // stops the timeout; nil if there is none

	// The outcome. question is the result of a modern server that asks.
	response *jsonrpc.Response
	question *mcp.InputRequiredResult
	err      error

	// The server can ask by requests if asks is not nil. Otherwise these fields are not used.
	asks    chan *question
	cancel  context.CancelCauseFunc
	ended   chan struct{} // closed when there is an outcome
	pending *question     // the question that the caller was asked; used by the current run only
	asked   int           // number of questions to the caller so far; used by the current run only

	questions atomic.Int64 // of the server so far
	open      int          // questions of the server without an answer; protected by inFlight.mu

	// These are set by [SuspendedCalls].
	expiry *time.Timer
	resume func() // resumes the timeout
}

// A question is a question that a legacy server asks by a request.
type question struct {
	key      string
	request  mcp.InputRequest
	answered chan struct{} // closed when answer or err is set
	answer   json.RawMessage
	err      error
}

// begin returns a new call with the current run attached to it. last is nil in the first round.
// If the server can ask by requests, begin starts a goroutine that sends the request.
func (c *Client) begin(ctx context.Context, call *mcp.Call, opts *Options, last *round) (*forwardedCall, error) {
	params, err := c.paramsOf(call, opts, last)
	if err != nil && last == nil {
		return nil, notSent(call, err)
	}
	if err != nil {
		return nil, err
	}
	forwarded := &forwardedCall{client: c, params: params, caller: call.Caller, label: opts.ServerLabel}
	forwarded.attach(ctx, call)
	if !c.Version().Modern() {
		c.setLevel(ctx, call.Caller.LogLevel)
		if canBeAsked(call) {
			forwarded.asks, forwarded.ended = make(chan *question), make(chan struct{})
		}
	}
	if ctx.Err() != nil {
		return nil, notSent(call, context.Cause(ctx))
	}
	if call.ProgressToken() != nil {
		forwarded.params.token, forwarded.untrack = c.TrackProgress(func(_ json.RawMessage, progress *jsonrpc.Request) {
			forwarded.activity.Renew()
			forwarded.add(progress)
		})
	}
	forwarded.setContext(ctx, opts.Timeout)
	c.inFlight.add(forwarded)
	if forwarded.asks != nil && !c.inFlight.start(forwarded.request) {
		forwarded.end()
		return nil, notSent(call, jsonrpc.ErrClosed)
	}
	return forwarded, nil
}

func canBeAsked(call *mcp.Call) bool {
	can := &call.Caller.Capabilities
	return era.MayAsk(call.Method()) && (can.Elicitation != nil || can.Sampling != nil || can.Roots != nil)
}

func notSent(call *mcp.Call, err error) error {
	return &jsonrpc.CallError{Method: call.Method(), Delivery: jsonrpc.NotSent, Err: err}
}

const (
	// defaultTimeout bounds a request for which neither the options nor the context of the
	// caller set a limit.
	defaultTimeout = time.Minute
	// maxOpen bounds a request whose caller's context has a deadline.
	maxOpen = 24 * time.Hour
)

// setContext sets the context of the request. It has the values of the run that begins the
// call. It ends with that run, unless the server can ask by requests.
func (c *forwardedCall) setContext(ctx context.Context, timeout time.Duration) {
	c.ctx = context.WithValue(ctx, callKey{}, c)
	if c.untrack != nil || c.params.asTask {
		c.ctx = c.activity.Context(c.ctx)
	}
	if c.asks != nil {
		c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(c.ctx))
		switch {
		case timeout > 0:
		case deadline.Has(ctx), c.client.callTimeout < 0:
			timeout = maxOpen
		default:
			timeout = cmp.Or(c.client.callTimeout, defaultTimeout)
		}
	}
	if timeout > 0 {
		c.ctx, c.stop = deadline.With(c.ctx, timeout, context.DeadlineExceeded)
	}
}

// request sends the request and sets the outcome.
func (c *forwardedCall) request() {
	defer c.end()
	c.exchange()
}

// exchange sends the request and sets the outcome. A task of 2025-11-25 is awaited.
func (c *forwardedCall) exchange() {
	c.response, c.question, c.err = c.client.Exchange(c.ctx, c.params.call.Method(), &c.params)
	if c.err == nil && c.params.asTask {
		c.response, c.err = c.awaitTask(c.response)
	}
}

// end releases the resources of the call.
func (c *forwardedCall) end() {
	c.client.inFlight.remove(c)
	if c.untrack != nil {
		c.untrack()
	}
	if c.stop != nil {
		c.stop()
	}
	if c.asks != nil {
		c.cancel(nil)
		close(c.ended)
	}
}

// wait waits until the request has ended or the server asks, and then detaches the run.
// question is the error that asks the caller.
func (c *forwardedCall) wait(ctx context.Context, call *mcp.Call) (question, err error) {
	defer c.detach()
	for c.asks != nil {
		select {
		case <-c.ended:
			return nil, c.err
		default:
		}
		if question := c.answer(call); question != nil {
			return question, nil
		}
		select {
		case q := <-c.asks:
			c.asked++
			q.key = questionKey(c.label, "question "+strconv.Itoa(c.asked))
			c.pending = q
		case <-c.ended:
		case <-ctx.Done():
			c.cancel(context.Cause(ctx))
			<-c.ended
		}
	}
	return nil, c.err
}

// answer sets the caller's answer to the pending question. If there is no answer yet, it
// returns the error that asks the caller.
func (c *forwardedCall) answer(call *mcp.Call) (question error) {
	if c.pending == nil {
		return nil
	}
	answer, err := call.Input(c.pending.key, c.pending.request)
	if _, open := mcp.AsInputRequired(err); open {
		return err
	}
	c.pending.answer, c.pending.err = answer, err
	close(c.pending.answered)
	c.pending = nil
	return nil
}

// Hop-by-hop members of params.
const (
	memberMeta      = "_meta"
	memberState     = "requestState"
	memberResponses = "inputResponses"
	memberTask      = "task" // 2025-11-25
)

// reservedMembers are the names of members that policies and guards read, by the member that contains them. A variant
// in another case is refused: a server that ignores case would execute a call that was not checked.
var reservedMembers = map[string][]string{
	"":         {"name", "arguments", "uri", "ref", "argument", "context", "cursor", memberTask, "taskId", memberMeta, memberState, memberResponses},
	"ref":      {"type", "name", "uri"},
	"argument": {"name", "value"},
	memberMeta: {mcp.MetaProgressToken, mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel},
}

// refuseVariants returns an error if the name of a member differs from a reserved name in case
// only.
func refuseVariants(call *mcp.Call) error {
	if err := refuseVariantsOf(reservedMembers[""], call.Keys()); err != nil {
		return err
	}
	if call.Method() == mcp.MethodComplete {
		for _, within := range []string{"ref", "argument"} {
			if err := refuseVariantsOf(reservedMembers[within], call.Keys(within)); err != nil {
				return err
			}
		}
	}
	return refuseVariantsOf(reservedMembers[memberMeta], call.Keys(memberMeta))
}

func refuseVariantsOf(names []string, keys iter.Seq[[]byte]) error {
	for key := range keys {
		plain := isPlain(key)
		for _, name := range names {
			if plain && len(key) != len(name)+2 || jsonscan.KeyIs(key, name) || !strings.EqualFold(jsonscan.Unquote(key), name) {
				continue
			}
			return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "params: " + string(key) + ` is not "` + name + `": case matters`}
		}
	}
	return nil
}

// isPlain reports whether a key is ASCII without escapes. Only such a key has the same length
// as the names that it is a case variant of.
func isPlain(key []byte) bool {
	return !slices.ContainsFunc(key, func(b byte) bool { return b == '\\' || b >= utf8.RuneSelf })
}

// params are the parameters of the request to the server.
type params struct {
	call      *mcp.Call
	name      string          // the name at the server; "" if it is the caller's
	meta      string          // members of _meta that describe the caller
	token     json.RawMessage // progress token; nil if the caller wants no progress
	state     string
	responses json.RawMessage
	asTask    bool // the call becomes a task of a server of 2025-11-25
}

// paramsOf returns the parameters of a round. last is nil in the first round.
func (c *Client) paramsOf(call *mcp.Call, opts *Options, last *round) (p params, err error) {
	p.call, p.name = call, opts.Name
	if !c.Version().Modern() {
		p.asTask = opts.AsTask && c.Version() == mcp.Version20251125 && call.Method() == mcp.MethodToolsCall
		return p, nil
	}
	if p.meta, err = c.metaFor(call.Caller); err != nil {
		return p, err
	}
	if last == nil {
		p.responses = call.Member(memberResponses) // to questions that did not come through this session
		return p, nil
	}
	p.state = last.State
	p.responses, err = last.responses(call)
	return p, err
}

// SetState turns the parameters into the parameters of the request that continues with the state.
func (p *params) SetState(state string) { p.state, p.responses = state, nil }

// AppendJSON appends the caller's parameters with the hop-by-hop members replaced.
func (p *params) AppendJSON(dst []byte) ([]byte, error) {
	params := p.call.Params()
	if params == nil {
		params = json.RawMessage("{}")
	}
	meta, err := p.mergedMeta()
	if err != nil {
		return dst, err
	}
	edits := append(make([]jsonscan.Edit, 0, 5), jsonscan.Edit{Name: memberMeta, Value: meta},
		jsonscan.Edit{Name: memberResponses, Value: p.responses}, jsonscan.Edit{Name: memberState})
	if p.state != "" {
		edits[2].Value = jsonscan.AppendString(nil, p.state)
	}
	switch {
	case p.asTask:
		edits = append(edits, jsonscan.Edit{Name: memberTask, Value: []byte("{}")})
	case p.call.Member(memberTask) != nil && !p.call.Caller.Version.Modern(): // it is between the caller and this hop
		edits = append(edits, jsonscan.Edit{Name: memberTask})
	}
	if uri := p.call.URI(); uri != "" && p.call.Method() == mcp.MethodResourcesRead && !jsonscan.KeyIs(p.call.Member("uri"), uri) {
		edits = append(edits, jsonscan.Edit{Name: "uri", Value: jsonscan.AppendString(nil, uri)}) // the spelling that the server lists
	}
	if p.name != "" {
		name := jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, p.name)}
		if p.call.Method() == mcp.MethodComplete {
			ref, err := jsonscan.Splice(nil, p.call.Member("ref"), name)
			if err != nil {
				return dst, err
			}
			name = jsonscan.Edit{Name: "ref", Value: ref}
		}
		edits = append(edits, name)
	}
	return jsonscan.Splice(dst, params, edits...)
}

// mergedMeta returns _meta: the end-to-end members of the caller, then the hop-by-hop members of
// this session. It returns nil if there are no members.
func (p *params) mergedMeta() ([]byte, error) {
	received := p.call.Member(memberMeta)
	if received == nil && p.meta == "" {
		return nil, nil
	}
	dst := append(make([]byte, 0, len(received)+len(p.meta)+32), '{')
	if jsonscan.KindOf(received) == jsonscan.Object {
		members, err := jsonscan.ReadObject(received)
		if err != nil {
			return nil, err
		}
		for m := range members.All() {
			if !isHopByHop(m.Key) {
				dst = append(append(append(append(dst, m.Key...), ':'), m.Value...), ',')
			}
		}
	}
	if p.meta != "" {
		dst = append(append(dst, p.meta...), ',')
	}
	if p.token != nil {
		dst = append(append(append(dst, `"progressToken":`...), p.token...), ',')
	}
	if len(dst) == 1 {
		return nil, nil
	}
	dst[len(dst)-1] = '}'
	return dst, nil
}

// isHopByHop reports whether a key of _meta is valid for one hop only: the progress token, and
// the names that the protocol reserves.
func isHopByHop(key []byte) bool {
	name := key[1 : len(key)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = jsonscan.AppendUnquoted(nil, key)
	}
	return string(name) == mcp.MetaProgressToken || bytes.HasPrefix(name, []byte("io.modelcontextprotocol/"))
}
