package approvaltests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestInjectedChanges: whatever is changed while the request is open, either the approved call
// runs or none.
func (s Suite) TestInjectedChanges(t *testing.T) {
	const approvedArgs, other = `{"path":"/tmp/a"}`, `{"path":"/etc/b"}`
	rewrite := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			changed, err := call.WithParams(json.RawMessage(`{"name":"write","arguments":` + other + `}`))
			if err != nil {
				return nil, err
			}
			return next(ctx, changed)
		}
	}
	var shown []string
	var now, before mcp.Target // the tool now, and when the call arrived
	var params json.RawMessage
	for name, test := range map[string]struct {
		during func(r *approval.Request) // called by the approver
		chain  func(gate mcp.Middleware, f mcp.Handler) mcp.Handler
		runs   string // the arguments that run; "" for none
		code   approval.Code
	}{
		"nothing":                 {nil, nil, approvedArgs, ""},
		"before the guard":        {nil, func(gate mcp.Middleware, f mcp.Handler) mcp.Handler { return rewrite(gate(f)) }, other, ""},
		"after the guard":         {nil, func(gate mcp.Middleware, f mcp.Handler) mcp.Handler { return gate(rewrite(f)) }, "", approval.Changed},
		"the bytes of the call":   {func(*approval.Request) { copy(params[bytes.Index(params, []byte("/tmp/a")):], "/etc/b") }, nil, approvedArgs, ""},
		"the request's arguments": {func(r *approval.Request) { copy(r.Arguments, other) }, nil, "", approval.Changed},
		"the request's id":        {func(r *approval.Request) { r.ID = "x" }, nil, "", approval.Changed},
		"the request's deadline":  {func(r *approval.Request) { r.Deadline = r.Deadline.Add(time.Hour) }, nil, "", approval.Changed},
		"the request's caller":    {func(r *approval.Request) { r.Caller = "eve" }, nil, "", approval.Changed},
		"the request's tool":      {func(r *approval.Request) { r.Tool = "read" }, nil, "", approval.Changed},
		"the tool's definition":   {func(*approval.Request) { now.Definition = mcp.NewDefinition(json.RawMessage(`{"name":"other"}`)) }, nil, "", approval.Changed},
		"how it is launched":      {func(*approval.Request) { now.Origin.Launch = "b" }, nil, "", approval.Changed},
		"which server it is":      {func(*approval.Request) { now.Origin.Server = "other" }, nil, "", approval.Changed},
		"that it is there":        {func(*approval.Request) { now.Name = "" }, nil, "", approval.Changed},
		"that it can be found":    {func(*approval.Request) { now.Name = "panic" }, nil, "", approval.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			before = *target("write")
			before.Origin.Launch, before.Definition = "a", mcp.NewDefinition(json.RawMessage(`{"name":"write"}`))
			now = before
			recheck := func(_ context.Context, t *mcp.Target) error {
				if now.Name == "panic" {
					panic("x")
				}
				if now.Name != t.Name || now.Origin != t.Origin || now.Definition.Digest() != t.Definition.Digest() {
					return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the tool has changed"}
				}
				return nil
			}
			shown = nil
			var f Tool
			guard := approval.Guard(Asking(), approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
				shown = append(shown, r.Text())
				if want := (approval.Target{Server: "files", Launch: "a", Tool: "write", ToolDigest: before.Definition.Digest()}); r.Target != want {
					t.Errorf("the target is %v, want %v", r.Target, want)
				}
				if test.during != nil {
					test.during(r)
				}
				return yes, nil
			}), Options(nil))
			chain := test.chain
			if chain == nil {
				chain = func(gate mcp.Middleware, f mcp.Handler) mcp.Handler { return gate(f) }
			}
			call := NewCallOf(t, "anna", &before, approvedArgs, nil, recheck)
			params = call.Params()
			_, err := chain(func(next mcp.Handler) mcp.Handler { return s.Guarded(guard, next) }, f.Invoke)(t.Context(), call)
			if test.code == "" {
				if err != nil || !slices.Equal(f.Ran(), []string{test.runs}) || !slices.Equal(shown, []string{test.runs}) {
					t.Errorf("shown was %q, the tool got %q, error %v", shown, f.Ran(), err)
				}
				return
			}
			WantCode(t, err, test.code)
			if ran := f.Ran(); len(ran) != 0 {
				t.Errorf("the tool got %q", ran)
			}
		})
	}
}

// askingTool returns a tool that asks its caller several times.
func askingTool(times int) *Tool {
	return &Tool{Then: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
		for i := range times {
			if _, err := call.Input(fmt.Sprint("q", i), mcp.InputRequest{Method: mcp.MethodElicit}); err != nil {
				return nil, err
			}
		}
		return mcp.Raw(`{"content":[]}`), nil
	}}
}

// TestSeveralRuns: a call that asks its caller is one request and one execution, and its state
// cannot be replayed.
func (s Suite) TestSeveralRuns(t *testing.T) {
	f := askingTool(2)
	var d MemoryJournal
	prompts := 0
	invoke := s.gated(f, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		prompts++
		return yes, nil
	}), Options(&d))
	e := NewExchange("call")
	run := func(e *Exchange) error {
		_, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, e))
		return err
	}
	wantQuestion := func(err error) {
		t.Helper()
		if _, asks := mcp.AsInputRequired(err); !asks {
			t.Fatalf("the error is %v, want a question", err)
		}
	}
	wantQuestion(run(e))
	e.Answers["q0"] = json.RawMessage(`{}`)
	first := e.Copy()
	wantQuestion(run(e))
	WantCode(t, run(first.Copy()), approval.Spent) // a replay
	e.Answers["q1"] = json.RawMessage(`{}`)
	second := e.Copy()
	if err := run(e); err != nil {
		t.Fatal(err)
	}
	WantCode(t, run(second.Copy()), approval.Spent)
	WantCode(t, run(first.Copy()), approval.Spent)
	if prompts != 1 || len(f.Ran()) != 3 {
		t.Errorf("%d prompts and %d runs, want 1 and 3", prompts, len(f.Ran()))
	}
	WantEvents(t, &d, "asked", "approved", "executing", "paused",
		"resumed", "paused", "resumed", "executed")

	if err := run(NewExchange("another")); err == nil || prompts != 2 {
		t.Errorf("there was no request for another call: %d prompts, error %v", prompts, err)
	}
}

// TestRunsThatChange: all runs of a call must be the same call.
func (s Suite) TestRunsThatChange(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, e *Exchange) *mcp.Call{
		"arguments": func(t *testing.T, e *Exchange) *mcp.Call { return NewCall(t, "anna", "write", `{"a":2}`, e) },
		"caller":    func(t *testing.T, e *Exchange) *mcp.Call { return NewCall(t, "eve", "write", `{"a":1}`, e) },
		"definition": func(t *testing.T, e *Exchange) *mcp.Call {
			changed := target("write")
			changed.Definition = mcp.NewDefinition(json.RawMessage(`{"name":"write","inputSchema":{}}`))
			return NewCallOf(t, "anna", changed, `{"a":1}`, e, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := askingTool(1)
			var d MemoryJournal
			invoke := s.gated(f, Says(yes, nil), Options(&d))
			e := NewExchange("call")
			if _, err := invoke(t.Context(), NewCall(t, "anna", "write", `{"a":1}`, e)); err == nil {
				t.Fatal("the tool did not ask")
			}
			e.Answers["q0"] = json.RawMessage(`{}`)
			if _, err := invoke(t.Context(), change(t, e)); name == "caller" || !s.Carried {
				WantCode(t, err, approval.Changed)
			} else if err == nil {
				t.Error("the call was made")
			}
			if len(f.Ran()) != 1 {
				t.Errorf("the tool ran %d times", len(f.Ran()))
			}
			WantEvents(t, &d, "asked", "approved", "executing", "paused")
		})
	}
}

// TestNestedGuards: each guard has its own approval.
func (s Suite) TestNestedGuards(t *testing.T) {
	f := askingTool(1)
	prompts := 0
	counting := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		prompts++
		return yes, nil
	})
	inner := Options(nil)
	inner.Name = "inner"
	invoke := s.Guarded(approval.Guard(Asking(), counting, Options(nil)), s.gated(f, counting, inner))
	e := NewExchange("call")
	if _, err := invoke(t.Context(), NewCall(t, "", "write", `{}`, e)); err == nil {
		t.Fatal("the tool did not ask")
	}
	e.Answers["q0"] = json.RawMessage(`{}`)
	if _, err := invoke(t.Context(), NewCall(t, "", "write", `{}`, e)); err != nil || prompts != 2 {
		t.Errorf("error %v, %d prompts", err, prompts)
	}
}

// TestToolThatCallsAnother: one guard asks once about each of the two tools.
func (s Suite) TestToolThatCallsAnother(t *testing.T) {
	f := askingTool(2)
	var d MemoryJournal
	var shown []string
	guard := approval.Guard(Asking(), approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		shown = append(shown, r.String())
		return yes, nil
	}), Options(&d))
	inner := s.Guarded(guard, f.Invoke)
	outer := s.Guarded(guard, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		entered, err := call.Enter(target("write"), json.RawMessage(`{"name":"write","arguments":{"n":1}}`), nil)
		if err != nil {
			return nil, err
		}
		return inner(ctx, entered)
	})
	e := NewExchange("call")
	for i := range 3 {
		_, err := outer(t.Context(), NewCall(t, "", "call_tool", `{"name":"write","arguments":{"n":1}}`, e))
		if _, asks := mcp.AsInputRequired(err); asks != (i < 2) {
			t.Fatalf("run %d: %v", i, err)
		}
		e.Answers[fmt.Sprint("q", i)] = json.RawMessage(`{}`)
	}
	if want := []string{`files.call_tool(arguments={"n":1}, name='write')`, `files.write(n=1)`}; !slices.Equal(shown, want) {
		t.Errorf("shown was %q, want %q", shown, want)
	}
	WantEvents(t, &d, "asked", "approved", "executing", "asked", "approved", "executing", "paused", "paused",
		"resumed", "resumed", "paused", "paused",
		"resumed", "resumed", "executed", "executed")
}
