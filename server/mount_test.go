package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func mount(t testing.TB, s, child *server.Server, prefix string) {
	t.Helper()
	mountProvider(t, s, child.Provider(), prefix)
}

// mountedKinds are the calls of everyKind with a prefix.
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

// TestMount checks that all entries of a child are listed and called with the prefix, and are
// otherwise unchanged.
func TestMount(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, prefixes := range [][]string{{""}, {"p_"}, {"p.", "q-"}, {"p_", ""}, {"", "p_"}} {
			s := newServer(nil)
			var seen string
			addEveryKind(s, options{}, func(r *server.Request) error {
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
			if got := textOf(call(t, session, fmt.Sprint("own", len(prefixes)-1), `{}`)); got != "own" {
				t.Errorf("%q: the server's own tool says %q", prefixes, got)
			}
		}
	})
}

// TestMountedTemplates checks that URIs and completions go to the first template that matches.
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
			got, err := session.CompleteTemplate(t.Context(), template, "x", "", nil, nil)
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
		_, err := session.ReadResource(t.Context(), "other:x", nil)
		if !mcp.IsResourceNotFound(err) {
			t.Errorf("reading what nobody has gives %v", err)
		}
	})
}

// TestMountedCapabilities checks that the capabilities of a child are declared.
func TestMountedCapabilities(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		addEveryKind(child, options{}, func(*server.Request) error { return nil })
		mount(t, s, child, "c_")
		has := connect(t, s, era).Capabilities()
		if has.Tools == nil || has.Prompts == nil || has.Resources == nil || !has.Resources.Subscribe || has.Completions == nil {
			t.Errorf("declared is %+v", has)
		}
	})
}

// TestMountedCallIsTheSame checks that a call arrives byte for byte, except for the name.
func TestMountedCallIsTheSame(t *testing.T) {
	const with = `{ "zz" : [1.0,1e2, -0] ,"na\u006de":"%s", "arguments":{"b":12345678901234567890.10,"a":"\u00e9é\/","b ":{"x":1,"X":2}} ,"other":null}`
	const prompt = `{"arguments" : {"x":"\u00e9é\/" },"name" :"%s","zz":1.50e0}`
	const ref = `{"argument":{"value":"","name":"x" }, "ref":{ "title":"t", "name":"%s","type":"ref/prompt"},"x":1.50}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		var seen string
		addEveryKind(child, withGuard(mcp.Guard{Check: func(_ context.Context, call *mcp.Call) error {
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

// TestMountedListIsTheSame checks that a list is unchanged except for the names.
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
		if got, want := string(s.InputSchema(t.Context(), "p_tool")), string(child.InputSchema(t.Context(), "tool")); got != want || got == "" || s.InputSchema(t.Context(), "tool") != nil {
			t.Errorf("the input schema is %s, want %s", got, want)
		}
	})
}

// TestMountedCallAsks checks questions, stored results, progress and log messages through mounts.
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
			if _, err := server.Elicit[answersFor](r, "sure", "Sure?"); err != nil {
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
			if err != nil || textOf(result) != fmt.Sprint("order ", want+1) || !slices.Contains(told, "asking") {
				t.Errorf("the tool gives %+v, %v, progress %q", result, err, told)
			}
		}
	})
}

// TestInvalidMounts checks the errors of Mount.
func TestInvalidMounts(t *testing.T) {
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

// TestMountNotifies checks that each subscriber is notified of changed lists only.
func TestMountNotifies(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		addEveryKind(s, options{}, func(*server.Request) error { return nil }) // so that all is declared
		var told []mcp.Change
		session := connectInMemory(t, s, &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) { told = append(told, change) }})
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
		if got := textOf(call(t, session, "m_c_l_z", `{}`)); got != "deep" {
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

// TestMountWhileServing mounts and changes servers while they are called.
func TestMountWhileServing(t *testing.T) {
	s := newServer(nil)
	returns(s, "steady", "yes")
	var work sync.WaitGroup
	for i := range 3 {
		work.Go(func() {
			for j := range 10 {
				child := newServer(depends(tracedDependency(&trace{}, "oven", &oven{j})))
				server.AddTool(child, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (int, error) {
					return server.Value[*oven](r).degrees, nil
				})
				prefix := fmt.Sprintf("c%d.%d.", i, j)
				if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: prefix}); err != nil {
					t.Error(err)
				}
				session := connectInMemory(t, s, nil)
				if got := textOf(call(t, session, prefix+"tool", `{}`)); got != fmt.Sprint(j) {
					t.Errorf("%stool says %q", prefix, got)
				}
				returns(child, "later", "later")
				if got := textOf(call(t, session, prefix+"later", `{}`)); got != "later" {
					t.Errorf("%slater says %q", prefix, got)
				}
			}
		})
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := connectInMemory(t, s, &client.Options{Era: era})
		work.Go(func() {
			for range 50 {
				if got := textOf(call(t, session, "steady", `{}`)); got != "yes" {
					t.Errorf("the tool says %q", got)
				}
				for _, name := range toolNames(t, session) {
					if strings.HasSuffix(name, ".tool") { // callable if it is visible
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

// newMounted is a server with a child mounted as "p_", which has one entry of each kind.
func newMounted(t testing.TB, ofServer, ofChild, ofEntries options, fn func(*server.Request) error) *server.Server {
	t.Helper()
	s, child := newServer(ofServer.options()), newServer(ofChild.options())
	addEveryKind(child, ofEntries, fn)
	mount(t, s, child, "p_")
	return s
}

// TestMountedGuards checks guards of the server, the mount and the entry. Each gets the name that
// the entry has there.
func TestMountedGuards(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var denies string
		at := func(where string) options {
			return withGuard(mcp.Guard{Name: where, Check: func(_ context.Context, call *mcp.Call) error {
				tr.step(where + " " + call.Target().Kind.String() + " " + call.Target().Name + " " + string(call.Member("name")))
				if where == denies {
					return errors.New("no")
				}
				return nil
			}})
		}
		s := newMounted(t, at("server"), at("child"), at("entry"), func(*server.Request) error { tr.step("run"); return nil })
		session := connect(t, s, era)
		for i, test := range mountedKinds("p_") {
			own := everyKind[i]
			var name, ownName string
			if strings.Contains(test.params, `{"name":"p_`) && test.kind != "completion" {
				name, ownName = `"`+test.name+`"`, `"`+own.name+`"`
			}
			kind := targetKinds[own.name].String()
			want := []string{
				"server " + kind + " " + test.name + " " + name, "child " + kind + " " + own.name + " " + ownName,
				"entry " + kind + " " + own.name + " " + ownName, "run",
			}
			for n, where := range []string{"server", "child", "entry", "nobody"} {
				denies = where
				tr.take()
				_, err := raw(t, session, test.method, test.params)
				denied := fmt.Sprintf("Guard '%s' denied the %s call for '%s'", where, test.kind, test.name)
				if open := where == "nobody"; open != (err == nil) || !open && message(err) != denied {
					t.Errorf("%s, refused at the %s: the error is %v", test.params, where, err)
				}
				wantSteps(t, &tr, want[:n+1]...)
			}
		}
	})
}

// TestMountedChain checks the order: the server, the mount, the child, the entry.
func TestMountedChain(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		outer, inner := tr.around("s").options(), tr.around("c").options()
		outer.Middleware, inner.Middleware = []mcp.Middleware{tr.middleware("s-outer")}, []mcp.Middleware{tr.middleware("c-outer")}
		s, child := newServer(outer), newServer(inner)
		addEveryKind(child, tr.around("e"), func(*server.Request) error { tr.step("function"); return nil })
		m := tr.around("m")
		shutDownAtEnd(t, s)
		if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "p_", Guards: m.Guards, CallMiddleware: m.CallMiddleware}); err != nil {
			t.Fatal(err)
		}
		session := connect(t, s, era)
		for _, test := range mountedKinds("p_") {
			tr.take()
			if _, err := raw(t, session, test.method, test.params); err != nil {
				t.Errorf("%s: %v", test.params, err)
			}
			wantSteps(t, &tr, "s-outer", "s-check", "m-check", "s-run", "m-run", "s-call1", "s-call2", "m-call1", "m-call2",
				"c-outer", "c-check", "e-check", "c-run", "e-run", "c-call1", "c-call2", "e-call1", "e-call2", "function",
				"/e-call2", "/e-call1", "/c-call2", "/c-call1", "/e-run", "/c-run", "/c-outer",
				"/m-call2", "/m-call1", "/s-call2", "/s-call1", "/m-run", "/s-run", "/s-outer")
		}
	})
}

// TestMountedMetadata checks that the server's guards get the metadata of the entry.
func TestMountedMetadata(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen string
		around := withGuard(mcp.Guard{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
			m := call.Target().Metadata
			seen = fmt.Sprint(m["shared"], m["server"], m["mount"], m["middle"], m["child"], m["entry"])
			return nil
		}})
		around.Metadata = map[string]any{"shared": "server", "server": 1}
		middle := newMounted(t, options{Metadata: map[string]any{"shared": "middle", "middle": 2}},
			options{Metadata: map[string]any{"shared": "child", "child": 3}},
			options{Metadata: map[string]any{"shared": "entry", "entry": 4}}, func(*server.Request) error { return nil })
		s := newServer(around.options())
		mount(t, s, newServer(&server.Options{Metadata: map[string]any{"child": "of another"}}), "")
		shutDownAtEnd(t, s)
		if err := s.Mount(middle.Provider(), &server.MountOptions{Prefix: "m_", Metadata: map[string]any{"shared": "mount", "mount": 5}}); err != nil {
			t.Fatal(err)
		}
		session := connect(t, s, era)
		for _, test := range mountedKinds("m_p_") {
			seen = ""
			if _, err := raw(t, session, test.method, test.params); err != nil || seen != "entry1 5 2 3 4" {
				t.Errorf("%s: the guard sees %q, %v", test.params, seen, err)
			}
		}
	})
}

// TestMountedHidden checks that an entry hidden at any level gets the error for an unknown name.
func TestMountedHidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		hiding := withGuard(staffOnly)
		fine := func(*server.Request) error { return nil }
		lost := connectAs(t, newServer(&server.Options{Logger: discardLogger()}), era, "guest")
		for where, s := range map[string]*server.Server{
			"server": newMounted(t, hiding, options{}, options{}, fine),
			"child":  newMounted(t, options{}, hiding, options{}, fine),
			"entry":  newMounted(t, options{}, options{}, hiding, fine),
		} {
			staff, guest := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest")
			for range 2 {
				if got, want := listed(t, staff), []string{"p_raw", "p_tool", "app:r", "app:t/{x}", "p_prompt"}; !slices.Equal(got, want) {
					t.Errorf("hidden at the %s: the staff sees %q, want %q", where, got, want)
				}
				if got := listed(t, guest); len(got) > 0 {
					t.Errorf("hidden at the %s: a guest sees %q", where, got)
				}
			}
			for _, test := range mountedKinds("p_") {
				if _, err := raw(t, staff, test.method, test.params); err != nil {
					t.Errorf("hidden at the %s, %s: the staff gets %v", where, test.params, err)
				}
				_, err := raw(t, guest, test.method, test.params)
				_, want := raw(t, lost, test.method, test.params)
				if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
					t.Errorf("hidden at the %s, %s: a guest gets %v, would get %v if there were nothing", where, test.params, err, want)
				}
			}
		}
	})
}

// TestHiddenInNestedMounts checks the same for nested mounts.
func TestHiddenInNestedMounts(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		middle := newMounted(t, options{}, options{}, withGuard(staffOnly), func(*server.Request) error { return nil })
		s := newServer(&server.Options{Logger: discardLogger()})
		mount(t, s, middle, "m_")
		guest, lost := connectAs(t, s, era, "guest"), connectAs(t, newServer(nil), era, "guest")
		for _, test := range mountedKinds("m_p_") {
			_, err := raw(t, guest, test.method, test.params)
			_, want := raw(t, lost, test.method, test.params)
			if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
				t.Errorf("%s: a guest gets %v, would get %v if there were nothing", test.params, err, want)
			}
		}
	})
}

// TestMountedPanics checks that a panic fails one call, and that the caller gets only a reference.
func TestMountedPanics(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		child := newServer(nil)
		addEveryKind(child, options{}, func(*server.Request) error { panic("the secret is 42") })
		for _, around := range []options{{}, withGuard(mcp.Guard{Check: allow})} {
			opts := around.options()
			opts.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			s := newServer(opts)
			mount(t, s, child, "p_")
			session := connect(t, s, era)
			for _, test := range mountedKinds("p_") {
				log.Reset()
				_, err := raw(t, session, test.method, test.params)
				if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) || !strings.Contains(log.String(), "the secret is 42") {
					t.Errorf("%s: the caller is told %v, the operator %s", test.params, err, &log)
				}
			}
		}
	})
}

// slowly is a dependency that starts slowly, unless its context ends.
func slowly(tr *trace, takes time.Duration) server.Dependency {
	return server.Provide(func(ctx context.Context) (mill, func(context.Context) error, error) {
		tr.step("start mill")
		select {
		case <-time.After(takes):
			return mill{}, func(context.Context) error { tr.step("stop mill"); return nil }, nil
		case <-ctx.Done():
			tr.step("give up mill")
			return mill{}, nil, ctx.Err()
		}
	})
}

// TestMountedStartIsCancelled checks that cancelling the start of a server cancels the start of its
// child.
func TestMountedStartIsCancelled(t *testing.T) {
	for what, end := range map[string]func(s *server.Server) error{
		"its time is over": func(s *server.Server) error { return s.Start(context.Background()) },
		"it is shut down": func(s *server.Server) error {
			go func() { _ = s.Start(context.Background()) }()
			<-time.After(50 * time.Second)
			return errors.Join(s.Shutdown(context.Background()), s.Start(context.Background()))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tr trace
				s, child := newServer(depends(slowly(&tr, 40*time.Second), tracedDependency(&tr, "oven", oven{}))), newServer(depends(tracedDependency(&tr, "salt", 0), slowly(&tr, 40*time.Second)))
				mount(t, s, child, "c_")
				if err := end(s); err == nil {
					t.Error("the server has started")
				}
				synctest.Wait()
				wantSteps(t, &tr, "start mill", "start oven", "start salt", "start mill", "give up mill", "stop salt", "stop oven", "stop mill")
				if err := child.Start(t.Context()); err == nil {
					t.Error("the child has started")
				}
			})
		})
	}
}

// TestMountIsRefusedBeforeStart checks that a provider that collides is not started.
func TestMountIsRefusedBeforeStart(t *testing.T) {
	var tr trace
	s, child := newServer(depends()), newServer(depends(tracedDependency(&tr, "oven", oven{})))
	returns(s, "c_tool", "")
	returns(child, "tool", "")
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCollision(t, s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"}), "tool", "c_tool")
	wantSteps(t, &tr)
	mount(t, s, child, "d_")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	wantSteps(t, &tr, "start oven", "stop oven")
}

// TestShutdownWhileMounting checks that a provider that has started too late is stopped and not
// mounted.
func TestShutdownWhileMounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s, child := newServer(depends()), newServer(depends(slowly(&tr, 10*time.Second)))
		returns(child, "tool", "")
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mounted := make(chan error, 1)
		go func() { mounted <- s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"}) }()
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-mounted; err == nil || err.Error() != "the server is shutting down" {
			t.Errorf("mounting gives %v", err)
		}
		wantSteps(t, &tr, "start mill", "stop mill")
		if s.InputSchema(t.Context(), "c_tool") != nil {
			t.Error("the tool is there")
		}
	})
}

// TestCollisionWhileMounting checks that one of two concurrent mounts with the same name fails and is
// stopped.
func TestCollisionWhileMounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s := newServer(depends())
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mounted := make(chan error, 2)
		for range 2 {
			child := newServer(depends(slowly(&tr, 10*time.Second)))
			returns(child, "tool", "")
			go func() { mounted <- s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"}) }()
		}
		first, second := <-mounted, <-mounted
		if first == nil {
			first = second
		} else if second != nil {
			t.Errorf("both are refused: %v, %v", first, second)
		}
		wantCollision(t, first, "tool", "c_tool")
		wantSteps(t, &tr, "start mill", "start mill", "stop mill")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "stop mill")
	})
}

// TestMountedLifecycle checks the order of start and stop, and that each server has only its own
// dependencies.
func TestMountedLifecycle(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		state := func(_ context.Context, r *server.Request, _ struct{}) (int, error) {
			return server.Value[*oven](r).degrees, nil
		}
		s := newServer(depends(tracedDependency(&tr, "oven", &oven{1})))
		middle := newServer(depends(tracedDependency(&tr, "mill", mill{})))
		child := newServer(depends(tracedDependency(&tr, "child's oven", &oven{3})))
		for _, each := range []*server.Server{s, middle, child} {
			server.AddTool(each, server.Tool{Name: "tool"}, state)
		}
		mount(t, s, middle, "m_")
		mount(t, middle, child, "c_")
		wantSteps(t, &tr)
		session := connect(t, s, era)
		for tool, want := range map[string]string{"tool": "1", "m_c_tool": "3"} {
			if got := textOf(call(t, session, tool, `{}`)); got != want {
				t.Errorf("%s says %s, want %s", tool, got, want)
			}
		}
		wantSteps(t, &tr, "start oven", "start mill", "start child's oven")
		_, err := session.CallTool(t.Context(), "m_tool", nil, nil)
		if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) {
			t.Errorf("the middle one has an oven: %v", err)
		}
		late := newServer(depends(tracedDependency(&tr, "late", 0)))
		mount(t, s, late, "l_")
		wantSteps(t, &tr, "start late")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "stop late", "stop child's oven", "stop mill", "stop oven")
		if err := s.Mount(newServer(depends(tracedDependency(&tr, "too late", 0))).Provider(), &server.MountOptions{Prefix: "t_"}); err == nil || err.Error() != "the server is shutting down" {
			t.Errorf("mounting gives %v", err)
		}
		wantSteps(t, &tr)
	})
}

// TestMountedStartFails checks that the failure of a child fails the start, with the place in the
// error.
func TestMountedStartFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		child := newServer(depends(tracedDependency(&tr, "a", 1), tracedDependency(&tr, "b", "", errors.New("out of flour"))))
		middle, sibling := newServer(depends()), newServer(depends(tracedDependency(&tr, "sibling", 2)))
		mount(t, middle, child, "c_")
		s := newServer(depends(tracedDependency(&tr, "oven", oven{})))
		mount(t, s, sibling, "s_")
		mount(t, s, middle, "m_")
		const want = `starting mount 2 (prefix "m_"): starting mount 1 (prefix "c_"): starting string: out of flour`
		if err := s.Start(t.Context()); err == nil || err.Error() != want {
			t.Errorf("starting gives %v, want %s", err, want)
		}
		wantSteps(t, &tr, "start oven", "start sibling", "start a", "start b", "stop a", "stop sibling", "stop oven")

		// While it serves, a server goes on as before.
		serving := newServer(&server.Options{Logger: discardLogger()})
		session := connect(t, serving, era)
		failing := newServer(depends(tracedDependency(&tr, "b", "", errors.New("out of flour"))))
		returns(failing, "tool", "")
		if err := serving.Mount(failing.Provider(), &server.MountOptions{Prefix: "f_"}); err == nil || !strings.HasSuffix(err.Error(), `"f_"): starting string: out of flour`) {
			t.Errorf("mounting gives %v", err)
		}
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		_, err := session.CallTool(t.Context(), "f_tool", nil, nil)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

// TestMountWhileStarting checks that a dependency may mount a provider.
func TestMountWhileStarting(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var s *server.Server
		child := newServer(depends(tracedDependency(&tr, "child", 7)))
		server.AddTool(child, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (int, error) { return server.Value[int](r), nil })
		s = newServer(depends(server.Provide(func(context.Context) (oven, func(context.Context) error, error) {
			tr.step("mount")
			return oven{}, nil, s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"})
		})))
		if got := textOf(call(t, connect(t, s, era), "c_tool", `{}`)); got != "7" {
			t.Errorf("the tool says %q", got)
		}
		wantSteps(t, &tr, "mount", "start child")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "stop child")
	})
}

// subscribed subscribes to one resource, and returns an error if the server does not accept it.
func subscribed(ctx context.Context, session *client.Session, uri string) error {
	sub, err := session.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}})
	if err == nil && !slices.Contains(sub.Agreed().ResourceSubscriptions, uri) {
		sub.Close()
		return mcp.ResourceNotFound(uri)
	}
	return err
}

// TestMountedSubscriptions checks that a hidden resource cannot be subscribed to, as one that does
// not exist, and that updates reach other callers.
func TestMountedSubscriptions(t *testing.T) {
	hiding := withGuard(staffOnly)
	for where, around := range map[string]struct{ server, mount, child, market, entry options }{
		"server": {server: hiding}, "mount": {mount: hiding}, "child": {child: hiding}, "market": {market: hiding}, "entry": {entry: hiding},
	} {
		t.Run(where, func(t *testing.T) {
			virtualEras(t, func(t *testing.T, era client.Era) {
				s, child, m, open := newServer(around.server.options()), newServer(around.child.options()), newTestProvider(), newTestProvider()
				addEveryKind(child, around.entry, func(*server.Request) error { return nil })
				m.setEntries(m.entry(mcp.KindResource, "app:m", `{"uri":"app:m","name":"m"}`).Wrap(around.entry.Guards, nil))
				open.setEntries(open.entry(mcp.KindResource, "app:open", `{"uri":"app:open","name":"open"}`))
				if err := child.Mount(m, &server.MountOptions{Guards: around.market.Guards}); err != nil {
					t.Fatal(err)
				}
				if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_", Guards: around.mount.Guards}); err != nil {
					t.Fatal(err)
				}
				mountProvider(t, s, open, "")
				hidden := []string{"app:m"}
				if where != "market" {
					hidden = append(hidden, "app:r", "app:t/1")
				}
				told := map[string]*trace{"staff": {}, "guest": {}}
				for as, changes := range told {
					session := connectInMemory(t, s, &client.Options{
						Era: era, Info: mcp.Implementation{Name: as, Version: "1"},
						OnChange: func(_ context.Context, change mcp.Change) { changes.step(change.URI) },
					})
					for _, uri := range hidden {
						if err := subscribed(t.Context(), session, uri); as == "staff" && err != nil || as == "guest" && !mcp.IsResourceNotFound(err) {
							t.Errorf("the %s subscribes to %s: %v", as, uri, err)
						}
					}
					if as == "guest" && where != "server" {
						if err := subscribed(t.Context(), session, "app:open"); err != nil {
							t.Errorf("the guest subscribes to app:open: %v", err)
						}
					}
				}
				synctest.Wait()
				if got := m.steps.take(); !slices.Equal(got, []string{"run", "watch app:m"}) {
					t.Errorf("the provider sees %q", got)
				}
				for _, uri := range hidden[1:] {
					child.ResourceUpdated(uri)
				}
				m.change(mcp.Change{Kind: mcp.KindResource, URI: "app:m"})
				open.change(mcp.Change{Kind: mcp.KindResource, URI: "app:open"})
				synctest.Wait()
				if got := told["staff"].take(); len(got) != len(hidden) {
					t.Errorf("the staff is told of %q, want %q", got, hidden)
				}
				if got := strings.Join(told["guest"].take(), " "); got != "app:open" && where != "server" || got != "" && where == "server" {
					t.Errorf("a guest is told of %q", got)
				}
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestMountedSubscriptionIsRefused checks refusals by a guard's Check.
func TestMountedSubscriptionIsRefused(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		deny := withGuard(denyGuard("shut"))
		for where, s := range map[string]*server.Server{
			"server": newMounted(t, deny, options{}, options{}, nil),
			"child":  newMounted(t, options{}, deny, options{}, nil),
			"entry":  newMounted(t, options{}, options{}, deny, nil),
		} {
			session := connect(t, s, era)
			for _, uri := range []string{"app:r", "app:t/1"} {
				if err := subscribed(t.Context(), session, uri); err == nil || !strings.Contains(err.Error(), "Guard 'shut' denied") {
					t.Errorf("at the %s, %s: the error is %v", where, uri, err)
				}
			}
		}
	})
}

// TestCancelledSubscription checks that a slow subscription blocks no other request, and can be
// cancelled.
func TestCancelledSubscription(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		asked, left := make(chan struct{}), make(chan error, 1)
		m := newTestProvider()
		slow := m.entry(mcp.KindResource, "app:slow", `{"uri":"app:slow","name":"slow"}`)
		slow.Subscribe = func(ctx context.Context, _ *mcp.Call) (func(), error) {
			close(asked)
			<-ctx.Done()
			left <- ctx.Err()
			return nil, ctx.Err()
		}
		m.setEntries(append(m.toolEntries("tool"), slow, m.entry(mcp.KindResource, "app:fast", `{"uri":"app:fast","name":"fast"}`))...)
		s := newServer(&server.Options{Logger: discardLogger()})
		mountProvider(t, s, m, "m_")
		told := make(chan mcp.Change, 1)
		session := connectWith(t, s, &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) { told <- change }})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		subscribe := func(ctx context.Context, session *client.Session, uri string) error {
			if era == client.Modern {
				return subscribed(ctx, session, uri)
			}
			_, err := session.Call(ctx, mcp.MethodResourcesSubscribe, jsonRaw(`{"uri":"`+uri+`"}`), nil)
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- subscribe(ctx, session, "app:slow") }()
		waittest.Receive(t, "the question", asked)
		for _, session := range []*client.Session{session, connect(t, s, era)} {
			call(t, session, "m_tool", `{}`)
			listed(t, session)
			if err := subscribe(t.Context(), session, "app:fast"); err != nil {
				t.Errorf("another subscription meanwhile: %v", err)
			}
		}
		s.ResourceUpdated("app:fast")
		if change := waittest.Receive(t, "the notification", told); change.URI != "app:fast" {
			t.Errorf("the client is told of %+v", change)
		}
		if era == client.Legacy {
			for _, uri := range []string{"app:fast", "app:slow", "app:none"} { // even of what is not subscribed to yet
				if _, err := raw(t, session, mcp.MethodResourcesUnsubscribe, `{"uri":"`+uri+`"}`); err != nil {
					t.Errorf("unsubscribing from %s meanwhile: %v", uri, err)
				}
			}
		}
		cancel()
		if err := waittest.Receive(t, "the end of the call", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("subscribing ends with %v", err)
		}
		if err := waittest.Receive(t, "the end of the call", left); !errors.Is(err, context.Canceled) {
			t.Errorf("the provider's context ends with %v", err)
		}
		call(t, session, "m_tool", `{}`)
	})
}

// TestSubscriptionIgnoresCancellation checks a provider that ignores cancellation: nothing else
// waits, and its subscription ends with the session.
func TestSubscriptionIgnoresCancellation(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		m, answer := newTestProvider(), make(chan struct{})
		stubborn := m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`)
		begin := stubborn.Subscribe
		stubborn.Subscribe = func(ctx context.Context, call *mcp.Call) (func(), error) {
			<-answer
			return begin(ctx, call)
		}
		m.setEntries(append(m.toolEntries("tool"), stubborn)...)
		s := newServer(&server.Options{Logger: discardLogger()})
		mountProvider(t, s, m, "m_")
		session := connectInMemory(t, s, &client.Options{Era: era})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- subscribed(ctx, session, "app:r") }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("subscribing ends with %v", err)
		}
		call(t, session, "m_tool", `{}`)
		close(answer)
		synctest.Wait()
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantSteps(t, &m.steps, "run", "watch app:r", "unwatch app:r")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSecondSubscriptionWaits checks two subscriptions of a legacy client to one resource.
func TestSecondSubscriptionWaits(t *testing.T) {
	for name, refused := range map[string]error{"agreed": nil, "refused": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, answer := newTestProvider(), make(chan struct{})
				slow := m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`)
				slow.Subscribe = func(context.Context, *mcp.Call) (func(), error) {
					<-answer
					return func() {}, refused
				}
				m.setEntries(slow)
				s := newServer(&server.Options{Logger: discardLogger()})
				mountProvider(t, s, m, "")
				conn, err := transport.Pipe(s).Dial(t.Context(), silentPrincipal{})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				open := jsonrpc.Raw(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
				if _, err := conn.Call(t.Context(), mcp.MethodInitialize, open); err != nil {
					t.Fatal(err)
				}
				answers := make(chan error, 2)
				for range 2 {
					go func() {
						resp, err := conn.Call(t.Context(), mcp.MethodResourcesSubscribe, jsonrpc.Raw(`{"uri":"app:r"}`))
						if err == nil && resp.Error != nil {
							err = resp.Error
						}
						answers <- err
					}()
				}
				synctest.Wait()
				if len(answers) != 0 {
					t.Error("a request is answered before the provider has decided")
				}
				close(answer)
				for range 2 {
					if err := <-answers; (err != nil) != (refused != nil) {
						t.Errorf("the answer is %v", err)
					}
				}
			})
		})
	}
}

// silentPrincipal is a client that refuses calls and ignores notifications.
type silentPrincipal struct{}

func (silentPrincipal) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "not here"}
}

func (silentPrincipal) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// TestSubscribeDeclaredWhileStarting checks that a session which was promised subscriptions gets no
// "method not found".
func TestSubscribeDeclaredWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		s := newServer(&server.Options{Dependencies: []server.Dependency{server.Provide(func(context.Context) (int, func(context.Context) error, error) {
			<-started
			return 0, nil, nil
		})}})
		shutDownAtEnd(t, s)
		session := connectInMemory(t, s, &client.Options{Era: client.Legacy})
		if has := session.Capabilities().Resources; has == nil || !has.Subscribe {
			t.Fatalf("declared is %+v", has)
		}
		close(started)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := raw(t, session, mcp.MethodResourcesSubscribe, `{"uri":"app:r"}`); !mcp.IsResourceNotFound(err) {
			t.Errorf("subscribing gives %v, want resource not found", err)
		}
		if _, err := raw(t, session, mcp.MethodResourcesUnsubscribe, `{"uri":"app:r"}`); err != nil {
			t.Errorf("unsubscribing gives %v", err)
		}
		later := connectInMemory(t, s, &client.Options{Era: client.Legacy})
		_, err := raw(t, later, mcp.MethodResourcesSubscribe, `{"uri":"app:r"}`)
		wantCode(t, err, jsonrpc.MethodNotFound)
	})
}

// TestMountAfterCollision checks that mounts after one that collides are compared with those that are there.
func TestMountAfterCollision(t *testing.T) {
	s := newServer(nil)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	mount := func(tool string, collides bool) {
		t.Helper()
		mounted := newServer(nil)
		returns(mounted, tool, "")
		err := s.Mount(mounted.Provider(), nil)
		if collision, ok := errors.AsType[*server.CollisionError](err); ok != collides || !ok && err != nil {
			t.Errorf("mounting %s: %v (%v)", tool, err, collision)
		}
	}
	mount("a", false)
	mount("b", false)
	mount("a", true)
	mount("b", true)
	mount("c", false)
	returns(s, "d", "")
	for _, tool := range []string{"a", "b", "c", "d"} {
		mount(tool, true)
	}
	mount("e", false)
	if got, want := toolNames(t, connect(t, s, client.Modern)), []string{"d", "a", "b", "c", "e"}; !slices.Equal(got, want) {
		t.Errorf("the tools are %q, want %q", got, want)
	}
}
