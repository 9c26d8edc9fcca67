package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestGuardEnforces: the guard asks if the policy says ask, and otherwise decides as
// policy.Guard does.
func TestGuardEnforces(t *testing.T) {
	compiled := parsed(t, `{"rules": [
		{"effect": "deny", "names": ["rm"], "reason": "never"}, {"effect": "deny", "names": ["sudo"]},
		{"effect": "ask", "names": ["write"]}, {"effect": "allow"}]}`)
	decided := 0
	guards := policy.GuardOptions{
		Subject: func(_ context.Context, caller *mcp.Caller) (policy.Subject, error) {
			switch caller.Principal {
			case "eve":
				return policy.Subject{}, errors.New("secret")
			case "mallory":
				panic("secret")
			}
			return policy.Subject{}, nil
		},
		OnDecision: func(context.Context, *mcp.Call, *policy.Request, policy.Decision) { decided++ },
	}
	for _, test := range []struct {
		policy    *policy.Compiled
		who, tool string
		message   string // "" if the call is made
		prompts   int
		visible   bool
	}{
		{compiled, "anna", "read", "", 0, true},
		{compiled, "anna", "write", "", 1, true},
		{compiled, "anna", "rm", `The policy does not allow the tool "rm": never`, 0, false},
		{compiled, "anna", "sudo", `The policy does not allow the tool "sudo"`, 0, false},
		{compiled, "eve", "read", `The policy does not allow the tool "read"`, 0, false},
		{compiled, "mallory", "read", `The policy does not allow the tool "read"`, 0, false},
		{nil, "anna", "read", `The policy does not allow the tool "read"`, 0, false},
	} {
		prompts := 0
		var f tool
		o := options(nil)
		o.GuardOptions = guards
		guard := approval.Guard(test.policy, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			prompts++
			return yes, nil
		}), o)
		decided = 0
		_, err := guarded(guard, f.invoke)(t.Context(), newCall(t, test.who, test.tool, `{}`, nil))
		if prompts != test.prompts || (len(f.ran()) == 1) != (test.message == "") || decided != 1 {
			t.Errorf("%s: %s: %d prompts, %d executions, %d decisions", test.who, test.tool, prompts, len(f.ran()), decided)
		}
		if test.message != "" {
			denied, ok := errors.AsType[*policy.DeniedError](err)
			wire, _ := errors.AsType[*jsonrpc.Error](err)
			if !ok || wire.Message != test.message || !client.IsForbidden(err) || denied.Name != test.tool {
				t.Errorf("%s: %s: the error is %v", test.who, test.tool, err)
			}
			if strings.Contains(wire.Message, "secret") {
				t.Errorf("the caller gets %q", wire.Message)
			}
		} else if err != nil {
			t.Error(err)
		}
		if got := guard.Visible(t.Context(), &mcp.Caller{Principal: test.who}, target(test.tool)); got != test.visible || decided != 1 {
			t.Errorf("%s: %s is listed %t, %d decisions", test.who, test.tool, got, decided)
		}
	}
}

// TestOnlyTools: only tool calls can be approved.
func TestOnlyTools(t *testing.T) {
	asked := approval.Guard(parsed(t, `{"rules":[{"effect":"ask"}]}`), says(yes, nil), options(nil))
	allowed := approval.Guard(asking(), says(yes, nil), options(nil))
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
		var f tool
		_, err = guarded(asked, f.invoke)(t.Context(), &call)
		wantCode(t, err, approval.NoApprover)
		if want := "Approval request for " + test.method + " failed: only tool calls can be approved"; err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
		if asked.Visible(t.Context(), &mcp.Caller{}, what) || len(f.ran()) != 0 {
			t.Errorf("%s: it is listed, or has run %d times", test.method, len(f.ran()))
		}
		if _, err := guarded(allowed, f.invoke)(t.Context(), &call); err != nil || !allowed.Visible(t.Context(), &mcp.Caller{}, what) {
			t.Errorf("%s: %v", test.method, err)
		}
	}
}

// TestChangedBeforeRun: if a middleware changes the arguments after Check, the policy decides
// again.
func TestChangedBeforeRun(t *testing.T) {
	guard := approval.Guard(parsed(t, `{"rules":[
		{"effect":"ask","unless":[{"arguments":[{"path":"/path","prefix":["/tmp/"]}]}]},
		{"effect":"deny","arguments":[{"path":"/path","prefix":["/root/"]}]},{"effect":"allow"}]}`), says(no, nil), options(nil))
	for path, code := range map[string]approval.Code{"/tmp/b": "", "/etc/b": approval.Rejected, "/root/b": "denied"} {
		var f tool
		run := guard.Run(f.invoke)
		call := newCall(t, "anna", "write", `{"path":"/tmp/a"}`, nil)
		if err := guard.Check(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		changed, err := call.WithParams(json.RawMessage(`{"name":"write","arguments":{"path":"` + path + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = run(t.Context(), changed)
		if _, denied := errors.AsType[*policy.DeniedError](err); code == "denied" && !denied || code == "" && err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if code == approval.Rejected {
			wantCode(t, err, code)
		}
		if (len(f.ran()) == 1) != (code == "") {
			t.Errorf("%s: it ran %d times", path, len(f.ran()))
		}
	}
}

// TestDeadlineIsMonotonic: setting the wall clock back must not extend the deadline. Comparing
// times uses the monotonic clock only if both have a reading of it.
func TestDeadlineIsMonotonic(t *testing.T) {
	asked := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		for name, at := range map[string]time.Time{"created": r.Created, "deadline": r.Deadline} {
			if !strings.Contains(at.String(), " m=") {
				t.Errorf("%s has no monotonic reading: %s", name, at)
			}
			if at.Nanosecond()%int(time.Millisecond) != 0 {
				t.Errorf("%s is not in milliseconds: %s", name, at)
			}
		}
		return yes, nil
	})
	if _, err := gated(&tool{}, asked, options(nil))(t.Context(), newCall(t, "", "write", `{}`, nil)); err != nil {
		t.Error(err)
	}
}

// TestDeadlineOfAGuard: the deadline of a call is paused while a person decides.
func TestDeadlineOfAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &tool{then: func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
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
		if _, err := gated(f, slow, options(nil))(ctx, newCall(t, "", "write", `{}`, nil)); err != nil {
			t.Error(err)
		}
	})
}
