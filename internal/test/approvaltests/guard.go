package approvaltests

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestGuardEnforces: the guard asks if the policy says ask, and otherwise decides as
// policy.Guard does.
func (s Suite) TestGuardEnforces(t *testing.T) {
	compiled := Parsed(t, `{"rules": [
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
		var f Tool
		o := Options(nil)
		o.GuardOptions = guards
		guard := approval.Guard(test.policy, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			prompts++
			return yes, nil
		}), o)
		decided = 0
		_, err := s.Guarded(guard, f.Invoke)(t.Context(), NewCall(t, test.who, test.tool, `{}`, nil))
		if prompts != test.prompts || (len(f.Ran()) == 1) != (test.message == "") || decided != 1 {
			t.Errorf("%s: %s: %d prompts, %d executions, %d decisions", test.who, test.tool, prompts, len(f.Ran()), decided)
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

// TestChangedBeforeRun: if a middleware changes the arguments after Check, the policy decides
// again.
func (s Suite) TestChangedBeforeRun(t *testing.T) {
	guard := approval.Guard(Parsed(t, `{"rules":[
		{"effect":"ask","unless":[{"arguments":[{"path":"/path","prefix":["/tmp/"]}]}]},
		{"effect":"deny","arguments":[{"path":"/path","prefix":["/root/"]}]},{"effect":"allow"}]}`), Says(no, nil), Options(nil))
	for path, code := range map[string]approval.Code{"/tmp/b": "", "/etc/b": approval.Rejected, "/root/b": "denied"} {
		var f Tool
		run := guard.Run(f.Invoke)
		call := NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, nil)
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
			WantCode(t, err, code)
		}
		if (len(f.Ran()) == 1) != (code == "") {
			t.Errorf("%s: it ran %d times", path, len(f.Ran()))
		}
	}
}

// TestDeadlineIsMonotonic: setting the wall clock back must not extend the deadline. Comparing
// times uses the monotonic clock only if both have a reading of it.
func (s Suite) TestDeadlineIsMonotonic(t *testing.T) {
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
	if _, err := s.gated(&Tool{}, asked, Options(nil))(t.Context(), NewCall(t, "", "write", `{}`, nil)); err != nil {
		t.Error(err)
	}
}
