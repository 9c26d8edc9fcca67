package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// quiet is a logger for what a test provokes.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// An exchange is the way back of a call that may run several times.
type exchange struct {
	mu      sync.Mutex
	id      string
	kept    map[string]json.RawMessage
	answers map[string]json.RawMessage
	finally []func()
}

func newExchange(id string) *exchange {
	return &exchange{id: id, kept: map[string]json.RawMessage{}, answers: map[string]json.RawMessage{}}
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
	value, ok := e.kept[key]
	return value, ok
}

func (e *exchange) Store(key string, value json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept[key] = value
}

func (e *exchange) ID() string { return e.id }

func (e *exchange) OnDone(fn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finally = append(e.finally, fn)
}

func (e *exchange) Detach(time.Duration) {}

// copy is the state of a call as a client could bring it again.
func (e *exchange) copy() *exchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := newExchange(e.id)
	maps.Copy(c.kept, e.kept)
	maps.Copy(c.answers, e.answers)
	return c
}

// target is a tool of the server files.
func target(tool string) *mcp.Target {
	return &mcp.Target{Kind: mcp.KindTool, Name: tool, Origin: mcp.Origin{Server: "files", Name: tool}}
}

// newCall is a call of a tool of the server files by somebody.
func newCall(t testing.TB, who, tool, arguments string, e mcp.Responder) *mcp.Call {
	t.Helper()
	return newCallOf(t, who, target(tool), arguments, e, nil)
}

// newCallOf is a call that has been resolved.
func newCallOf(t testing.TB, who string, target *mcp.Target, arguments string, e mcp.Responder, recheck func(context.Context, *mcp.Target) error) *mcp.Call {
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
	call := mcp.NewCall(request, &mcp.Caller{Principal: who}, e)
	call.Resolve(target, "", recheck)
	return &call
}

// A tool counts its executions, and remembers what it got.
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

// says is an approver that always says the same.
func says(a approval.Answer, err error) approval.Approver {
	return approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) { return a, err })
}

var (
	yes = approval.Answer{Approved: true, By: "anna"}
	no  = approval.Answer{Reason: "not today", By: "anna"}
)

// A diary is a journal in memory, which may fail.
type diary struct {
	mu      sync.Mutex
	entries []approval.Entry
	fails   func(e approval.Entry) error
}

func (d *diary) Append(e approval.Entry) error {
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

func (d *diary) events() []approval.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []approval.Event
	for _, e := range d.entries {
		list = append(list, e.Event)
	}
	return list
}

func wantEvents(t testing.TB, d *diary, want ...approval.Event) {
	t.Helper()
	if got := d.events(); !slices.Equal(got, want) {
		t.Errorf("the journal has %v, want %v", got, want)
	}
}

// wantKind checks the error of a call that was not made, and what its caller is told.
func wantKind(t testing.TB, err error, kind approval.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("the error is %v (%T), want %s", err, err, kind)
		return
	}
	var told *jsonrpc.Error
	if !errors.As(err, &told) || string(told.Data) != fmt.Sprintf(`{"type":%q}`, string(kind)) || told.Code != jsonrpc.InternalError {
		t.Errorf("the caller is told %v, want the type %s", told, string(kind))
	}
}

func options(d *diary) *approval.Options {
	o := &approval.Options{Logger: quiet()}
	if d != nil {
		o.Journal = d
	}
	return o
}

// parsed is a policy.
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

// asking is a policy that asks about tools, and allows all else.
func asking() *policy.Compiled {
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Ask, Match: policy.Match{Kinds: []mcp.Kind{mcp.KindTool}}}, {Effect: policy.Allow},
	}})
	if err != nil {
		panic(err)
	}
	return compiled
}

// within puts a function within a guard, as a server does.
func within(guard mcp.Guard, f mcp.Handler) mcp.Handler {
	run := guard.Run(f)
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if err := guard.Check(ctx, call); err != nil {
			return nil, err
		}
		return run(ctx, call)
	}
}

// gated is a tool within a guard that always asks.
func gated(f *tool, approver approval.Approver, o *approval.Options) mcp.Handler {
	return within(approval.Guard(asking(), approver, o), f.invoke)
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
