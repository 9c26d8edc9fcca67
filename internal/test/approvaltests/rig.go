package approvaltests

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

// Quiet returns a logger that discards everything.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// An Exchange is the mcp.Responder of a call that may run several times.
type Exchange struct {
	mu      sync.Mutex
	id      string
	stored  map[string]json.RawMessage
	Answers map[string]json.RawMessage // to its questions, by key
	Done    []func()                   // what is called when the call has ended
}

// NewExchange returns the responder of a new call.
func NewExchange(id string) *Exchange {
	return &Exchange{id: id, stored: map[string]json.RawMessage{}, Answers: map[string]json.RawMessage{}}
}

// Notify discards a notification.
func (e *Exchange) Notify(context.Context, string, jsonrpc.Appender) error { return nil }

// Input returns an answer of Answers, or asks.
func (e *Exchange) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if answer, ok := e.Answers[key]; ok {
		return answer, nil
	}
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

// Load returns a stored value.
func (e *Exchange) Load(key string) (json.RawMessage, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	value, ok := e.stored[key]
	return value, ok
}

// Store stores a value for later runs.
func (e *Exchange) Store(key string, value json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stored[key] = value
}

// ID returns the id of the call.
func (e *Exchange) ID() string { return e.id }

// OnDone adds fn to Done.
func (e *Exchange) OnDone(fn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Done = append(e.Done, fn)
}

// Detach does nothing.
func (e *Exchange) Detach(time.Duration) {}

// TaskID returns "", since the call is no task.
func (e *Exchange) TaskID() string { return "" }

// Copy returns the state of a call, for a replay.
func (e *Exchange) Copy() *Exchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := NewExchange(e.id)
	maps.Copy(c.stored, e.stored)
	maps.Copy(c.Answers, e.Answers)
	return c
}

// target returns a tool of the server files.
func target(tool string) *mcp.Target {
	return DefinedTarget(fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, tool), mcp.Origin{Server: "files", Name: tool})
}

// NewCall returns a call of a tool of the server files.
func NewCall(t testing.TB, principal, tool, arguments string, e mcp.Responder) *mcp.Call {
	t.Helper()
	return NewCallOf(t, principal, target(tool), arguments, e, nil)
}

// NewCallOf returns a call of a target.
func NewCallOf(t testing.TB, principal string, target *mcp.Target, arguments string, e mcp.Responder, recheck func(context.Context, *mcp.Target) error) *mcp.Call {
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

// A Tool records the arguments of its executions.
type Tool struct {
	mu   sync.Mutex
	args []string
	Then func(ctx context.Context, call *mcp.Call) (mcp.Result, error)
}

// Invoke is the function of the tool.
func (f *Tool) Invoke(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	f.mu.Lock()
	f.args = append(f.args, string(call.Member("arguments")))
	f.mu.Unlock()
	if f.Then != nil {
		return f.Then(ctx, call)
	}
	return mcp.Raw(`{"content":[]}`), nil
}

// Ran returns the arguments of the executions so far.
func (f *Tool) Ran() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.args)
}

// Says returns an approver that always gives the same answer.
func Says(a approval.Answer, err error) approval.Approver {
	return approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) { return a, err })
}

var (
	yes = approval.Answer{Approved: true, By: "anna"}
	no  = approval.Answer{Reason: "not today", By: "anna"}
)

// A MemoryJournal is a journal in memory, which may fail.
type MemoryJournal struct {
	mu      sync.Mutex
	Entries []approval.Entry
	Fails   func(e approval.Entry) error // nil, or called first
}

// Append adds an entry, unless Fails has an error.
func (d *MemoryJournal) Append(e approval.Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Fails != nil {
		if err := d.Fails(e); err != nil {
			return err
		}
	}
	d.Entries = append(d.Entries, e)
	return nil
}

// Events returns the events of the entries.
func (d *MemoryJournal) Events() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for _, e := range d.Entries {
		list = append(list, e.Event)
	}
	return list
}

// WantEvents checks the events of a journal.
func WantEvents(t testing.TB, d *MemoryJournal, want ...string) {
	t.Helper()
	if got := d.Events(); !slices.Equal(got, want) {
		t.Errorf("the journal has %v, want %v", got, want)
	}
}

// WantCode checks the error of a refused call, and the error that its caller gets.
func WantCode(t testing.TB, err error, kind approval.Code) {
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

// WantCalled checks that the text for the model says that the tool may have been called, or that it was not.
func WantCalled(t testing.TB, err error, maybe bool) {
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

// Options returns options with a journal, which may be nil, and without a log.
func Options(d *MemoryJournal) *approval.Options {
	o := &approval.Options{Logger: Quiet()}
	if d != nil {
		o.Journal = d
	}
	return o
}

// Parsed compiles a policy.
func Parsed(t testing.TB, text string) *policy.Compiled {
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

// Asking returns a policy with the effect ask for tools, and allow for everything else.
func Asking() *policy.Compiled {
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Ask, Match: policy.Match{Kinds: []mcp.Kind{mcp.KindTool}}}, {Effect: policy.Allow},
	}})
	if err != nil {
		panic(err)
	}
	return compiled
}

// Guarded returns a function with a guard, as a server combines them.
func Guarded(guard mcp.Guard, f mcp.Handler) mcp.Handler {
	run := guard.Run(f)
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if err := guard.Check(ctx, call); err != nil {
			return nil, err
		}
		return run(ctx, call)
	}
}

// Gated returns a tool with a guard that always asks.
func Gated(f *Tool, approver approval.Approver, o *approval.Options) mcp.Handler {
	return Guarded(approval.Guard(Asking(), approver, o), f.Invoke)
}

// sleep waits, in virtual time within synctest.
func sleep(d time.Duration) { <-time.After(d) }
