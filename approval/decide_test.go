package approval_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestByPolicy: the gate asks where the policy says so, and refuses what it denies.
func TestByPolicy(t *testing.T) {
	rules, err := policy.Parse([]byte(`{"rules": [
		{"effect": "deny", "names": ["rm"], "reason": "never"}, {"effect": "deny", "names": ["sudo"]},
		{"effect": "ask", "names": ["write"]}, {"effect": "allow"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	enforcer := &policy.Enforcer{
		Policy: compiled,
		Who: func(_ context.Context, call *mcp.Call) (policy.Subject, error) {
			if call.Caller.Principal == "eve" {
				return policy.Subject{}, errors.New("secret")
			}
			return policy.Subject{}, nil
		},
		Ask:     func(context.Context, *mcp.Call, policy.Decision) error { return errors.New("asked twice") },
		Decided: func(context.Context, *mcp.Call, *policy.Request, policy.Decision) { t.Error("audited twice") },
	}
	for _, test := range []struct {
		who, tool string
		kind      approval.Kind
		text      string
		prompts   int
	}{
		{"anna", "read", "", "", 0},
		{"anna", "write", "", "", 1},
		{"anna", "rm", approval.Forbidden, "Approval request for files.rm refused: never", 0},
		{"anna", "sudo", approval.Forbidden, "Approval request for files.sudo refused: the policy denies the call", 0},
		{"eve", "read", approval.Forbidden, "Approval request for files.read refused: the policy denies the call", 0},
	} {
		prompts := 0
		var f tool
		_, err := approval.Gate(approval.ByPolicy(enforcer), approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			prompts++
			return yes, nil
		}), options(nil))(f.invoke)(t.Context(), newCall(t, test.who, test.tool, `{}`, nil))
		if prompts != test.prompts || (len(f.ran()) == 1) != (test.kind == "") {
			t.Errorf("%s: %s: %d prompts, %d executions", test.who, test.tool, prompts, len(f.ran()))
		}
		if test.kind != "" {
			wantKind(t, err, test.kind)
			if err.Error() != test.text {
				t.Errorf("the error is %q, want %q", err, test.text)
			}
		}
	}
}

// TestLeaveToGate: an enforcer before a gate leaves tool calls to it, and nothing else.
func TestLeaveToGate(t *testing.T) {
	rules, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}})
	if err != nil {
		t.Fatal(err)
	}
	enforcer := &policy.Enforcer{Policy: rules, Ask: approval.LeaveToGate}
	for _, test := range []struct {
		method, params string
		passes         bool
	}{
		{mcp.MethodToolsCall, `{"name":"t"}`, true},
		{mcp.MethodPromptsGet, `{"name":"p"}`, false},
		{mcp.MethodResourcesRead, `{"uri":"a:b"}`, false},
	} {
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), test.method, []byte(test.params))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		reached := false
		_, err = enforcer.Intercept(func(context.Context, *mcp.Call) (mcp.Result, error) {
			reached = true
			return nil, nil
		})(t.Context(), &call)
		if reached != test.passes || !test.passes && !errors.Is(err, approval.NoApprover) {
			t.Errorf("%s: reached %t, %v", test.method, reached, err)
		}
	}
}
