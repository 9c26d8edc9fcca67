package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/guardtests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

func parsed(t testing.TB, text string) *policy.Compiled {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, p)
}

// TestPoliciesOfCalls runs the tests of guards with policies with direct calls.
func TestPoliciesOfCalls(t *testing.T) { guardtests.PolicySuite{Calls: guardtests.Direct()}.Run(t) }

func connect(t testing.TB, s *server.Server, era client.Era) *client.Session {
	t.Helper()
	return guardtests.Direct().Connect(t.Context(), t, s, nil, &client.Options{Era: era})
}

func eachEra(t *testing.T, run func(t *testing.T, era client.Era)) {
	t.Run("modern", func(t *testing.T) { run(t, client.Modern) })
	t.Run("legacy", func(t *testing.T) { run(t, client.Legacy) })
}

// asBot gives every caller the role bot.
func asBot(context.Context, *mcp.Caller) (policy.Subject, error) {
	return policy.Subject{Roles: []string{"bot"}}, nil
}

func newCall(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{Principal: "ann"}, nil)
	return &call
}

// callOf returns a call of a tool.
func callOf(t testing.TB, target *mcp.Target) *mcp.Call {
	t.Helper()
	call := newCall(t, mcp.MethodToolsCall, `{"name":"`+target.Name+`"}`)
	call.Resolve(target, "", nil)
	return call
}

// TestFailsClosed: every failure denies calls and hides entries.
func TestFailsClosed(t *testing.T) {
	all := parsed(t, `{}`)
	subject := func(s policy.Subject, err error) *policy.GuardOptions {
		return &policy.GuardOptions{Subject: func(context.Context, *mcp.Caller) (policy.Subject, error) { return s, err }}
	}
	target := &mcp.Target{Kind: mcp.KindTool, Name: "a"}
	for name, guard := range map[string]mcp.Guard{
		"no policy":        policy.Guard(nil, nil),
		"no policy at all": policy.Guard(nil, &policy.GuardOptions{Subject: asBot}),
		"subject fails":    policy.Guard(all, subject(policy.Subject{}, errors.New("the directory does not answer"))),
		"subject panics":   policy.Guard(all, &policy.GuardOptions{Subject: func(context.Context, *mcp.Caller) (policy.Subject, error) { panic("who") }}),
		"ask":              policy.Guard(parsed(t, `{"rules":[{"effect":"ask"}]}`), nil),
		"a strict policy":  policy.Guard(parsed(t, `{"strict":true}`), nil),
		"an empty subject": policy.Guard(parsed(t, `{"rules":[{"effect":"allow","principals":["?*"]}]}`), subject(policy.Subject{}, nil)),
	} {
		err := guard.Check(t.Context(), callOf(t, target))
		if denied, ok := errors.AsType[*policy.DeniedError](err); !ok || denied.Decision.Effect == policy.Allow {
			t.Errorf("%s: the error is %v", name, err)
		}
		if guard.Visible(t.Context(), &mcp.Caller{Principal: "ann"}, target) {
			t.Errorf("%s: it is shown", name)
		}
	}
	audited := policy.Guard(all, &policy.GuardOptions{OnDecision: func(context.Context, *mcp.Call, *policy.Request, policy.Decision) { panic("audit") }})
	if err := audited.Check(t.Context(), callOf(t, target)); err == nil {
		t.Error("a call is made that could not be audited")
	}
	if err := policy.Guard(all, nil).Check(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"a"}`)); err == nil {
		t.Error("a call is made of nothing that the server has")
	}
}

// One decision uses the policy that is current when it begins.
func TestGuardUsesCurrentPolicy(t *testing.T) {
	rules, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Name: "all", Effect: policy.Allow}}})
	if err != nil {
		t.Fatal(err)
	}
	var current *policy.Compiled
	guard := policy.Guard(rules, &policy.GuardOptions{Current: func(policy.Subject) *policy.Compiled { return current }})
	target := &mcp.Target{Kind: mcp.KindTool, Name: "a"}
	if guard.Visible(t.Context(), &mcp.Caller{}, target) {
		t.Error("without a current policy an entry is visible")
	}
	current = rules
	if !guard.Visible(t.Context(), &mcp.Caller{}, target) {
		t.Error("the current policy was not used")
	}
}

// TestResourcesByURI: rules match the URI that is read or subscribed to, even if a template
// matches it. In lists they match the template.
func TestResourcesByURI(t *testing.T) {
	guard := policy.Guard(parsed(t, `{"rules":[
		{"effect":"allow","kinds":["resource"],"names":["app:a","list:*"]},
		{"effect":"allow","kinds":["resource template"],"names":["app:{x}"]},
		{"effect":"deny","kinds":["resource"],"names":["list:b"]}]}`), nil)
	eachEra(t, func(t *testing.T, era client.Era) {
		s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, &server.Options{Guards: []mcp.Guard{guard}, Logger: slog.New(slog.DiscardHandler)})
		for _, template := range []string{"app:{x}", "hidden:{x}"} {
			server.AddTemplate(s, server.Template{URITemplate: template, Name: template}, func(_ context.Context, _ *server.Request, vars struct {
				X string `json:"x"`
			}) (string, error) {
				return vars.X, nil
			})
		}
		for _, uri := range []string{"list:a", "list:b"} {
			server.AddResource(s, server.Resource{URI: uri, Name: uri}, func(context.Context, *server.Request) (string, error) { return "", nil })
		}
		session := connect(t, s, era)
		for uri, want := range map[string]bool{"app:a": true, "app:b": false, "list:a": true, "list:b": false, "hidden:a": false} {
			if _, err := session.ReadResource(t.Context(), uri, nil); (err == nil) != want || err != nil && !client.IsForbidden(err) {
				t.Errorf("reading %s: %v", uri, err)
			}
			subscription, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}})
			if err == nil {
				defer subscription.Close()
			}
			if watched := err == nil && slices.Contains(subscription.Agreed().ResourceSubscriptions, uri); watched != want {
				t.Errorf("subscribing to %s: %t, %v", uri, watched, err)
			}
		}
		for _, list := range []struct{ method, member, name, want string }{
			{mcp.MethodResourcesList, "resources", "uri", "list:a"}, {mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", "app:{x}"},
		} {
			if shown, _ := guardtests.Listed(t, session, list.method, list.member, list.name); !slices.Equal(shown, []string{list.want}) {
				t.Errorf("%s: listed are %q, want %q", list.method, shown, list.want)
			}
		}
	})
}
