package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// The defaults of approval.Options.
const (
	maxOpen      = 512
	maxPerCaller = 32
)

// quiet returns a logger that discards everything.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// An exchange is the mcp.Responder of a call that may run several times.
type exchange struct {
	mu      sync.Mutex
	id      string
	stored  map[string]json.RawMessage
	answers map[string]json.RawMessage
	onDone  []func()
}

func newExchange(id string) *exchange {
	return &exchange{id: id, stored: map[string]json.RawMessage{}, answers: map[string]json.RawMessage{}}
}

func (e *exchange) Notify(context.Context, string, jsonrpc.Appender) error { return nil }

func (e *exchange) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if answer, ok := e.answers[key]; ok {
		return answer, nil
	}
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

func (e *exchange) Load(key string) (json.RawMessage, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	value, ok := e.stored[key]
	return value, ok
}

func (e *exchange) Store(key string, value json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stored[key] = value
}

func (e *exchange) ID() string { return e.id }

func (e *exchange) OnDone(fn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onDone = append(e.onDone, fn)
}

func (e *exchange) Detach(time.Duration) {}

func (e *exchange) TaskID() string { return "" }

// copy returns the state of a call, for a replay.
func (e *exchange) copy() *exchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := newExchange(e.id)
	maps.Copy(c.stored, e.stored)
	maps.Copy(c.answers, e.answers)
	return c
}

// target returns a tool of the server files.
func target(tool string) *mcp.Target {
	return &mcp.Target{Kind: mcp.KindTool, Name: tool, Origin: mcp.Origin{Server: "files", Name: tool}}
}

// newCall returns a call of a tool of the server files.
func newCall(t testing.TB, principal, tool, arguments string, e mcp.Responder) *mcp.Call {
	t.Helper()
	return newCallOf(t, principal, target(tool), arguments, e, nil)
}

// newCallOf returns a call of a target.
func newCallOf(t testing.TB, principal string, target *mcp.Target, arguments string, e mcp.Responder, recheck func(context.Context, *mcp.Target) error) *mcp.Call {
	t.Helper()
	tool := target.Name
	params := fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)
	if arguments == "" {
		params = fmt.Sprintf(`{"name":%q}`, tool)
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{Principal: principal}, e)
	call.Resolve(target, "", recheck)
	return &call
}

// A tool records the arguments of its executions.
type tool struct {
	mu   sync.Mutex
	args []string
	then func(ctx context.Context, call *mcp.Call) (mcp.Result, error)
}

func (f *tool) invoke(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	f.mu.Lock()
	f.args = append(f.args, string(call.Member("arguments")))
	f.mu.Unlock()
	if f.then != nil {
		return f.then(ctx, call)
	}
	return mcp.Raw(`{"content":[]}`), nil
}

func (f *tool) ran() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.args)
}

// says returns an approver that always gives the same answer.
func says(a approval.Answer, err error) approval.Approver {
	return approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) { return a, err })
}

var (
	yes = approval.Answer{Approved: true, By: "anna"}
	no  = approval.Answer{Reason: "not today", By: "anna"}
)

// A memoryJournal is a journal in memory, which may fail.
type memoryJournal struct {
	mu      sync.Mutex
	entries []approval.Entry
	fails   func(e approval.Entry) error
}

func (d *memoryJournal) Append(e approval.Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails != nil {
		if err := d.fails(e); err != nil {
			return err
		}
	}
	d.entries = append(d.entries, e)
	return nil
}

func (d *memoryJournal) events() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for _, e := range d.entries {
		list = append(list, e.Event)
	}
	return list
}

func wantEvents(t testing.TB, d *memoryJournal, want ...string) {
	t.Helper()
	if got := d.events(); !slices.Equal(got, want) {
		t.Errorf("the journal has %v, want %v", got, want)
	}
}

// wantCode checks the error of a refused call, and the error that its caller gets.
func wantCode(t testing.TB, err error, kind approval.Code) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("the error is %v (%T), want %s", err, err, kind)
		return
	}
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || string(wire.Data) != fmt.Sprintf(`{"type":%q}`, string(kind)) || wire.Code != jsonrpc.InternalError {
		t.Errorf("the caller gets %v, want the type %s", wire, string(kind))
	}
}

// wantCalled checks that the text for the model says that the tool may have been called, or that it was not.
func wantCalled(t testing.TB, err error, maybe bool) {
	t.Helper()
	want := "\nThe tool was not called. Do not"
	if maybe {
		want = "\nThe tool may have been called. Do not"
	}
	refused, ok := errors.AsType[*approval.Error](err)
	if !ok || !strings.Contains(refused.ToolResult().Content[0].(*mcp.TextContent).Text, want) {
		t.Errorf("the error %v does not say %q", err, want)
	}
}

// wantRefusal checks the result of a call that was not approved: its text for the model begins with
// the message, and says whether the tool may have been called and not to repeat the call, and its _meta has the code.
func wantRefusal(t testing.TB, result *mcp.CallToolResult, err error, code approval.Code, message string) {
	t.Helper()
	if err != nil || !result.IsError {
		t.Errorf("the result is %v, the error %v; want a refusal", result, err)
		return
	}
	called := "The tool was not called. "
	if code == approval.Spent { // by an earlier run
		called = "The tool may have been called. "
	}
	if text := result.Text(); !strings.HasPrefix(text, message) || !strings.HasSuffix(text, "\n"+called+"Do not repeat the call unless the user asks for it.") {
		t.Errorf("the text is %q, want %q", text, message)
	}
	if got, want := string(result.Meta.Get(mcp.MetaRefusal)), fmt.Sprintf(`{"type":%q}`, string(code)); got != want {
		t.Errorf("the refusal is %s, want %s", got, want)
	}
}

func options(d *memoryJournal) *approval.Options {
	o := &approval.Options{Logger: quiet()}
	if d != nil {
		o.Journal = d
	}
	return o
}

// parsed compiles a policy.
func parsed(t testing.TB, text string) *policy.Compiled {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// asking returns a policy with the effect ask for tools, and allow for everything else.
func asking() *policy.Compiled {
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Ask, Match: policy.Match{Kinds: []mcp.Kind{mcp.KindTool}}}, {Effect: policy.Allow},
	}})
	if err != nil {
		panic(err)
	}
	return compiled
}

// guarded returns a function with a guard, as a server combines them.
func guarded(guard mcp.Guard, f mcp.Handler) mcp.Handler {
	run := guard.Run(f)
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if err := guard.Check(ctx, call); err != nil {
			return nil, err
		}
		return run(ctx, call)
	}
}

// gated returns a tool with a guard that always asks.
func gated(f *tool, approver approval.Approver, o *approval.Options) mcp.Handler {
	return guarded(approval.Guard(asking(), approver, o), f.invoke)
}

// sleep waits, in virtual time within synctest.
func sleep(d time.Duration) { <-time.After(d) }
