package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestGuardEnforces: the guard asks where the policy says so, and refuses what it denies, as
// the guard of package policy does.
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
		Decided: func(context.Context, *mcp.Call, *policy.Request, policy.Decision) { decided++ },
	}
	for _, test := range []struct {
		policy    *policy.Compiled
		who, tool string
		told      string // "" if the call is made
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
		_, err := within(guard, f.invoke)(t.Context(), newCall(t, test.who, test.tool, `{}`, nil))
		if prompts != test.prompts || (len(f.ran()) == 1) != (test.told == "") || decided != 1 {
			t.Errorf("%s: %s: %d prompts, %d executions, %d decisions", test.who, test.tool, prompts, len(f.ran()), decided)
		}
		if test.told != "" {
			denied, ok := errors.AsType[*policy.DeniedError](err)
			told, _ := errors.AsType[*jsonrpc.Error](err)
			if !ok || told.Message != test.told || !client.IsForbidden(err) || denied.Name != test.tool {
				t.Errorf("%s: %s: the error is %v", test.who, test.tool, err)
			}
			if strings.Contains(told.Message, "secret") {
				t.Errorf("the caller is told %q", told.Message)
			}
		} else if err != nil {
			t.Error(err)
		}
		if got := guard.Visible(t.Context(), &mcp.Caller{Principal: test.who}, target(test.tool)); got != test.visible || decided != 1 {
			t.Errorf("%s: %s is listed %t, %d decisions", test.who, test.tool, got, decided)
		}
	}
}

// TestOnlyTools: entries of other kinds cannot be approved.
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
		_, err = within(asked, f.invoke)(t.Context(), &call)
		wantKind(t, err, approval.NoApprover)
		if want := "Approval request for " + test.method + " failed: only tool calls can be approved"; err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
		if asked.Visible(t.Context(), &mcp.Caller{}, what) || len(f.ran()) != 0 {
			t.Errorf("%s: it is listed, or has run %d times", test.method, len(f.ran()))
		}
		if _, err := within(allowed, f.invoke)(t.Context(), &call); err != nil || !allowed.Visible(t.Context(), &mcp.Caller{}, what) {
			t.Errorf("%s: %v", test.method, err)
		}
	}
}

// TestChangedBeforeRun: the policy decides about the arguments that are asked about, also
// where a middleware has changed them after the guard's check.
func TestChangedBeforeRun(t *testing.T) {
	guard := approval.Guard(parsed(t, `{"rules":[
		{"effect":"ask","unless":[{"arguments":[{"path":"/path","prefix":["/tmp/"]}]}]},
		{"effect":"deny","arguments":[{"path":"/path","prefix":["/root/"]}]},{"effect":"allow"}]}`), says(no, nil), options(nil))
	for path, kind := range map[string]approval.Kind{"/tmp/b": "", "/etc/b": approval.Rejected, "/root/b": "denied"} {
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
		if _, denied := errors.AsType[*policy.DeniedError](err); kind == "denied" && !denied || kind == "" && err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if kind == approval.Rejected {
			wantKind(t, err, kind)
		}
		if (len(f.ran()) == 1) != (kind == "") {
			t.Errorf("%s: it ran %d times", path, len(f.ran()))
		}
	}
}
