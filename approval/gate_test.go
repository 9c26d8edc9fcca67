package approval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestAnswers: the call is made after a clear yes, and after nothing else.
func TestAnswers(t *testing.T) {
	boom := errors.New("secret of the operator")
	for name, test := range map[string]struct {
		approver approval.Approver
		kind     approval.Kind // "" if the call is made
		text     string
		end      approval.Event
	}{
		"yes":          {says(yes, nil), "", "", approval.EventExecuted},
		"no":           {says(no, nil), approval.Rejected, "Approval request for files.write rejected: not today", approval.EventRejected},
		"no reason":    {says(approval.Answer{}, nil), approval.Rejected, "Approval request for files.write rejected", approval.EventRejected},
		"an error":     {says(yes, boom), approval.Failed, "Approval request for files.write failed: the request could not be made", approval.EventWithdrawn},
		"no approver":  {nil, approval.NoApprover, "Approval request for files.write failed: there is nobody who could be asked", approval.EventWithdrawn},
		"a kind":       {says(yes, fmt.Errorf("x: %w", approval.Lost)), approval.Lost, "Approval request for files.write failed: the approver has gone", approval.EventWithdrawn},
		"words":        {says(yes, approval.Errorf(approval.Lost, "Approval channel disconnected")), approval.Lost, "Approval request for files.write failed: Approval channel disconnected", approval.EventWithdrawn},
		"expired":      {says(yes, approval.Expired), approval.Expired, "Approval request for files.write expired", approval.EventExpired},
		"cancelled":    {says(yes, context.Canceled), approval.Failed, "Approval request for files.write failed: the request could not be made", approval.EventWithdrawn},
		"hostile text": {says(approval.Answer{Reason: "\x1b[2J\u202e"}, nil), approval.Rejected, `Approval request for files.write rejected: \u001b[2J\u202e`, approval.EventRejected},
		"a panic": {approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) { panic("secret") }),
			approval.Failed, "Approval request for files.write failed: the request could not be made", approval.EventWithdrawn},
	} {
		t.Run(name, func(t *testing.T) {
			var f tool
			var d diary
			_, err := gated(&f, test.approver, options(&d))(t.Context(), newCall(t, "anna", "write", `{"a":1}`, newExchange("c")))
			if test.kind == "" {
				if err != nil || !slices.Equal(f.ran(), []string{`{"a":1}`}) {
					t.Errorf("the tool got %q, error %v", f.ran(), err)
				}
				wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventExecuted)
				return
			}
			wantKind(t, err, test.kind)
			var told *jsonrpc.Error
			if errors.As(err, &told) && told.Message != test.text {
				t.Errorf("the caller is told %q, want %q", told.Message, test.text)
			}
			if ran := f.ran(); len(ran) != 0 {
				t.Errorf("the tool got %q", ran)
			}
			wantEvents(t, &d, approval.EventAsked, test.end)
		})
	}
}

// TestDecide: the gate asks where it is told to, and fails closed.
func TestDecide(t *testing.T) {
	decided := func(e policy.Effect, err error) approval.Decide {
		return func(context.Context, *mcp.Call) (policy.Decision, error) {
			return policy.Decision{Effect: e, Reason: "secret"}, err
		}
	}
	for name, test := range map[string]struct {
		decide approval.Decide
		method string
		kind   approval.Kind
	}{
		"allow":    {decided(policy.Allow, nil), mcp.MethodToolsCall, ""},
		"deny":     {decided(policy.Deny, nil), mcp.MethodToolsCall, approval.Forbidden},
		"unknown":  {decided(9, nil), mcp.MethodToolsCall, approval.Forbidden},
		"error":    {decided(policy.Allow, errors.New("x")), mcp.MethodToolsCall, approval.Failed},
		"panic":    {func(context.Context, *mcp.Call) (policy.Decision, error) { panic("x") }, mcp.MethodToolsCall, approval.Failed},
		"nil":      {nil, mcp.MethodToolsCall, approval.Failed},
		"no tool":  {decided(policy.Ask, nil), mcp.MethodPromptsGet, approval.NoApprover},
		"all else": {approval.AskAlways, mcp.MethodPromptsGet, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var f tool
			request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), test.method, json.RawMessage(`{"name":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			call := mcp.NewCall(request, &mcp.Caller{}, nil)
			_, err = approval.Gate(test.decide, says(yes, nil), options(nil))(f.invoke)(t.Context(), &call)
			if test.kind == "" {
				if err != nil || len(f.ran()) != 1 {
					t.Errorf("error %v, %d executions", err, len(f.ran()))
				}
				return
			}
			wantKind(t, err, test.kind)
			if strings.Contains(err.Error(), "secret") || len(f.ran()) != 0 {
				t.Errorf("error %v, %d executions", err, len(f.ran()))
			}
		})
	}
}

// TestLateYes: a yes after the deadline, or after the caller has gone, executes nothing.
func TestLateYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
			<-ctx.Done()
			return yes, nil
		})
		var f tool
		var d diary
		start := time.Now()
		_, err := gated(&f, slow, options(&d))(t.Context(), newCall(t, "", "write", `{}`, nil))
		wantKind(t, err, approval.Expired)
		if took := time.Since(start); took != approval.DefaultExpiry {
			t.Errorf("it expired after %v", took)
		}
		wantEvents(t, &d, approval.EventAsked, approval.EventExpired)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d = diary{}
		if _, err := gated(&f, slow, options(&d))(ctx, newCall(t, "", "write", `{}`, nil)); err == nil {
			t.Error("the call was made for a caller that has gone")
		}
		wantEvents(t, &d, approval.EventAsked, approval.EventWithdrawn)
		if ran := f.ran(); len(ran) != 0 {
			t.Errorf("the tool got %q", ran)
		}
		o := options(nil)
		o.Expiry = -1
		_, err = gated(&f, says(yes, nil), o)(t.Context(), newCall(t, "", "write", `{}`, nil))
		wantKind(t, err, approval.Expired)
	})
}

// TestDeferred: the answer may come at any time before the deadline, once.
func TestDeferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prompts := make(chan *approval.Prompt, 1)
		later := approval.Deferred(func(_ context.Context, p *approval.Prompt) { prompts <- p })
		for _, answer := range []struct {
			after time.Duration
			give  func(p *approval.Prompt) error
			err   error // of giving it
			kind  approval.Kind
		}{
			{time.Minute, func(p *approval.Prompt) error { return p.Accept(t.Context()) }, nil, ""},
			{time.Minute, func(p *approval.Prompt) error { return p.Reject(t.Context(), "no") }, nil, approval.Rejected},
			{approval.DefaultExpiry - time.Nanosecond, func(p *approval.Prompt) error { return p.Accept(t.Context()) }, nil, ""},
			{approval.DefaultExpiry + time.Nanosecond, func(p *approval.Prompt) error { return p.Accept(t.Context()) }, approval.ErrWithdrawn, approval.Expired},
		} {
			var f tool
			done := make(chan error)
			go func() {
				_, err := gated(&f, later, options(nil))(t.Context(), newCall(t, "", "write", `{}`, nil))
				done <- err
			}()
			p := <-prompts
			timer := time.AfterFunc(answer.after, func() {
				if err := answer.give(p); !errors.Is(err, answer.err) {
					t.Errorf("after %v: the answer's error is %v, want %v", answer.after, err, answer.err)
				}
				again := approval.ErrDecided
				if answer.err != nil {
					again = answer.err
				}
				if err := p.Accept(t.Context()); !errors.Is(err, again) {
					t.Errorf("after %v: the second answer's error is %v, want %v", answer.after, err, again)
				}
			})
			err := <-done
			<-time.After(time.Hour)
			timer.Stop()
			if answer.kind == "" {
				if err != nil || len(f.ran()) != 1 {
					t.Errorf("after %v: error %v, %d executions", answer.after, err, len(f.ran()))
				}
				continue
			}
			wantKind(t, err, answer.kind)
			if len(f.ran()) != 0 {
				t.Errorf("after %v: it was executed", answer.after)
			}
		}
	})
}

// TestInjectedChanges: what is approved runs, or nothing does, whatever is changed and
// wherever.
func TestInjectedChanges(t *testing.T) {
	const approvedArgs, other = `{"path":"/tmp/a"}`, `{"path":"/etc/b"}`
	rewrite := func(next mcp.Invoker) mcp.Invoker {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			changed, err := call.WithParams(json.RawMessage(`{"name":"write","arguments":` + other + `}`))
			if err != nil {
				return nil, err
			}
			return next(ctx, changed)
		}
	}
	var shown []string
	target := approval.Target{Server: "files", Tool: "write", Launch: "a", ToolDigest: "1"}
	var params json.RawMessage
	for name, test := range map[string]struct {
		during func(r *approval.Request) // while it is decided
		chain  func(gate mcp.Interceptor, f mcp.Invoker) mcp.Invoker
		runs   string // what runs; "" if nothing
		kind   approval.Kind
	}{
		"nothing":                  {nil, nil, approvedArgs, ""},
		"before the gate":          {nil, func(gate mcp.Interceptor, f mcp.Invoker) mcp.Invoker { return rewrite(gate(approval.Recheck(f))) }, other, ""},
		"after the gate":           {nil, func(gate mcp.Interceptor, f mcp.Invoker) mcp.Invoker { return gate(rewrite(approval.Recheck(f))) }, "", approval.Changed},
		"the bytes of the call":    {func(*approval.Request) { copy(params[bytes.Index(params, []byte("/tmp/a")):], "/etc/b") }, nil, approvedArgs, ""},
		"the request's arguments":  {func(r *approval.Request) { copy(r.Arguments, other) }, nil, "", approval.Changed},
		"the request's id":         {func(r *approval.Request) { r.ID = "x" }, nil, "", approval.Changed},
		"the request's deadline":   {func(r *approval.Request) { r.Deadline = r.Deadline.Add(time.Hour) }, nil, "", approval.Changed},
		"the request's caller":     {func(r *approval.Request) { r.Caller = "eve" }, nil, "", approval.Changed},
		"the tool's definition":    {func(*approval.Request) { target.ToolDigest = "2" }, nil, "", approval.Changed},
		"how it is launched":       {func(*approval.Request) { target.Launch = "b" }, nil, "", approval.Changed},
		"which server it is":       {func(*approval.Request) { target.Server = "other" }, nil, "", approval.Changed},
		"that it can be described": {func(*approval.Request) { target.Tool = "panic" }, nil, "", approval.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			target = approval.Target{Server: "files", Tool: "write", Launch: "a", ToolDigest: "1"}
			shown = nil
			var f tool
			o := options(nil)
			o.Describe = func(context.Context, *mcp.Call) (approval.Target, error) {
				if target.Tool == "panic" {
					panic("x")
				}
				return target, nil
			}
			gate := approval.Gate(approval.AskAlways, approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
				shown = append(shown, r.Text())
				if test.during != nil {
					test.during(r)
				}
				return yes, nil
			}), o)
			chain := test.chain
			if chain == nil {
				chain = func(gate mcp.Interceptor, f mcp.Invoker) mcp.Invoker { return gate(approval.Recheck(f)) }
			}
			call := newCall(t, "anna", "write", approvedArgs, nil)
			params = call.Params()
			_, err := chain(gate, f.invoke)(t.Context(), call)
			if test.kind == "" {
				if err != nil || !slices.Equal(f.ran(), []string{test.runs}) || !slices.Equal(shown, []string{test.runs}) {
					t.Errorf("shown was %q, the tool got %q, error %v", shown, f.ran(), err)
				}
				return
			}
			wantKind(t, err, test.kind)
			if ran := f.ran(); len(ran) != 0 {
				t.Errorf("the tool got %q", ran)
			}
		})
	}
}

// asker asks its caller so many times before it is done.
func asker(times int) *tool {
	return &tool{then: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
		for i := range times {
			if _, err := call.Input(fmt.Sprint("q", i), mcp.InputRequest{Method: mcp.MethodElicit}); err != nil {
				return nil, err
			}
		}
		return mcp.Raw(`{"content":[]}`), nil
	}}
}

// TestSeveralRuns: a call that asks its caller is one question to the approver and one
// execution, and no state of it can be played again.
func TestSeveralRuns(t *testing.T) {
	f := asker(2)
	var d diary
	prompts := 0
	invoke := gated(f, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		prompts++
		return yes, nil
	}), options(&d))
	e := newExchange("call")
	run := func(e *exchange) error {
		_, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, e))
		return err
	}
	wantQuestion := func(err error) {
		t.Helper()
		if _, asks := mcp.AsInputRequired(err); !asks {
			t.Fatalf("the error is %v, want a question", err)
		}
	}
	wantQuestion(run(e))
	e.answers["q0"] = json.RawMessage(`{}`)
	first := e.copy()
	wantQuestion(run(e))
	wantKind(t, run(first.copy()), approval.Spent) // it has gone on since
	e.answers["q1"] = json.RawMessage(`{}`)
	second := e.copy()
	if err := run(e); err != nil {
		t.Fatal(err)
	}
	wantKind(t, run(second.copy()), approval.Spent)
	wantKind(t, run(first.copy()), approval.Spent)
	if prompts != 1 || len(f.ran()) != 3 {
		t.Errorf("%d prompts and %d runs, want 1 and 3", prompts, len(f.ran()))
	}
	wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventExecuted)

	if err := run(newExchange("another")); err == nil || prompts != 2 {
		t.Errorf("another call was not asked about: %d prompts, error %v", prompts, err)
	}
}

// TestRunsThatChange: the runs of a call must be of the same call.
func TestRunsThatChange(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, e *exchange, target *approval.Target) *mcp.Call{
		"arguments": func(t *testing.T, e *exchange, _ *approval.Target) *mcp.Call {
			return newCall(t, "anna", "write", `{"a":2}`, e)
		},
		"caller": func(t *testing.T, e *exchange, _ *approval.Target) *mcp.Call {
			return newCall(t, "eve", "write", `{"a":1}`, e)
		},
		"target": func(t *testing.T, e *exchange, target *approval.Target) *mcp.Call {
			target.ToolDigest = "2"
			return newCall(t, "anna", "write", `{"a":1}`, e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := asker(1)
			var d diary
			target := approval.Target{Server: "files", Tool: "write"}
			o := options(&d)
			o.Describe = func(context.Context, *mcp.Call) (approval.Target, error) { return target, nil }
			invoke := gated(f, says(yes, nil), o)
			e := newExchange("call")
			if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{"a":1}`, e)); err == nil {
				t.Fatal("the tool did not ask")
			}
			e.answers["q0"] = json.RawMessage(`{}`)
			_, err := invoke(t.Context(), change(t, e, &target))
			wantKind(t, err, approval.Changed)
			if len(f.ran()) != 1 {
				t.Errorf("the tool ran %d times", len(f.ran()))
			}
			wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventFailed)
		})
	}
}

// TestCallersThatStayAway: what waits for a caller ends, and makes room.
func TestCallersThatStayAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := asker(1)
		var d diary
		o := options(&d)
		o.MaxPerCaller = 1
		invoke := gated(f, says(yes, nil), o)
		late := newExchange("late")
		if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, late)); err == nil {
			t.Fatal("the tool did not ask")
		}
		_, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, newExchange("b")))
		wantKind(t, err, approval.TooMany)
		<-time.After(approval.DefaultExpiry)
		late.answers["q0"] = json.RawMessage(`{}`)
		_, err = invoke(t.Context(), newCall(t, "anna", "write", `{}`, late))
		wantKind(t, err, approval.Spent)
		wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventFailed)

		gone := newExchange("gone") // one whose call ends between two runs
		if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, gone)); err == nil {
			t.Fatal("the tool did not ask")
		}
		for _, fn := range gone.finally {
			fn()
		}
		if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, newExchange("d"))); errors.Is(err, approval.TooMany) {
			t.Error("a call that is over keeps its place")
		}
	})
}

// TestPendingCaps: one caller, and all of them, can have so many requests open; one that
// is stuck does not delay others.
func TestPendingCaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var f tool
		invoke := gated(&f, approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
			if strings.Contains(string(r.Arguments), "stuck") {
				<-release
			}
			return yes, nil
		}), options(nil))
		var all sync.WaitGroup
		call := func(who, arguments string) error {
			_, err := invoke(t.Context(), newCall(t, who, "write", arguments, nil))
			return err
		}
		for i := range approval.DefaultMaxOpen {
			who := fmt.Sprint("caller", i/approval.DefaultMaxPerCaller)
			all.Go(func() {
				if err := call(who, `{"stuck":1}`); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if i == approval.DefaultMaxPerCaller-1 {
				wantKind(t, call("caller0", `{}`), approval.TooMany)
				for range 100 {
					if err := call("another", `{}`); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		wantKind(t, call("another", `{}`), approval.TooMany)
		close(release)
		all.Wait()
		if err := call("another", `{}`); err != nil {
			t.Error(err)
		}
	})
}

// TestRemember: an approval is good for the same again, for a while, if that is wanted.
func TestRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f tool
		var d diary
		o := options(&d)
		o.Remember = time.Minute
		prompts := 0
		answer := yes
		invoke := gated(&f, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			prompts++
			return answer, nil
		}), o)
		id := 0
		call := func(who, tool, arguments string, want int) {
			t.Helper()
			id++
			_, _ = invoke(t.Context(), newCall(t, who, tool, arguments, newExchange(fmt.Sprint(id)))) // only the prompts count
			if prompts != want {
				t.Errorf("%s: %s(%s): %d prompts, want %d", who, tool, arguments, prompts, want)
			}
		}
		call("anna", "write", `{"a":1}`, 1)
		call("anna", "write", `{"a":1}`, 1)
		wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventExecuted,
			approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventExecuted)
		call("anna", "write", `{"a":1 }`, 2) // other bytes
		call("eve", "write", `{"a":1}`, 3)
		call("anna", "writ", `e{"a":1}`[1:], 4)
		<-time.After(time.Minute)
		answer = no
		call("anna", "write", `{"a":1}`, 5)
		call("anna", "write", `{"a":1}`, 6) // a no is not remembered
	})
}

// TestArguments: what two readers may read differently is not put before anybody.
func TestArguments(t *testing.T) {
	for arguments, asked := range map[string]bool{
		``: true, `{}`: true, `{"a":{"b":[{"c":1}]}}`: true, `{"n":12345678901234567890.000000001}`: true,
		`[]`: false, `"x"`: false, `null`: false,
		`{"a":{"b":1,"b":2}}`: false, `{"a":[[{"b":1,"\u0062":2}]]}`: false,
		`{"a":"` + strings.Repeat("x", approval.MaxArguments) + `"}`: false,
	} {
		var f tool
		prompts := 0
		_, err := gated(&f, approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
			prompts++
			want := arguments
			if want == "" {
				want = "{}"
			}
			if string(r.Arguments) != want {
				t.Errorf("%.40s: the arguments are shown as %s", arguments, r.Arguments)
			}
			return yes, nil
		}), options(nil))(t.Context(), newCall(t, "", "write", arguments, nil))
		if (prompts == 1) != asked || (err == nil) != asked {
			t.Errorf("%.40s: %d prompts, error %v", arguments, prompts, err)
		}
		if asked && f.ran()[0] != arguments {
			t.Errorf("%.40s: the tool got %s", arguments, f.ran())
		}
	}
}

// TestGatesWithinEachOther: each gate has its own approval.
func TestGatesWithinEachOther(t *testing.T) {
	f := asker(1)
	prompts := 0
	counting := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		prompts++
		return yes, nil
	})
	inner := options(nil)
	inner.Name = "inner"
	invoke := approval.Gate(approval.AskAlways, counting, options(nil))(gated(f, counting, inner))
	e := newExchange("call")
	if _, err := invoke(t.Context(), newCall(t, "", "write", `{}`, e)); err == nil {
		t.Fatal("the tool did not ask")
	}
	e.answers["q0"] = json.RawMessage(`{}`)
	if _, err := invoke(t.Context(), newCall(t, "", "write", `{}`, e)); err != nil || prompts != 2 {
		t.Errorf("error %v, %d prompts", err, prompts)
	}
}

// TestPanicOfATool: it goes on as it was, and the approval is spent.
func TestPanicOfATool(t *testing.T) {
	f := &tool{then: func(context.Context, *mcp.Call) (mcp.Result, error) { panic("tool") }}
	var d diary
	invoke := gated(f, says(yes, nil), options(&d))
	func() {
		defer func() {
			if p := recover(); p != "tool" {
				t.Errorf("the panic is %v", p)
			}
		}()
		_, _ = invoke(t.Context(), newCall(t, "", "write", `{}`, nil))
	}()
	wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventFailed)
}

// TestFromContext: a tool can see what was approved.
func TestFromContext(t *testing.T) {
	var seen *approval.Request
	f := &tool{then: func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
		seen = approval.FromContext(ctx)
		return mcp.Raw(`{}`), nil
	}}
	if _, err := gated(f, says(yes, nil), options(nil))(t.Context(), newCall(t, "anna", "write", `{"a":1}`, nil)); err != nil {
		t.Fatal(err)
	}
	if seen == nil || seen.Caller != "anna" || approval.FromContext(t.Context()) != nil {
		t.Errorf("the tool saw %v", seen)
	}
}

// TestGateAllocations: a call that is not asked about costs nothing.
func TestGateAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	result := mcp.Raw(`{}`)
	next := func(context.Context, *mcp.Call) (mcp.Result, error) { return result, nil }
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Ask, Match: policy.Match{Names: []string{"delete_*"}}}, {Effect: policy.Allow},
	}})
	if err != nil {
		t.Fatal(err)
	}
	enforcer := &policy.Enforcer{Policy: compiled}
	allow := func(context.Context, *mcp.Call) (policy.Decision, error) {
		return policy.Decision{Effect: policy.Allow}, nil
	}
	call := newCall(t, "anna", "read", `{"a":1}`, nil)
	count := func(invoke mcp.Invoker) float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := invoke(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, test := range map[string]struct {
		decide approval.Decide
		bare   mcp.Invoker // with the same decision, and no gate
		most   float64
	}{
		"alone":     {allow, next, 0},
		"by policy": {approval.ByPolicy(enforcer), enforcer.Intercept(next), 1},
	} {
		if n := count(approval.Gate(test.decide, says(yes, nil), options(nil))(next)) - count(test.bare); n > test.most {
			t.Errorf("%s: the gate allocates %v times, want at most %v", name, n, test.most)
		}
	}
}

func BenchmarkGateThatDoesNotAsk(b *testing.B) {
	invoke := approval.Gate(func(context.Context, *mcp.Call) (policy.Decision, error) {
		return policy.Decision{Effect: policy.Allow}, nil
	}, nil, options(nil))(func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, nil })
	call := newCall(b, "anna", "read", `{"a":1}`, nil)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = invoke(b.Context(), call)
	}
}
