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

// A visit is a call that a test forwards, as a face does: its exchange is the test's.
type visit struct {
	caller *mcp.Caller
	params string
	id     string
	method string        // tools/call unless set
	slow   time.Duration // to take a note

	mu      sync.Mutex
	kept    map[string]json.RawMessage
	answers map[string]json.RawMessage
	asked   []string // the keys of the last questions
	notes   []string
	finally []func()
}

// anything is what a caller can be asked who can be asked all there is.
var anything = mcp.ClientCapabilities{
	Elicitation: &mcp.ElicitationCapability{Form: &mcp.EmptyObject{}, URL: &mcp.EmptyObject{}},
	Sampling:    &mcp.SamplingCapability{},
	Roots:       &mcp.RootsCapability{},
}

func newVisit(principal, params string) *visit {
	return &visit{
		caller:  &mcp.Caller{Version: mcp.LatestVersion, Capabilities: anything, Principal: principal},
		params:  params,
		id:      principal + params,
		kept:    make(map[string]json.RawMessage),
		answers: make(map[string]json.RawMessage),
	}
}

// run forwards one run of the call.
func (v *visit) run(ctx context.Context, s *client.Session, opts *client.ForwardOptions) (string, error) {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), cmp.Or(v.method, mcp.MethodToolsCall), json.RawMessage(v.params))
	if err != nil {
		return "", err
	}
	call := mcp.NewCall(req, v.caller, v)
	result, err := s.Forward(ctx, &call, opts)
	if err != nil {
		return "", err
	}
	raw, err := result.AppendJSON(nil)
	return string(raw), err
}

// ask runs the call, which must end in a question.
func (v *visit) ask(t testing.TB, s *client.Session, opts *client.ForwardOptions) {
	t.Helper()
	result, err := v.run(t.Context(), s, opts)
	question, ok := mcp.AsInputRequired(err)
	if !ok {
		t.Fatalf("the call of %s is answered with %s, %v, not asked", v.caller.Principal, result, err)
	}
	v.asked = nil
	for key := range question.Requests {
		v.asked = append(v.asked, key)
	}
}

// say answers the questions.
func (v *visit) say(answer string) *visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range v.asked {
		v.answers[key] = json.RawMessage(answer)
	}
	return v
}

// again is the same visit once more: a caller that sends a round twice.
func (v *visit) again() *visit {
	return &visit{caller: v.caller, params: v.params, id: v.id, asked: v.asked, kept: maps.Clone(v.kept), answers: maps.Clone(v.answers)}
}

// leave ends the call.
func (v *visit) leave() {
	for _, fn := range v.finally {
		fn()
	}
}

func (v *visit) Notify(_ context.Context, _ string, params jsonrpc.Appender) error {
	if v.slow > 0 {
		<-time.After(v.slow)
	}
	raw, err := params.AppendJSON(nil)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notes = append(v.notes, string(raw))
	return err
}

func (v *visit) told() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.notes, " ")
}

func (v *visit) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if answer, ok := v.answers[key]; ok {
		return answer, nil
	}
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

func (v *visit) Load(key string) (json.RawMessage, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok := v.kept[key]
	return value, ok
}

func (v *visit) Store(key string, value json.RawMessage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept[key] = value
}

func (v *visit) ID() string           { return v.id }
func (v *visit) OnDone(fn func())     { v.finally = append(v.finally, fn) }
func (v *visit) Detach(time.Duration) {}

// A notary is a legacy server that asks in the middle of each call, as often as the
// arguments' "asks" say, and answers with what it was told.
type notary struct {
	*eratest.Host

	mu     sync.Mutex
	calls  map[string]string // ids to frames
	left   map[string]int
	said   map[string][]string
	silent bool // it does not answer a call once it has been answered
}

func newNotary(t testing.TB) *notary {
	a := &notary{calls: make(map[string]string), left: make(map[string]int), said: make(map[string][]string)}
	a.Host = eratest.LegacyHost(t, a.take)
	return a
}

func (a *notary) take(frame string) []string {
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

func (a *notary) next(id string) []string {
	if a.left[id] > 0 {
		a.left[id]--
		return []string{question(id)}
	}
	if a.silent {
		return nil
	}
	return []string{eratest.Reply(a.calls[id], `{"content":[],"said":[`+strings.Join(a.said[id], ",")+`]}`)}
}

func question(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask %s","method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}`, id)
}

// forwarding opens a session for the calls of others.
func forwarding(t testing.TB, h *eratest.Host, opts *client.Options) *client.Session {
	t.Helper()
	o := client.Options{Capabilities: &anything, MaxReconnects: -1}
	if opts != nil {
		o.SuspendedCalls, o.Logged = opts.SuspendedCalls, opts.Logged
	}
	return session(t, h, &o)
}

// faceOf is a server that forwards every call by a session.
func faceOf(s *client.Session, opts *client.ForwardOptions) *server.Server {
	return faceOfFunc(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) { return s.Forward(ctx, call, opts) })
}

// faceOfFunc is a server that leaves every call to a function.
func faceOfFunc(answer mcp.Handler) *server.Server {
	return server.New(mcp.Implementation{Name: "face", Version: "1"}, &server.Options{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{}, Logging: &mcp.EmptyObject{}, Completions: &mcp.EmptyObject{}},
		Middleware:   []mcp.Middleware{func(mcp.Handler) mcp.Handler { return answer }},
	})
}
