package approval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestOnlyTools: only tool calls can be approved.
func TestOnlyTools(t *testing.T) {
	asked := approval.Guard(approvaltests.Parsed(t, `{"rules":[{"effect":"ask"}]}`), approvaltests.Says(yes, nil), approvaltests.Options(nil))
	allowed := approval.Guard(approvaltests.Asking(), approvaltests.Says(yes, nil), approvaltests.Options(nil))
	for _, test := range []struct {
		method string
		kind   mcp.Kind
	}{
		{mcp.MethodPromptsGet, mcp.KindPrompt}, {mcp.MethodResourcesRead, mcp.KindResource},
		{mcp.MethodComplete, mcp.KindPrompt}, {mcp.MethodComplete, mcp.KindResourceTemplate}, {mcp.MethodResourcesSubscribe, mcp.KindResource},
	} {
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), test.method, json.RawMessage(`{"name":"x","uri":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		what := &mcp.Target{Kind: test.kind, Name: "x"}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		call.Resolve(what, "", nil)
		var f approvaltests.Tool
		_, err = approvaltests.Guarded(asked, f.Invoke)(t.Context(), &call)
		approvaltests.WantCode(t, err, approval.NoApprover)
		if want := "Approval request for " + test.method + " failed: only tool calls can be approved"; err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
		if asked.Visible(t.Context(), &mcp.Caller{}, what) || len(f.Ran()) != 0 {
			t.Errorf("%s: it is listed, or has run %d times", test.method, len(f.Ran()))
		}
		if _, err := approvaltests.Guarded(allowed, f.Invoke)(t.Context(), &call); err != nil || !allowed.Visible(t.Context(), &mcp.Caller{}, what) {
			t.Errorf("%s: %v", test.method, err)
		}
	}
}

// TestPanicOfATool: the panic propagates, and the approval is used up.
func TestPanicOfATool(t *testing.T) {
	f := &approvaltests.Tool{Then: func(context.Context, *mcp.Call) (mcp.Result, error) { panic("tool") }}
	var d approvaltests.MemoryJournal
	invoke := approvaltests.Gated(f, approvaltests.Says(yes, nil), approvaltests.Options(&d))
	func() {
		defer func() {
			if p := recover(); p != "tool" {
				t.Errorf("the panic is %v", p)
			}
		}()
		_, _ = invoke(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, nil))
	}()
	approvaltests.WantEvents(t, &d, "asked", "approved", "executing", "failed")
}

// TestGuardAllocations: a call without a request allocates only for its decision.
func TestGuardAllocations(t *testing.T) {
	racetest.Skip(t)
	var result mcp.Result = mcp.Raw(`{}`)
	guard := approval.Guard(approvaltests.Parsed(t, `{"rules":[{"effect":"ask","names":["delete_*"]},{"effect":"allow"}]}`), approvaltests.Says(yes, nil), approvaltests.Options(nil))
	invoke := approvaltests.Guarded(guard, func(context.Context, *mcp.Call) (mcp.Result, error) { return result, nil })
	fresh := approvaltests.NewCall(t, "anna", "read", `{"a":1}`, nil)
	n := testing.AllocsPerRun(100, func() {
		call := *fresh
		if _, err := invoke(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
	})
	if n > 3 { // one is the copy of the call
		t.Errorf("the guard allocates %v times, want at most 2", n-1)
	}
}

func BenchmarkGuardThatDoesNotAsk(b *testing.B) {
	guard := approval.Guard(approvaltests.Parsed(b, `{}`), nil, approvaltests.Options(nil))
	invoke := approvaltests.Guarded(guard, func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, nil })
	fresh := approvaltests.NewCall(b, "anna", "read", `{"a":1}`, nil)
	b.ReportAllocs()
	for b.Loop() {
		call := *fresh
		_, _ = invoke(b.Context(), &call)
	}
}

// TestArguments: ambiguous arguments are refused without asking.
func TestArguments(t *testing.T) {
	for arguments, asked := range map[string]bool{
		``: true, `{}`: true, `{"a":{"b":[{"c":1}]}}`: true, `{"n":12345678901234567890.000000001}`: true,
		`[]`: false, `"x"`: false, `null`: false,
		`{"a":{"b":1,"b":2}}`: false, `{"a":[[{"b":1,"\u0062":2}]]}`: false,
		`{"a":"` + strings.Repeat("x", 128<<10) + `"}`: false,
	} {
		var f approvaltests.Tool
		prompts := 0
		_, err := approvaltests.Gated(&f, approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
			prompts++
			want := arguments
			if want == "" {
				want = "{}"
			}
			if string(r.Arguments) != want {
				t.Errorf("%.40s: the arguments are shown as %s", arguments, r.Arguments)
			}
			return yes, nil
		}), approvaltests.Options(nil))(t.Context(), approvaltests.NewCall(t, "", "write", arguments, nil))
		if (prompts == 1) != asked || (err == nil) != asked {
			t.Errorf("%.40s: %d prompts, error %v", arguments, prompts, err)
		}
		if asked && f.Ran()[0] != arguments {
			t.Errorf("%.40s: the tool got %s", arguments, f.Ran())
		}
	}
}

// TestDeadlineOfAGuard: the deadline of a call is paused while a person decides.
func TestDeadlineOfAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &approvaltests.Tool{Then: func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
			<-ctx.Done()
			if took := time.Since(start); took != time.Minute+time.Second || context.Cause(ctx) != context.DeadlineExceeded {
				t.Errorf("the call ended after %v with %v", took, context.Cause(ctx))
			}
			return mcp.Raw(`{}`), nil
		}}
		slow := approval.ApproverFunc(func(ctx context.Context, _ *approval.Request) (approval.Answer, error) {
			<-time.After(time.Minute)
			return yes, ctx.Err()
		})
		ctx, cancel := deadline.With(t.Context(), time.Second, context.DeadlineExceeded)
		defer cancel()
		if _, err := approvaltests.Gated(f, slow, approvaltests.Options(nil))(ctx, approvaltests.NewCall(t, "", "write", `{}`, nil)); err != nil {
			t.Error(err)
		}
	})
}

// The user of a client sees the same facts.
func TestElicitationFacts(t *testing.T) {
	e := approvaltests.AnotherExchange()
	f := &approvaltests.Tool{}
	compiled, err := policy.Compile(approvaltests.Rules("writes", "to be sure"))
	if err != nil {
		t.Fatal(err)
	}
	invoke := approvaltests.Guarded(approval.Guard(compiled, approval.Elicitation(), approvaltests.Options(nil)), f.Invoke)
	target := approvaltests.DefinedTarget(`{"name":"write","title":"Write","description":"Writes.\nReason: none","annotations":{"destructiveHint":false}}`, mcp.Origin{Server: "files", Name: "write", Launch: "npx \u202efiles"})
	call := approvaltests.NewCallOf(t, "", target, `{"a":1}`, e, nil)
	call.SetScript("call 3 of the script 5f2a")
	_, err = invoke(t.Context(), call)
	asked, ok := mcp.AsInputRequired(err)
	if !ok {
		t.Fatal(err)
	}
	for _, question := range asked.Requests {
		var params mcp.ElicitParams
		if err := params.UnmarshalJSON(question.Params); err != nil {
			t.Fatal(err)
		}
		const want = "Allow this call of write on files?\nLaunch: npx \\u202efiles\nTitle: Write\nDescription: Writes. Reason: none\n" +
			"Effect: adds or changes data, does not delete or overwrite it (the server says so; not verified)\nScript: call 3 of the script 5f2a\nReason: to be sure\n" + `{"a":1}`
		if params.Message != want {
			t.Errorf("the question is\n%s\nwant\n%s", params.Message, want)
		}
	}
}

// A call that waits for its caller does not keep its arguments, which the next run brings along.
func TestPausedCallKeepsNoArguments(t *testing.T) {
	racetest.Skip(t)
	run := approvaltests.Guarded(approval.Guard(approvaltests.Asking(), approvaltests.Says(yes, nil), approvaltests.Options(nil)), func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
		_, err := call.Input("question", mcp.InputRequest{Method: mcp.MethodElicit})
		return nil, err
	})
	arguments := `{"text":"` + strings.Repeat("x", 100<<10) + `"}`
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	for i := range 32 {
		e := approvaltests.NewExchange(fmt.Sprint("call-", i))
		_, err := run(t.Context(), approvaltests.NewCall(t, "anna", "write", arguments, e))
		approvaltests.WantAsks(t, e, err, `{"action":"accept"}`)
	}
	if kept := (inUse() - before) / 32; kept > 16<<10 {
		t.Errorf("a call that waits keeps %d bytes", kept)
	}
	_, err := run(t.Context(), approvaltests.NewCall(t, "anna", "write", arguments, approvaltests.NewExchange("next"))) // the calls still wait
	approvaltests.WantCode(t, err, approval.TooMany)
}
