package guardtests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestAsk: policy.Guard refuses a call for which the policy says ask, and lists an entry only if
// some call of it is allowed.
func (s PolicySuite) TestAsk(t *testing.T) {
	var decided []string
	guard := policy.Guard(approvaltests.Parsed(t, `{"rules":[
		{"name":"writes","effect":"ask","names":["*write*"],"reason":"ann decides"},
		{"effect":"ask","names":["move"],"unless":[{"arguments":[{"path":"/to","prefix":["/tmp/"]}]}]},
		{"effect":"allow"}]}`),
		&policy.GuardOptions{OnDecision: func(_ context.Context, call *mcp.Call, q *policy.Request, d policy.Decision) {
			if uri := call.URI(); q.URI != uri || q.Target.Name != call.Target().Name {
				t.Errorf("the request is %+v", q)
			}
			decided = append(decided, call.Method()+" "+q.Target.Name+" "+d.Effect.String())
		}})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := s.connect(t, Shop(t, &server.Options{Guards: []mcp.Guard{guard}}, "move", "read", "write"), era)
		shown, _ := Listed(t, session, mcp.MethodToolsList, "tools", "name")
		if want := []string{"move", "read"}; !slices.Equal(shown, want) || decided != nil {
			t.Errorf("listed are %q, want %q; decided %q", shown, want, decided)
		}
		for _, test := range []struct{ method, params, message string }{
			{mcp.MethodToolsCall, `{"name":"write"}`, `The policy does not allow the tool "write": ann decides`},
			{mcp.MethodToolsCall, `{"name":"move","arguments":{"to":"/etc/x"}}`, `The policy does not allow the tool "move"`},
			{mcp.MethodToolsCall, `{"name":"move","arguments":{"to":"/tmp/x"}}`, ""},
			{mcp.MethodPromptsGet, `{"name":"write"}`, `The policy does not allow the prompt "write": ann decides`},
			{mcp.MethodResourcesRead, `{"uri":"app:write"}`, `The policy does not allow the resource "app:write": ann decides`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"write"},"argument":{"name":"x","value":""}}`, `there is no argument "x" of "write"`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"move"},"argument":{"name":"x","value":""}}`, ""},
		} {
			if s.Hides && test.params == `{"name":"write"}` && test.method == mcp.MethodToolsCall {
				test.message = `unknown tool: "write"`
			}
			err := called(t, session, test.method, test.params)
			var said string
			if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
				said = wire.Message
			} else if failed, ok := errors.AsType[*client.ToolError](err); ok {
				said = strings.TrimSuffix(failed.Result.Text(), repeats)
			}
			if test.message == "" && err != nil || said != test.message {
				t.Errorf("%s %s: %v, want %q", test.method, test.params, err, test.message)
			}
		}
		want := []string{
			"tools/call write ask", "tools/call move ask", "tools/call move allow", "prompts/get write ask",
			"resources/read app:write ask", "completion/complete move allow",
		}
		if s.Hides {
			want = want[1:]
		}
		if !slices.Equal(decided, want) {
			t.Errorf("decided is %q, want %q", decided, want)
		}
		decided = nil
	})
}

// TestRefusalSaysLittle: the caller gets the reason of the rule, but not its name. A tool is refused
// with a result, unless the options say otherwise.
func (s PolicySuite) TestRefusalSaysLittle(t *testing.T) {
	rules := approvaltests.Parsed(t, `{"allow":["*"],"rules":[{"name":"secret plan","effect":"deny","names":["w*"],"reason":"Ask Ann.",
		"unless":[{"arguments":[{"path":"/draft","prefix":["yes"]}]}]}]}`)
	const message, data = `The policy does not allow the tool "write": Ask Ann.`, `{"type":"FORBIDDEN","guard":"policy"}`
	guard := policy.Guard(rules, nil)
	strict := policy.Guard(rules, &policy.GuardOptions{ProtocolErrors: true})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := s.connect(t, Shop(t, &server.Options{Guards: []mcp.Guard{guard}}, "read", "write"), era)
		result, err := session.CallTool(t.Context(), "write", nil, nil)
		if err != nil || !result.IsError || result.Text() != message+repeats || string(result.Meta.Get(mcp.MetaRefusal)) != data {
			t.Errorf("the result is %+v, the error %v", result, err)
		}
		if _, err := client.CallAs[string](t.Context(), session, "write", nil, nil); !client.IsForbidden(err) {
			t.Errorf("the error is %v", err)
		}

		session = s.connect(t, Shop(t, &server.Options{Guards: []mcp.Guard{strict}}, "read", "write"), era)
		_, err = session.CallTool(t.Context(), "write", nil, nil)
		said, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || said.Message != message || string(said.Data) != data || !client.IsForbidden(err) {
			t.Errorf("the error is %v", err)
		}
	})
	call := approvaltests.NewCall(t, "ann", "write", `{}`, nil)
	err := guard.Check(t.Context(), call)
	if want := `the policy refuses the tool "write": the rule "secret plan" matches`; err == nil || err.Error() != want {
		t.Errorf("the operator is told %q, want %q", err, want)
	}
}

// TestVariantsOfOneName: a policy decides about the variant that the caller sees, and not about others of the name.
func (s PolicySuite) TestVariantsOfOneName(t *testing.T) {
	guard := policy.Guard(approvaltests.Parsed(t, `{"rules":[{"effect":"allow","annotations":{"readOnlyHint":true}}]}`), nil)
	eachEra(t, func(t *testing.T, era client.Era) {
		tools := newServer(&server.Options{Guards: []mcp.Guard{guard}, Logger: quiet()})
		for principal, readOnly := range map[string]bool{"ann": true, "bob": false} {
			own := mcp.Guard{Name: principal, Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool { return caller.Principal == principal }}
			server.AddTool(tools, server.Tool{Name: "t", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: &readOnly}, Guards: []mcp.Guard{own}},
				func(context.Context, *server.Request, struct{}) (string, error) { return principal, nil })
		}
		for principal, want := range map[string]bool{"ann": true, "bob": false, "eve": false} {
			session := s.Connect(transport.WithPrincipal(t.Context(), principal), t, tools, quiet(), &client.Options{Era: era})
			shown, _ := Listed(t, session, mcp.MethodToolsList, "tools", "name")
			err := called(t, session, mcp.MethodToolsCall, `{"name":"t"}`)
			if slices.Contains(shown, "t") != want || (err == nil) != want {
				t.Errorf("%s sees %q, and the call gives %v", principal, shown, err)
			}
		}
	})
}

// TestListAndCallAgree: of every kind, exactly the entries that can be called are listed.
func (s PolicySuite) TestListAndCallAgree(t *testing.T) {
	names := []string{"read", "write", "delete"}
	for text, allowed := range map[string]string{
		`{}`:                           "read write delete",
		`{"deny":["*delete*"]}`:        "read write",
		`{"allow":["*read*"]}`:         "read",
		`{"allow":["*"],"deny":["*"]}`: "",
		`{"role_overrides":{"bot":{"deny":["*e"]}},"deny":["*write*","app:*/*"]}`:                                            "read",
		`{"rules":[{"effect":"allow","names":["*read*","*write*"]},{"effect":"deny","names":["*write*"]}]}`:                  "read",
		`{"rules":[{"effect":"allow"},{"effect":"ask","names":["*write*"]}]}`:                                                "read delete",
		`{"rules":[{"effect":"allow"},{"effect":"deny","roles":["bot"],"exposed":["*d*"],"unless":[{"names":["*read*"]}]}]}`: "read write",
	} {
		guard := policy.Guard(approvaltests.Parsed(t, text), &policy.GuardOptions{Subject: asBot})
		eachEra(t, func(t *testing.T, era client.Era) {
			session := s.connect(t, Shop(t, &server.Options{Guards: []mcp.Guard{guard}}, names...), era)
			for _, kind := range kinds {
				shown, _ := Listed(t, session, kind.list, kind.member, kind.name)
				for _, name := range names {
					full := map[string]string{"resources": "app:" + name, "resourceTemplates": "app:" + name + "/{x}"}[kind.member]
					if full == "" {
						full = name
					}
					err := called(t, session, kind.call, fmt.Sprintf(kind.params, full))
					want := slices.Contains(strings.Fields(allowed), name)
					if kind.member == "resourceTemplates" && strings.Contains(text, "app:*/*") {
						want = false
					}
					if got := slices.Contains(shown, full); got != want || (err == nil) != want {
						t.Errorf("%s: %s %q is listed %t, and called with %v; want %t", text, kind.call, full, got, err, want)
					}
					unknown := kind.call == mcp.MethodComplete || s.Hides && kind.call == mcp.MethodToolsCall // what is hidden has no argument to complete
					if err != nil && client.IsForbidden(err) == unknown {
						t.Errorf("the refusal of %s %q is %v", kind.call, full, err)
					}
				}
			}
		})
	}
}

// TestListsArePrivate: a guarded list has the cache scope private.
func (s PolicySuite) TestListsArePrivate(t *testing.T) {
	guard := policy.Guard(approvaltests.Parsed(t, `{"deny":["b"]}`), nil)
	eachEra(t, func(t *testing.T, era client.Era) {
		opts := &server.Options{CacheHint: mcp.CacheHint{TTLMs: 1000, Scope: mcp.CachePublic}, Guards: []mcp.Guard{guard}}
		_, text := Listed(t, s.connect(t, Shop(t, opts, "a", "b"), era), mcp.MethodToolsList, "tools", "name")
		if strings.Contains(text, `"public"`) || strings.Contains(text, "cacheScope") != (era == client.Modern) {
			t.Errorf("others may be shown the list: %s", text)
		}
		if want := `{ "name" : "a", "inputSchema":{"type":"object"},"x-new":[1, 2]}`; !strings.Contains(text, want) || strings.Contains(text, `"b"`) {
			t.Errorf("the list is %s, want %s in it", text, want)
		}
	})
}
