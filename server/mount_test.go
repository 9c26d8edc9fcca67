package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func mount(t testing.TB, s, child *server.Server, prefix string) {
	t.Helper()
	mountProvider(t, s, child.Provider(), prefix)
}

// mountedKinds are the calls of everyKind for what is mounted with a prefix.
func mountedKinds(prefix string) []struct{ kind, name, method, params string } {
	calls := slices.Clone(everyKind)
	for i := range calls {
		if c := &calls[i]; !strings.HasPrefix(c.name, "app:") {
			c.params = strings.Replace(c.params, `"name":"`+c.name, `"name":"`+prefix+c.name, 1)
			c.name = prefix + c.name
		}
	}
	return calls
}

// TestMount: all that the child offers is offered with the prefix before names, is
// called by that, and is the child's own otherwise.
func TestMount(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, prefixes := range [][]string{{""}, {"p_"}, {"p.", "q-"}, {"p_", ""}, {"", "p_"}} {
			s := newServer(nil)
			var seen string
			addEveryKind(s, surround{}, func(r *server.Request) error {
				seen = r.Call().Target().Name + " " + string(r.Call().Params())
				return nil
			})
			prefix := ""
			for i, p := range prefixes {
				outer := newServer(nil)
				returns(outer, fmt.Sprint("own", i), "own")
				mount(t, outer, s, p)
				s, prefix = outer, p+prefix
			}
			session := connect(t, s, era)
			names := listed(t, session)
			for _, want := range []string{prefix + "tool", prefix + "raw", "app:r", "app:t/{x}", prefix + "prompt"} {
				if !slices.Contains(names, want) {
					t.Errorf("%q: listed are %q, want %q too", prefixes, names, want)
				}
			}
			for i, test := range mountedKinds(prefix) {
				seen = ""
				if _, err := raw(t, session, test.method, test.params); err != nil {
					t.Errorf("%s: %v", test.params, err)
				}
				own := everyKind[i]
				if !strings.HasPrefix(seen, own.name+" {") || !strings.Contains(seen, strings.TrimSuffix(own.params, "}")) {
					t.Errorf("%q %s: the function sees %s", prefixes, test.params, seen)
				}
			}
			for _, test := range mountedKinds("no_") {
				_, err := raw(t, session, test.method, test.params)
				if refused := !strings.HasPrefix(test.name, "app:"); (err != nil) != refused {
					t.Errorf("%q %s: the error is %v", prefixes, test.params, err)
				}
			}
			if prefix != "" { // whichever way the name is written
				written := fmt.Sprintf(`{"\u006eame":"\u%04x%stool","arguments":{"x":""}}`, prefix[0], prefix[1:])
				if _, err := raw(t, session, mcp.MethodToolsCall, written); err != nil || !strings.HasPrefix(seen, "tool ") {
					t.Errorf("%s: the function sees %s, %v", written, seen, err)
				}
			}
			if got := texts(call(t, session, fmt.Sprint("own", len(prefixes)-1), `{}`)); got != "own" {
				t.Errorf("%q: the server's own tool says %q", prefixes, got)
			}
		}
	})
}

// TestMountedTemplates: completions of variables and all else about URIs go to who has
// them, the first whose template matches.
func TestMountedTemplates(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, a, b := newServer(nil), newServer(nil), newServer(nil)
		add := func(s *server.Server, template, says string) {
			server.AddTemplate(s, server.Template{URITemplate: template}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
				return fmt.Sprint(says, " ", vars["x"]), nil
			})
			server.AddCompletion(s, server.Completion{Template: template, Argument: "x"}, func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
				return []string{says}, nil
			})
		}
		add(s, "app:own/{x}", "own")
		add(a, "app:a/{x}", "a")
		add(b, "app:b/{x}", "b")
		add(b, "app:{+x}", "rest")
		mount(t, s, a, "a_")
		mount(t, a, b, "b_")
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"app:own/1": "own 1", "app:a/1": "a 1", "app:b/1": "b 1", "app:c/d": "rest c/d",
		} {
			if got := contents(t, session, uri); !strings.Contains(got, want) {
				t.Errorf("%s is %q, want %q", uri, got, want)
			}
		}
		for template, want := range map[string]string{"app:own/{x}": "own", "app:a/{x}": "a", "app:b/{x}": "b", "app:{+x}": "rest"} {
			got, err := session.CompleteTemplate(t.Context(), template, "x", "", nil)
			if err != nil || !slices.Equal(got.Values, []string{want}) {
				t.Errorf("%s is completed to %+v, %v", template, got, err)
			}
		}
		for params, code := range map[string]jsonrpc.Code{
			`{"ref":{"type":"ref/resource","uri":"app:none/{x}"},"argument":{"name":"x","value":""}}`: jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/resource","uri":"app:b/{x}"},"argument":{"name":"y","value":""}}`:    jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/tool","uri":"app:b/{x}"},"argument":{"name":"x","value":""}}`:        jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/resource","uri":"app:b/{x}"}}`:                                       jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":7},"argument":{"name":"x","value":""}}`:               jsonrpc.InvalidParams,
			`{}`: jsonrpc.InvalidParams,
		} {
			_, err := raw(t, session, mcp.MethodComplete, params)
			if wantCode(t, err, code); t.Failed() {
				t.Fatal(params)
			}
		}
		_, err := session.Read(t.Context(), "other:x", nil)
		if !mcp.IsResourceNotFound(err) {
			t.Errorf("reading what nobody has gives %v", err)
		}
	})
}

// TestMountedCapabilities: what only the child has is declared too.
func TestMountedCapabilities(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		addEveryKind(child, surround{}, func(*server.Request) error { return nil })
		mount(t, s, child, "c_")
		has := connect(t, s, era).Capabilities()
		if has.Tools == nil || has.Prompts == nil || has.Resources == nil || !has.Resources.Subscribe || has.Completions == nil {
			t.Errorf("declared is %+v", has)
		}
	})
}

// TestMountedCallIsTheSame, but for the name: arguments arrive byte by byte, members in
// their order, and whatever else there is.
func TestMountedCallIsTheSame(t *testing.T) {
	const with = `{ "zz" : [1.0,1e2, -0] ,"na\u006de":"%s", "arguments":{"b":12345678901234567890.10,"a":"\u00e9é\/","b ":{"x":1,"X":2}} ,"other":null}`
	const prompt = `{"arguments" : {"x":"\u00e9é\/" },"name" :"%s","zz":1.50e0}`
	const ref = `{"argument":{"value":"","name":"x" }, "ref":{ "title":"t", "name":"%s","type":"ref/prompt"},"x":1.50}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		var seen string
		addEveryKind(child, guarded(mcp.Guard{Check: func(_ context.Context, call *mcp.Call) error {
			seen = string(call.Params())
			return nil
		}}), func(*server.Request) error { return nil })
		mount(t, s, child, "p_")
		for _, test := range []struct{ method, params, name string }{
			{mcp.MethodToolsCall, with, "tool"}, {mcp.MethodPromptsGet, prompt, "prompt"}, {mcp.MethodComplete, ref, "prompt"},
		} {
			d := newDispatcher(t, s, era, test.method, "")
			params := fmt.Sprintf(test.params, "p_"+test.name)
			meta := ""
			if era == client.Modern {
				meta = modernMeta
			}
			d.request = []byte(`{"jsonrpc":"2.0","id":7,"method":"` + test.method + `","params":` + strings.TrimSuffix(params, "}") + meta + `}}`)
			seen = ""
			d.dispatch(t)
			if want := fmt.Sprintf(strings.TrimSuffix(test.params, "}"), test.name) + meta + "}"; seen != want {
				t.Errorf("%s: the child sees\n%s, want\n%s", test.method, seen, want)
			}
		}
	})
}

// TestMountedListIsTheSame, but for the names.
func TestMountedListIsTheSame(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		server.AddRawTool(child, server.Tool{
			Name: "tool", Title: "name", Description: `"name":"tool"`, InputSchema: jsonRaw(`{ "type":"object","properties":{"name":{"default":1.0}} }`),
			Meta: mcp.Meta(`{"name":"tool","n":1.50}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)},
		}, func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) {
			return mcp.Raw(`{"content":[]}`), nil
		})
		server.AddPrompt(child, server.Prompt{Name: "prompt", Meta: mcp.Meta(`{"name":"prompt"}`)}, nothing[xIn])
		reads(child, server.Resource{URI: "app:r", Name: "name"}, "")
		mount(t, s, child, "p_")
		outer, inner := connect(t, s, era), connect(t, child, era)
		for method, name := range map[string]string{mcp.MethodToolsList: "tool", mcp.MethodPromptsList: "prompt", mcp.MethodResourcesList: ""} {
			got, err := raw(t, outer, method, `{}`)
			if err != nil {
				t.Fatal(err)
			}
			want, err := raw(t, inner, method, `{}`)
			if err != nil {
				t.Fatal(err)
			}
			if want = strings.Replace(want, `"name":"`+name+`"`, `"name":"p_`+name+`"`, 1); name != "" && got != want {
				t.Errorf("%s gives\n%s, want\n%s", method, got, want)
			}
		}
		if got, want := string(s.InputSchema("p_tool")), string(child.InputSchema("tool")); got != want || got == "" || s.InputSchema("tool") != nil {
			t.Errorf("the input schema is %s, want %s", got, want)
		}
	})
}

// TestMountedCallAsks: questions, what is kept between the rounds, progress and log
// messages find their way through mounts.
func TestMountedCallAsks(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, middle, child := newServer(nil), newServer(nil), newServer(nil)
		var made atomic.Int64
		server.AddTool(child, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			number, err := server.Once(r, "number", func() (int64, error) { return made.Add(1), nil })
			if err != nil {
				return "", err
			}
			if err := r.Progress(ctx, 1, 2, "asking"); err != nil {
				return "", err
			}
			if _, err := server.Elicit[sure](r, "sure", "Sure?"); err != nil {
				return "", err
			}
			return fmt.Sprint("order ", number), nil
		})
		mount(t, middle, child, "c_")
		mount(t, s, middle, "m_")
		session := connectWith(t, s, accepting(era))
		for want := range 2 {
			var told []string
			result, err := session.CallTool(t.Context(), "m_c_order", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) { told = append(told, p.Message) }})
			if err != nil || texts(result) != fmt.Sprint("order ", want+1) || !slices.Contains(told, "asking") {
				t.Errorf("the tool gives %+v, %v, progress %q", result, err, told)
			}
		}
	})
}

// TestMountRefuses what cannot be.
func TestMountRefuses(t *testing.T) {
	a, b, c := newServer(nil), newServer(nil), newServer(nil)
	mount(t, a, b, "b_")
	mount(t, b, c, "c_")
	for child, s := range map[*server.Server]*server.Server{a: c, b: b} {
		if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "x_"}); err == nil || err.Error() != "a server cannot be mounted in itself" {
			t.Errorf("the error is %v", err)
		}
	}
	for _, prefix := range []string{"a b", "ä", "a/", "\x00", strings.Repeat("x", 129), strings.Repeat("é", 1000)} {
		err := a.Mount(newServer(nil).Provider(), &server.MountOptions{Prefix: prefix})
		if err == nil || !strings.HasPrefix(err.Error(), "the prefix ") || len(err.Error()) > 400 {
			t.Errorf("%.40q: the error is %v", prefix, err)
		}
	}
}

// TestMountTells of a changed list each who listens, and only of lists that changed.
func TestMountTells(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		addEveryKind(s, surround{}, func(*server.Request) error { return nil }) // so that all is declared
		var told []mcp.Change
		session := connectInMemory(t, s, &client.Options{Era: era, Changed: func(_ context.Context, change mcp.Change) { told = append(told, change) }})
		filter := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
		if _, err := session.Subscribe(t.Context(), filter); err != nil {
			t.Fatal(err)
		}
		subscribe := func(uri string) {
			t.Helper()
			if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}); err != nil {
				t.Fatal(err)
			}
		}
		wantTold := func(what string, want ...mcp.Change) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(told, want) {
				t.Errorf("%s: the client is told %v, want %v", what, told, want)
			}
			told = nil
		}
		middle, child := newServer(nil), newServer(nil)
		returns(child, "a", "")
		mount(t, middle, child, "c_")
		wantTold("mounted elsewhere")
		mount(t, s, middle, "m_")
		wantTold("mounted", mcp.Change{Kind: mcp.KindTool})
		reads(child, server.Resource{URI: "app:child"}, "")
		wantTold("a new resource", mcp.Change{Kind: mcp.KindResource})
		child.Remove(mcp.KindTool, "a")
		wantTold("a removed tool", mcp.Change{Kind: mcp.KindTool})
		if err := child.Replace(newTool(t, "b", ""), newPrompt(t, "p")); err != nil {
			t.Fatal(err)
		}
		wantTold("replaced", mcp.Change{Kind: mcp.KindTool}, mcp.Change{Kind: mcp.KindPrompt})
		subscribe("app:child")
		child.ResourceUpdated("app:child")
		wantTold("updated", mcp.Change{Kind: mcp.KindResource, URI: "app:child"})
		child.ResourceUpdated("app:other")
		wantTold("another updated")
		late := newServer(nil)
		mount(t, child, late, "l_")
		wantTold("an empty one")
		reads(late, server.Resource{URI: "app:c/1"}, "")
		wantTold("a new resource of the last", mcp.Change{Kind: mcp.KindResource})
		subscribe("app:c/1")
		late.ResourceUpdated("app:c/1")
		wantTold("updated by the last", mcp.Change{Kind: mcp.KindResource, URI: "app:c/1"})
		returns(late, "z", "deep")
		wantTold("a new tool of the last", mcp.Change{Kind: mcp.KindTool})
		if got := texts(call(t, session, "m_c_l_z", `{}`)); got != "deep" {
			t.Errorf("the last says %q", got)
		}
		many := newServer(nil)
		for i := range 500 {
			returns(many, fmt.Sprint("tool", i), "")
		}
		mount(t, s, many, "n_")
		wantTold("many at once", mcp.Change{Kind: mcp.KindTool})
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestMountWhileServing is for the race detector, too: servers are mounted and changed
// while they are called.
func TestMountWhileServing(t *testing.T) {
	s := newServer(nil)
	returns(s, "steady", "yes")
	var work sync.WaitGroup
	for i := range 3 {
		work.Go(func() {
			for j := range 10 {
				child := newServer(depends(lives(&trace{}, "oven", &oven{j})))
				server.AddTool(child, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (int, error) {
					return server.Value[*oven](r).degrees, nil
				})
				prefix := fmt.Sprintf("c%d.%d.", i, j)
				if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: prefix}); err != nil {
					t.Error(err)
				}
				session := connectInMemory(t, s, nil)
				if got := texts(call(t, session, prefix+"tool", `{}`)); got != fmt.Sprint(j) {
					t.Errorf("%stool says %q", prefix, got)
				}
				returns(child, "later", "later")
				if got := texts(call(t, session, prefix+"later", `{}`)); got != "later" {
					t.Errorf("%slater says %q", prefix, got)
				}
			}
		})
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := connectInMemory(t, s, &client.Options{Era: era})
		work.Go(func() {
			for range 50 {
				if got := texts(call(t, session, "steady", `{}`)); got != "yes" {
					t.Errorf("the tool says %q", got)
				}
				for _, name := range toolNames(t, session) {
					if strings.HasSuffix(name, ".tool") { // whoever sees it can call it
						call(t, session, name, `{}`)
					}
				}
			}
		})
	}
	work.Wait()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
