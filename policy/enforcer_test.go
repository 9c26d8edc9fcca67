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

// shop has one of each kind for each of its names.
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

// answer answers any call.
func answer(_ context.Context, call *mcp.Call) (mcp.Result, error) {
	return map[string]mcp.Raw{
		mcp.MethodToolsCall: mcp.Raw(`{"content":[]}`), mcp.MethodPromptsGet: mcp.Raw(`{"messages":[]}`),
		mcp.MethodResourcesRead: mcp.Raw(`{"contents":[]}`), mcp.MethodComplete: mcp.Raw(`{"completion":{"values":[]}}`),
	}[call.Method()], nil
}

// A provider has a catalog that does not change.
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

// ways are how an enforcer can be put around what a server has.
func ways(t testing.TB, e *policy.Enforcer) map[string]*server.Options {
	visible := func(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
		list := newCall(t, mcp.MethodToolsList, `{}`)
		list.Caller = caller
		return e.Check(ctx, list, target.Kind, target.Name) == nil
	}
	check := func(ctx context.Context, call *mcp.Call) error {
		return e.Check(ctx, call, call.Target().Kind, call.Target().Name)
	}
	return map[string]*server.Options{
		"interceptor":  {Middleware: []mcp.Middleware{e.Intercept}},
		"guard":        {Guards: []mcp.Guard{{Name: "policy", Visible: visible, Check: check}}},
		"hiding guard": {Guards: []mcp.Guard{{Name: "policy", Visible: visible}}},
	}
}

// kinds are how each kind is listed and called.
var kinds = []struct {
	list, member, name string
	call, params       string // of it, by its name
}{
	{mcp.MethodToolsList, "tools", "name", mcp.MethodToolsCall, `{"name":%q}`},
	{mcp.MethodPromptsList, "prompts", "name", mcp.MethodPromptsGet, `{"name":%q}`},
	{mcp.MethodPromptsList, "prompts", "name", mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"x","value":""}}`},
	{mcp.MethodResourcesList, "resources", "uri", mcp.MethodResourcesRead, `{"uri":%q}`},
	{mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}}`},
}

// listed are the names in a list, with what it says besides.
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

// TestListAndCallAgree: of every kind exactly that is listed which can be called.
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
		e := &policy.Enforcer{Policy: parsed(t, text), Who: func(context.Context, *mcp.Call) (policy.Subject, error) {
			return policy.Subject{Role: "bot"}, nil
		}}
		for way, opts := range ways(t, e) {
			eachEra(t, func(t *testing.T, era client.Era) {
				session := connect(t, shop(t, opts, names...), era)
				for _, kind := range kinds {
					shown, _ := listed(t, session, kind.list, kind.member, kind.name)
					for _, name := range names {
						full := map[string]string{"resources": "app:" + name, "resourceTemplates": "app:" + name + "/{x}"}[kind.member]
						if full == "" {
							full = name
						}
						_, err := session.Call(t.Context(), kind.call, fmt.Appendf(nil, kind.params, full), nil)
						want := slices.Contains(strings.Fields(allowed), name)
						if kind.member == "resourceTemplates" && strings.Contains(text, "app:*/*") {
							want = false
						}
						if got := slices.Contains(shown, full); got != want || (err == nil) != want {
							t.Errorf("%s, by %s: %s %q is listed %t, and called with %v; want %t", text, way, kind.call, full, got, err, want)
						}
						if err != nil && way == "interceptor" && !client.IsForbidden(err) {
							t.Errorf("the refusal of %s %q is %v", kind.call, full, err)
						}
					}
				}
			})
		}
	}
}

// TestListKeepsBytes of what is left, and of all around it; and is private.
func TestListKeepsBytes(t *testing.T) {
	e := &policy.Enforcer{Policy: parsed(t, `{"deny":["b"]}`)}
	whole := `{ "x":1, "tools" : [ {"name":"a" , "n":1.0} , {"name":"b"},{"title":"none"},7, {"n":9007199254740993,"na\u006de":"c"} ] ,"nextCursor":"b" }`
	invoke := e.Intercept(func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(whole), nil })
	result, err := invoke(t.Context(), newCall(t, mcp.MethodToolsList, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{ "x":1, "tools" : [{"name":"a" , "n":1.0},{"n":9007199254740993,"na\u006de":"c"}] ,"nextCursor":"b" ,"cacheScope":"private"}`
	got, _ := result.AppendJSON(nil)
	if strings.ReplaceAll(string(got), " ", "") != strings.ReplaceAll(want, " ", "") || !strings.Contains(string(got), `{"name":"a" , "n":1.0}`) {
		t.Errorf("the list is %s, want %s", got, want)
	}
	for _, broken := range []string{`{}`, `[]`, `{"tools":{}}`, `{"tools":[],"tools":[]}`} {
		invoke := e.Intercept(func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(broken), nil })
		if result, err := invoke(t.Context(), newCall(t, mcp.MethodToolsList, `{}`)); err == nil {
			t.Errorf("%s is passed on as %s", broken, result)
		}
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		opts := &server.Options{CacheHint: mcp.CacheHint{TTLMs: 1000, Scope: mcp.CachePublic}, Middleware: []mcp.Middleware{e.Intercept}}
		_, text := listed(t, connect(t, shop(t, opts, "a"), era), mcp.MethodToolsList, "tools", "name")
		if strings.Contains(text, `"public"`) || strings.Contains(text, "cacheScope") != (era == client.Modern) {
			t.Errorf("others may be shown the list: %s", text)
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

// TestFailsClosed: whatever goes wrong, nothing is called and nothing is listed.
func TestFailsClosed(t *testing.T) {
	all := parsed(t, `{}`)
	asks := parsed(t, `{"rules":[{"effect":"ask"}]}`)
	failure := errors.New("the directory does not answer")
	for name, e := range map[string]*policy.Enforcer{
		"no policy":  {},
		"who fails":  {Policy: all, Who: func(context.Context, *mcp.Call) (policy.Subject, error) { return policy.Subject{}, failure }},
		"who panics": {Policy: all, Who: func(context.Context, *mcp.Call) (policy.Subject, error) { panic("who") }},
		"locate fails": {Policy: all, Locate: func(context.Context, mcp.Kind, string) (policy.Target, error) {
			return policy.Target{}, failure
		}},
		"locate panics":    {Policy: all, Locate: func(context.Context, mcp.Kind, string) (policy.Target, error) { panic("where") }},
		"nobody to ask":    {Policy: asks},
		"a strict policy":  {Policy: parsed(t, `{"strict":true}`)},
		"an empty subject": {Policy: parsed(t, `{"rules":[{"effect":"allow","principals":["?*"]}]}`), Who: func(context.Context, *mcp.Call) (s policy.Subject, err error) { return s, nil }},
	} {
		invoke := e.Intercept(func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			if call.Method() == mcp.MethodToolsList {
				return mcp.Raw(`{"tools":[{"name":"a"}]}`), nil
			}
			t.Errorf("%s: it is called", name)
			return mcp.Raw(`{}`), nil
		})
		_, err := invoke(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"a"}`))
		if denied, ok := errors.AsType[*policy.DeniedError](err); !ok || denied.Decision.Effect == policy.Allow {
			t.Errorf("%s: the error is %v", name, err)
		}
		result, err := invoke(t.Context(), newCall(t, mcp.MethodToolsList, `{}`))
		if err != nil || string(result.(mcp.Raw)) != `{"tools":[],"cacheScope":"private"}` {
			t.Errorf("%s: the list is %s: %v", name, result, err)
		}
		if err := e.Check(t.Context(), newCall(t, mcp.MethodToolsList, `{}`), mcp.KindTool, "a"); err == nil {
			t.Errorf("%s: it is shown", name)
		}
	}
	e := &policy.Enforcer{Policy: all, Decided: func(context.Context, *mcp.Call, *policy.Request, policy.Decision) { panic("audit") }}
	if err := e.Check(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"a"}`), mcp.KindTool, "a"); err == nil {
		t.Error("a call is made that could not be audited")
	}
	e = &policy.Enforcer{Policy: asks, Ask: func(context.Context, *mcp.Call, policy.Decision) error { panic("ask") }}
	if err := e.Check(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"a"}`), mcp.KindTool, "a"); err == nil {
		t.Error("a call is made though asking panicked")
	}
}

// TestAsk: a person is asked about calls, and not about lists and completions.
func TestAsk(t *testing.T) {
	var asked []string
	answer := error(nil)
	var decided []string
	e := &policy.Enforcer{
		Policy: parsed(t, `{"rules":[{"name":"writes","effect":"ask","reason":"ann decides"}]}`),
		Ask: func(_ context.Context, call *mcp.Call, d policy.Decision) error {
			asked = append(asked, call.Method()+" "+d.Rule)
			return answer
		},
		Decided: func(_ context.Context, _ *mcp.Call, q *policy.Request, d policy.Decision) {
			decided = append(decided, q.Principal+" "+q.Exposed+" "+d.Effect.String())
		},
	}
	invoke := e.Intercept(func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
		return mcp.Raw(`{"tools":[{"name":"a"}]}`), nil
	})
	result, err := invoke(t.Context(), newCall(t, mcp.MethodToolsList, `{}`))
	if err != nil || !strings.Contains(string(result.(mcp.Raw)), `"a"`) || asked != nil || decided != nil {
		t.Errorf("the list is %s: %v; asked %q, decided %q", result, err, asked, decided)
	}
	complete := newCall(t, mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"p"}}`)
	if _, err := invoke(t.Context(), complete); err != nil || asked != nil {
		t.Errorf("completing: %v; asked %q", err, asked)
	}
	for _, answer = range []error{nil, errors.New("no"), &mcp.InputRequired{}} {
		if _, err := invoke(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"a"}`)); err != answer {
			t.Errorf("the error is %v, want %v", err, answer)
		}
	}
	if want := slices.Repeat([]string{"tools/call writes"}, 3); !slices.Equal(asked, want) {
		t.Errorf("asked is %q, want %q", asked, want)
	}
	if want := []string{"ann p ask", "ann a ask", "ann a ask", "ann a ask"}; !slices.Equal(decided, want) {
		t.Errorf("decided is %q, want %q", decided, want)
	}
}

// TestEveryMethodIsDecided: nothing that a client can ask of a server is passed on without
// a decision, unless it is about nothing in particular.
func TestEveryMethodIsDecided(t *testing.T) {
	e := &policy.Enforcer{Policy: parsed(t, `{"deny":["*"]}`)}
	passed := map[string]bool{}
	invoke := e.Intercept(func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
		passed[call.Method()] = true
		for _, kind := range kinds {
			if kind.list == call.Method() {
				return mcp.Raw(`{"` + kind.member + `":[{"` + kind.name + `":"a"}]}`), nil
			}
		}
		return mcp.Raw(`{}`), nil
	})
	params := `{"name":"a","uri":"a","ref":{"type":"ref/prompt","name":"a","uri":"a"}}`
	for method, passes := range map[string]bool{
		mcp.MethodPing: true, "initialize": false,
		mcp.MethodToolsList: true, mcp.MethodPromptsList: true, mcp.MethodResourcesList: true, mcp.MethodResourceTemplatesList: true,
		mcp.MethodResourcesUnsubscribe: true,
		mcp.MethodToolsCall:            false, mcp.MethodPromptsGet: false, mcp.MethodResourcesRead: false, mcp.MethodComplete: false,
		mcp.MethodResourcesSubscribe: false,
		mcp.MethodCreateMessage:      false, mcp.MethodRootsList: false, mcp.MethodElicit: false,
		"tasks/get": false, "tools/Call": false, "": false,
	} {
		result, err := invoke(t.Context(), newCall(t, method, params))
		if passed[method] != passes || (err == nil) != passes {
			t.Errorf("%s: passed on %t, want %t: %v", method, passed[method], passes, err)
		}
		if err == nil && strings.Contains(string(result.(mcp.Raw)), `"a"`) {
			t.Errorf("%s: the list is %s", method, result)
		}
	}
	allowed := (&policy.Enforcer{Policy: parsed(t, `{"allow":["app:a"]}`)}).Intercept(func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{}`), nil })
	for uri, watched := range map[string]bool{"app:a": true, "app:b": false} {
		if _, err := allowed(t.Context(), newCall(t, mcp.MethodResourcesSubscribe, `{"uri":"`+uri+`"}`)); (err == nil) != watched {
			t.Errorf("watching %s: %v", uri, err)
		}
	}
	for _, params := range []string{`{}`, `{"name":1}`, `{"Name":"a"}`} {
		_, err := invoke(t.Context(), newCall(t, mcp.MethodToolsCall, params))
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.InvalidParams {
			t.Errorf("%s: %v", params, err)
		}
	}
}

// TestRefusalSaysLittle: a caller is told what the rule has to say, and not what it is.
func TestRefusalSaysLittle(t *testing.T) {
	e := &policy.Enforcer{Policy: parsed(t, `{"allow":["*"],"rules":[{"name":"secret plan","effect":"deny","names":["w*"],"reason":"Ask Ann."}]}`)}
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, shop(t, ways(t, e)["interceptor"], "read", "write"), era)
		_, err := session.CallTool(t.Context(), "write", nil, nil)
		said, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || said.Message != `The policy does not allow the tool "write": Ask Ann.` || string(said.Data) != `{"type":"FORBIDDEN","guard":"policy"}` {
			t.Errorf("the error is %v", err)
		}
	})
	err := e.Check(t.Context(), newCall(t, mcp.MethodToolsCall, `{}`), mcp.KindTool, "write")
	if want := `the policy refuses the tool "write": the rule "secret plan" matches`; err == nil || err.Error() != want {
		t.Errorf("the operator is told %q, want %q", err, want)
	}
}
