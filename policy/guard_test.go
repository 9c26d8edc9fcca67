package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// shop returns a server with one entry of each kind for each name.
func shop(t testing.TB, opts *server.Options, names ...string) *server.Server {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, opts)
	var entries []*server.Entry
	for _, name := range names {
		add := func(kind mcp.Kind, name, member string) {
			definition := mcp.NewDefinition(json.RawMessage(`{ "` + member + `" : "` + name + `", "inputSchema":{"type":"object"},"x-new":[1, 2]}`))
			e := &server.Entry{Target: mcp.Target{Kind: kind, Name: name, Definition: definition}, Handle: answer}
			if kind == mcp.KindPrompt || kind == mcp.KindResourceTemplate {
				e.Complete = answer
			}
			entries = append(entries, e)
		}
		add(mcp.KindTool, name, "name")
		add(mcp.KindPrompt, name, "name")
		add(mcp.KindResource, "app:"+name, "uri")
		add(mcp.KindResourceTemplate, "app:"+name+"/{x}", "uriTemplate")
	}
	if err := s.Mount(&provider{server.NewCatalog(entries, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

// answer returns an empty result for any call.
func answer(_ context.Context, call *mcp.Call) (mcp.Result, error) {
	return map[string]mcp.Raw{
		mcp.MethodToolsCall: mcp.Raw(`{"content":[]}`), mcp.MethodPromptsGet: mcp.Raw(`{"messages":[]}`),
		mcp.MethodResourcesRead: mcp.Raw(`{"contents":[]}`), mcp.MethodComplete: mcp.Raw(`{"completion":{"values":[]}}`),
	}[call.Method()], nil
}

// A provider has a fixed catalog.
type provider struct{ catalog *server.Catalog }

func (p *provider) Catalog() *server.Catalog { return p.catalog }

func (p *provider) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

func connect(t testing.TB, s *server.Server, era client.Era) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func eachEra(t *testing.T, run func(t *testing.T, era client.Era)) {
	t.Run("modern", func(t *testing.T) { run(t, client.Modern) })
	t.Run("legacy", func(t *testing.T) { run(t, client.Legacy) })
}

func parsed(t testing.TB, text string) *policy.Compiled {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, p)
}

// asBot gives every caller the role bot.
func asBot(context.Context, *mcp.Caller) (policy.Subject, error) {
	return policy.Subject{Role: "bot"}, nil
}

// kinds says how each kind is listed and called.
var kinds = []struct {
	list, member, name string
	call, params       string // the call by name
}{
	{mcp.MethodToolsList, "tools", "name", mcp.MethodToolsCall, `{"name":%q}`},
	{mcp.MethodPromptsList, "prompts", "name", mcp.MethodPromptsGet, `{"name":%q}`},
	{mcp.MethodPromptsList, "prompts", "name", mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"x","value":""}}`},
	{mcp.MethodResourcesList, "resources", "uri", mcp.MethodResourcesRead, `{"uri":%q}`},
	{mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}}`},
}

// refusal returns the error of a call, or a *client.ToolError for a result with isError.
func refusal(result *mcp.CallToolResult, err error) error {
	if err == nil && result.IsError {
		return &client.ToolError{Result: result}
	}
	return err
}

// called makes a call of any method, and returns its error or refusal.
func called(t testing.TB, session *client.Session, method, params string) error {
	t.Helper()
	text, err := session.Call(t.Context(), method, json.RawMessage(params), nil)
	if err != nil || method != mcp.MethodToolsCall {
		return err
	}
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return refusal(&result, nil)
}

// repeats is the end of the text of a refused tool call.
const repeats = "\nThe tool was not called. Do not repeat the call: it would be refused again."

// listed returns the names in a list, and the text of the list.
func listed(t testing.TB, session *client.Session, method, member, name string) (names []string, text string) {
	t.Helper()
	result, err := session.Call(t.Context(), method, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		t.Fatal(err)
	}
	var entries []map[string]any
	if err := json.Unmarshal(members[member], &entries); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	for _, entry := range entries {
		names = append(names, entry[name].(string))
	}
	return names, string(result)
}

// TestListAndCallAgree: of every kind, exactly the entries that can be called are listed.
func TestListAndCallAgree(t *testing.T) {
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
		guard := policy.Guard(parsed(t, text), &policy.GuardOptions{Subject: asBot})
		eachEra(t, func(t *testing.T, era client.Era) {
			session := connect(t, shop(t, &server.Options{Guards: []mcp.Guard{guard}}, names...), era)
			for _, kind := range kinds {
				shown, _ := listed(t, session, kind.list, kind.member, kind.name)
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
					if err != nil && client.IsForbidden(err) != (kind.call != mcp.MethodComplete) { // what is hidden has no argument to complete
						t.Errorf("the refusal of %s %q is %v", kind.call, full, err)
					}
				}
			}
		})
	}
}

// TestListsArePrivate: a guarded list has the cache scope private.
func TestListsArePrivate(t *testing.T) {
	guard := policy.Guard(parsed(t, `{"deny":["b"]}`), nil)
	eachEra(t, func(t *testing.T, era client.Era) {
		opts := &server.Options{CacheHint: mcp.CacheHint{TTLMs: 1000, Scope: mcp.CachePublic}, Guards: []mcp.Guard{guard}}
		_, text := listed(t, connect(t, shop(t, opts, "a", "b"), era), mcp.MethodToolsList, "tools", "name")
		if strings.Contains(text, `"public"`) || strings.Contains(text, "cacheScope") != (era == client.Modern) {
			t.Errorf("others may be shown the list: %s", text)
		}
		if want := `{ "name" : "a", "inputSchema":{"type":"object"},"x-new":[1, 2]}`; !strings.Contains(text, want) || strings.Contains(text, `"b"`) {
			t.Errorf("the list is %s, want %s in it", text, want)
		}
	})
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

// TestAsk: policy.Guard refuses a call for which the policy says ask, and lists an entry only if
// some call of it is allowed.
func TestAsk(t *testing.T) {
	var decided []string
	guard := policy.Guard(parsed(t, `{"rules":[
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
		session := connect(t, shop(t, &server.Options{Guards: []mcp.Guard{guard}}, "move", "read", "write"), era)
		shown, _ := listed(t, session, mcp.MethodToolsList, "tools", "name")
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
		if !slices.Equal(decided, want) {
			t.Errorf("decided is %q, want %q", decided, want)
		}
		decided = nil
	})
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
		for _, kind := range kinds[3:] {
			shown, _ := listed(t, session, kind.list, kind.member, kind.name)
			if want := map[string][]string{"resources": {"list:a"}, "resourceTemplates": {"app:{x}"}}[kind.member]; !slices.Equal(shown, want) {
				t.Errorf("%s: listed are %q, want %q", kind.list, shown, want)
			}
		}
	})
}

// TestRefusalSaysLittle: the caller gets the reason of the rule, but not its name. A tool is refused
// with a result, unless the options say otherwise.
func TestRefusalSaysLittle(t *testing.T) {
	rules := parsed(t, `{"allow":["*"],"rules":[{"name":"secret plan","effect":"deny","names":["w*"],"reason":"Ask Ann."}]}`)
	const message, data = `The policy does not allow the tool "write": Ask Ann.`, `{"type":"FORBIDDEN","guard":"policy"}`
	guard := policy.Guard(rules, nil)
	strict := policy.Guard(rules, &policy.GuardOptions{ProtocolErrors: true})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, shop(t, &server.Options{Guards: []mcp.Guard{guard}}, "read", "write"), era)
		result, err := session.CallTool(t.Context(), "write", nil, nil)
		if err != nil || !result.IsError || result.Text() != message+repeats || string(result.Meta.Get(mcp.MetaRefusal)) != data {
			t.Errorf("the result is %+v, the error %v", result, err)
		}
		if _, err := client.CallAs[string](t.Context(), session, "write", nil, nil); !client.IsForbidden(err) {
			t.Errorf("the error is %v", err)
		}

		session = connect(t, shop(t, &server.Options{Guards: []mcp.Guard{strict}}, "read", "write"), era)
		_, err = session.CallTool(t.Context(), "write", nil, nil)
		said, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || said.Message != message || string(said.Data) != data || !client.IsForbidden(err) {
			t.Errorf("the error is %v", err)
		}
	})
	err := guard.Check(t.Context(), callOf(t, &mcp.Target{Kind: mcp.KindTool, Name: "write"}))
	if want := `the policy refuses the tool "write": the rule "secret plan" matches`; err == nil || err.Error() != want {
		t.Errorf("the operator is told %q, want %q", err, want)
	}
}

// TestVariantsOfOneName: a policy decides about the variant that the caller sees, and not about others of the name.
func TestVariantsOfOneName(t *testing.T) {
	guard := policy.Guard(parsed(t, `{"rules":[{"effect":"allow","annotations":{"readOnlyHint":true}}]}`), nil)
	eachEra(t, func(t *testing.T, era client.Era) {
		s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, &server.Options{Guards: []mcp.Guard{guard}, Logger: slog.New(slog.DiscardHandler)})
		for principal, readOnly := range map[string]bool{"ann": true, "bob": false} {
			own := mcp.Guard{Name: principal, Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool { return caller.Principal == principal }}
			server.AddTool(s, server.Tool{Name: "t", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: &readOnly}, Guards: []mcp.Guard{own}},
				func(context.Context, *server.Request, struct{}) (string, error) { return principal, nil })
		}
		for principal, want := range map[string]bool{"ann": true, "bob": false, "eve": false} {
			session, err := client.Connect(transport.WithPrincipal(t.Context(), principal), transport.Pipe(s), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			shown, _ := listed(t, session, mcp.MethodToolsList, "tools", "name")
			err = called(t, session, mcp.MethodToolsCall, `{"name":"t"}`)
			if slices.Contains(shown, "t") != want || (err == nil) != want {
				t.Errorf("%s sees %q, and the call gives %v", principal, shown, err)
			}
		}
	})
}

// One decision uses the policy that is current when it begins.
func TestGuardUsesCurrentPolicy(t *testing.T) {
	rules, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Name: "all", Effect: policy.Allow}}})
	if err != nil {
		t.Fatal(err)
	}
	var current *policy.Compiled
	guard := policy.Guard(rules, &policy.GuardOptions{Current: func() *policy.Compiled { return current }})
	target := &mcp.Target{Kind: mcp.KindTool, Name: "a"}
	if guard.Visible(t.Context(), &mcp.Caller{}, target) {
		t.Error("without a current policy an entry is visible")
	}
	current = rules
	if !guard.Visible(t.Context(), &mcp.Caller{}, target) {
		t.Error("the current policy was not used")
	}
}
