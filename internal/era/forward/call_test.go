package forward_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A testCall is a call that a test forwards. It is the mcp.Responder of the call.
type testCall struct {
	caller *mcp.Caller
	params string
	id     string
	method string        // default tools/call
	delay  time.Duration // of each notification

	mu            sync.Mutex
	stored        map[string]json.RawMessage
	answers       map[string]json.RawMessage
	keys          []string // of the last questions
	notifications []string
	onDone        []func()
}

// allCapabilities are the capabilities of a caller that answers all kinds of questions.
var allCapabilities = mcp.ClientCapabilities{
	Elicitation: &mcp.ElicitationCapability{Form: &mcp.EmptyObject{}, URL: &mcp.EmptyObject{}},
	Sampling:    &mcp.SamplingCapability{},
	Roots:       &mcp.RootsCapability{},
}

func newTestCall(principal, params string) *testCall {
	return &testCall{
		caller:  &mcp.Caller{Version: mcp.LatestVersion, Capabilities: allCapabilities, Principal: principal},
		params:  params,
		id:      principal + params,
		stored:  make(map[string]json.RawMessage),
		answers: make(map[string]json.RawMessage),
	}
}

// run forwards one run of the call.
func (c *testCall) run(ctx context.Context, s *client.Session, opts *client.ForwardOptions) (string, error) {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), cmp.Or(c.method, mcp.MethodToolsCall), json.RawMessage(c.params))
	if err != nil {
		return "", err
	}
	call := mcp.NewCall(req, c.caller, c)
	result, err := s.Forward(ctx, &call, opts)
	if err != nil {
		return "", err
	}
	raw, err := result.AppendJSON(nil)
	return string(raw), err
}

// mustAsk runs the call, and fails the test unless it ends in a question.
func (c *testCall) mustAsk(t testing.TB, s *client.Session, opts *client.ForwardOptions) {
	t.Helper()
	result, err := c.run(t.Context(), s, opts)
	question, ok := mcp.AsInputRequired(err)
	if !ok {
		t.Fatalf("the call of %s ends with %s, %v, want a question", c.caller.Principal, result, err)
	}
	c.keys = nil
	for key := range question.Requests {
		c.keys = append(c.keys, key)
	}
}

// answer answers the last questions.
func (c *testCall) answer(answer string) *testCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.keys {
		c.answers[key] = json.RawMessage(answer)
	}
	return c
}

// clone returns a copy, for a caller that sends a round twice.
func (c *testCall) clone() *testCall {
	return &testCall{caller: c.caller, params: c.params, id: c.id, keys: c.keys, stored: maps.Clone(c.stored), answers: maps.Clone(c.answers)}
}

// end ends the call.
func (c *testCall) end() {
	for _, fn := range c.onDone {
		fn()
	}
}

func (c *testCall) Notify(_ context.Context, _ string, params jsonrpc.Appender) error {
	if c.delay > 0 {
		<-time.After(c.delay)
	}
	raw, err := params.AppendJSON(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notifications = append(c.notifications, string(raw))
	return err
}

func (c *testCall) received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.notifications, " ")
}

func (c *testCall) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.answers[key]; ok {
		return answer, nil
	}
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

func (c *testCall) Load(key string) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.stored[key]
	return value, ok
}

func (c *testCall) Store(key string, value json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored[key] = value
}

func (c *testCall) ID() string           { return c.id }
func (c *testCall) OnDone(fn func())     { c.onDone = append(c.onDone, fn) }
func (c *testCall) Detach(time.Duration) {}

func (c *testCall) TaskID() string { return "" }

// An askingServer is a legacy server that asks during each call, as often as the argument
// "asks" says. Its result contains the answers.
type askingServer struct {
	*eratest.Host

	mu       sync.Mutex
	calls    map[string]string   // ids to frames
	left     map[string]int      // number of questions by call
	said     map[string][]string // answers by call
	noResult bool                // calls get no result
}

func newAskingServer(t testing.TB) *askingServer {
	a := &askingServer{calls: make(map[string]string), left: make(map[string]int), said: make(map[string][]string)}
	a.Host = eratest.LegacyHost(t, a.reply)
	return a
}

func (a *askingServer) reply(frame string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if eratest.Text(frame, "method") == mcp.MethodToolsCall {
		id := eratest.At(frame, "id")
		a.calls[id] = frame
		a.left[id], _ = strconv.Atoi(eratest.At(frame, "params", "arguments", "asks"))
		return a.next(id)
	}
	if id, ok := strings.CutPrefix(eratest.Text(frame, "id"), "ask "); ok {
		said := eratest.At(frame, "result")
		if said == "" {
			said = eratest.At(frame, "error", "code")
		}
		a.said[id] = append(a.said[id], said)
		return a.next(id)
	}
	return nil
}

func (a *askingServer) next(id string) []string {
	if a.left[id] > 0 {
		a.left[id]--
		return []string{question(id)}
	}
	if a.noResult {
		return nil
	}
	return []string{eratest.Reply(a.calls[id], `{"content":[],"said":[`+strings.Join(a.said[id], ",")+`]}`)}
}

func question(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask %s","method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}`, id)
}

// forwarding opens a dedicated session.
func forwarding(t testing.TB, h *eratest.Host, opts *client.Options) *client.Session {
	t.Helper()
	o := client.Options{Capabilities: &allCapabilities, NoReconnect: true}
	if opts != nil {
		o.SuspendedCalls, o.OnLog, o.Limits = opts.SuspendedCalls, opts.OnLog, opts.Limits
	}
	return session(t, h, &o)
}

// newProxy returns a server that forwards every call.
func newProxy(s *client.Session, opts *client.ForwardOptions) *server.Server {
	return proxyFunc(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) { return s.Forward(ctx, call, opts) })
}

// proxyFunc returns a server that passes every call to a function.
func proxyFunc(answer mcp.Handler) *server.Server {
	return server.New(mcp.Implementation{Name: "proxy", Version: "1"}, &server.Options{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{}, Logging: &mcp.EmptyObject{}, Completions: &mcp.EmptyObject{}},
		Middleware:   []mcp.Middleware{func(mcp.Handler) mcp.Handler { return answer }},
	})
}
