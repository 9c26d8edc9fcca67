package search_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// everything returns tools and one entry of each other kind.
func (s *source) everything(tools ...string) []*server.Entry {
	entries := append(s.tools(tools...),
		s.entry(mcp.KindPrompt, "greet", `{"name":"greet"}`),
		s.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`),
		s.entry(mcp.KindResourceTemplate, "app:t/{x}", `{"uriTemplate":"app:t/{x}","name":"t"}`))
	for _, e := range entries {
		switch e.Kind {
		case mcp.KindPrompt:
			e.Complete = s.call
		case mcp.KindResource:
			e.Subscribe = s.watch
		case mcp.KindResourceTemplate:
			e.Match = func(uri string) bool { return strings.HasPrefix(uri, "app:t/") }
		}
	}
	return entries
}

// TestProviderOffersTwoTools: other entries are unchanged.
func TestProviderOffersTwoTools(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, prefix := range []string{"", "p_"} {
			from := newSource()
			from.show(from.everything("add", "sub")...)
			session := connect(t, mounted(t, newProvider(t, from), prefix, nil), &client.Options{Era: era})
			var tools []string
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				tools = append(tools, tool.Name)
			}
			if want := []string{prefix + "search_tools", prefix + "call_tool"}; !slices.Equal(tools, want) {
				t.Errorf("the tools are %q, want %q", tools, want)
			}
			result := call(t, session, prefix+"search_tools", `{"query":"add"}`)
			if !strings.Contains(texts(result), `"name":"add"`) {
				t.Errorf("found is %s", texts(result))
			}
			if result := call(t, session, prefix+"call_tool", `{"name":"sub"}`); !strings.Contains(texts(result), `"name":"sub"`) {
				t.Errorf("called is %s", texts(result))
			}
			for method, params := range map[string]string{
				mcp.MethodPromptsGet: `{"name":"` + prefix + `greet"}`, mcp.MethodResourcesRead: `{"uri":"app:t/1"}`,
				mcp.MethodComplete: `{"ref":{"type":"ref/prompt","name":"` + prefix + `greet"},"argument":{"name":"x","value":""}}`,
			} {
				if _, err := session.Call(t.Context(), method, []byte(params), nil); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
			has := session.Capabilities()
			if has.Prompts == nil || has.Resources == nil || has.Completions == nil {
				t.Errorf("declared is %+v", has)
			}
			_, err := session.CallTool(t.Context(), prefix+"add", nil, nil)
			if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams {
				t.Errorf("the source's tool can be called without call_tool: %v", err)
			}
		}
	})
}

// TestProviderHasNoOtherTools: tools of the source cannot be called directly or resolved.
func TestProviderHasNoOtherTools(t *testing.T) {
	p := newProvider(t, newSource("add"))
	s := mounted(t, p, "", nil)
	for params, want := range map[string]string{
		`{"name":"add"}`: `unknown tool: "add"`,
		`{"name":7}`:     "name must be a string",
		`{}`:             "name must be a string",
	} {
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(params))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		_, err = s.Serve(t.Context(), &call)
		if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams || e.Message != want {
			t.Errorf("%s: the error is %v, want %q", params, err, want)
		}
	}
	catalog := p.Catalog()
	if e, err := catalog.Resolve(t.Context(), mcp.KindTool, "add"); catalog.Lookup(mcp.KindTool, "add") != nil || e != nil || err != nil {
		t.Errorf("the tool of the source is in the catalog: %v, %v", e, err)
	}
	if p.Catalog() != catalog {
		t.Error("the catalog has changed without a change of entries")
	}
}

// TestProviderReportsChanges: changes of tools are found and not reported.
func TestProviderReportsChanges(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		from := newSource()
		from.show(from.everything("add", "sub")...)
		var reported []mcp.Change
		s := newServer(t, from)
		session := connectBy(t, transport.Pipe(s), &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) { reported = append(reported, change) }})
		synctest.Wait() // until the source runs
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{
			ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: []string{"app:r"},
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := from.taken(), "run, watch app:r"; got != want {
			t.Errorf("the steps are %q, want %q", got, want)
		}
		if got := foundNames(t, session, "mul"); got != "" {
			t.Errorf("found is %q", got)
		}
		from.show(from.everything("mul", "sub")...)
		changes := []mcp.Change{{Kind: mcp.KindPrompt}, {Kind: mcp.KindResource}, {Kind: mcp.KindResource, URI: "app:r"}}
		for _, change := range append([]mcp.Change{{Kind: mcp.KindTool}}, changes...) {
			(*from.changed.Load())(change)
		}
		synctest.Wait()
		if !slices.Equal(reported, changes) {
			t.Errorf("the changes are %v, want %v", reported, changes)
		}
		if got := foundNames(t, session, "mul add"); got != "mul" {
			t.Errorf("found is %q, want the new tool only", got)
		}
		_, err = callInner(t, session, "add", "{}")
		if e := protocolError(t, err); e.Message != `unknown tool: "add"` {
			t.Errorf("the removed tool gives %v", err)
		}
		sub.Close()
		synctest.Wait()
		if got := from.taken(); got != "unwatch app:r" {
			t.Errorf("the steps are %q", got)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if got := from.taken(); got != "end" {
			t.Errorf("the steps are %q", got)
		}
	})
}

func TestResourceWithoutSubscribe(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		from := newSource()
		from.show(from.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`))
		session := connect(t, newServer(t, from), &client.Options{Era: era})
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app:r"}})
		if err != nil {
			t.Fatal(err)
		}
		sub.Close()
	})
}

// TestNewRefuses: New refuses invalid entries.
func TestNewRefuses(t *testing.T) {
	broken := newSource()
	broken.show(broken.entry(mcp.KindTool, "bad", `{"name":`))
	if _, err := search.New(broken, nil); err == nil || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("the error is %v", err)
	}
}

// TestLaterFaults: invalid entries that appear later are logged and do not affect others.
func TestLaterFaults(t *testing.T) {
	var log bytes.Buffer
	from := newSource("add")
	p, err := search.New(from, &search.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	session := connect(t, mounted(t, p, "", nil), nil)
	if got := foundNames(t, session, ""); got != "add" { // the server has started
		t.Errorf("found is %q", got)
	}
	tools := append(from.tools(`{"name":"add","description":"the first","inputSchema":{}}`, `{"name":"add","description":"another","inputSchema":{}}`, `{"name":"odd","inputSchema":7}`),
		from.entry(mcp.KindTool, "bad", `{"name":`))
	from.show(tools...)
	for query, want := range map[string]string{"first": "add", "another": "", "bad": "", "odd": "odd", "": "add odd"} {
		if got := foundNames(t, session, query); got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	if !strings.Contains(log.String(), "bad") {
		t.Errorf("the log is %s", &log)
	}
}

// TestTooManyTools: tools beyond MaxTools are logged, and can be called.
func TestTooManyTools(t *testing.T) {
	var names []string
	for i := range maxTools + 5 {
		names = append(names, fmt.Sprintf("tool_%d", i))
	}
	var log bytes.Buffer
	p, err := search.New(newSource(names...), &search.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	session := connectBy(t, transport.Pipe(mounted(t, p, "", nil)), nil)
	for i, want := range map[int]bool{0: true, maxTools - 1: true, maxTools: false} {
		name := fmt.Sprintf("tool_%d", i)
		if got, _, _ := strings.Cut(foundNames(t, session, name), " "); (got == name) != want {
			t.Errorf("%s: found is %q", name, got)
		}
		if _, err := callInner(t, session, name, "{}"); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(log.String(), "tools=5") {
		t.Errorf("the log is %s", &log)
	}
}

// TestAServerWithManyToolsHidesNone: each server has a share of the tools that can be found.
func TestAServerWithManyToolsHidesNone(t *testing.T) {
	s := &source{}
	var entries []*server.Entry
	for _, of := range []struct {
		server string
		tools  int
	}{{"large", maxTools}, {"small", 3}, {"medium", maxTools / 2}} {
		for i := range of.tools {
			e := s.tools(fmt.Sprintf("%s_%d", of.server, i))[0]
			e.Origin.Server = of.server
			entries = append(entries, e)
		}
	}
	s.show(entries...)
	session := connectBy(t, transport.Pipe(newServer(t, s)), nil)
	for name, want := range map[string]bool{
		"small_2": true, "large_0": true, "medium_4997": true, "medium_4999": false, "large_4998": true, "large_5000": false,
	} {
		if got, _, _ := strings.Cut(foundNames(t, session, name), " "); (got == name) != want {
			t.Errorf("%s: found is %q", name, got)
		}
	}
}

// TestDescription: Options.Description is added to the description of SearchTool.
func TestDescription(t *testing.T) {
	p, err := search.New(newSource(), &search.Options{Description: "GitHub, and the wiki."})
	if err != nil {
		t.Fatal(err)
	}
	for tool, err := range connect(t, mounted(t, p, "", nil), nil).Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.HasSuffix(tool.Description, "\n\nGitHub, and the wiki."); has != (tool.Name == search.SearchTool) {
			t.Errorf("%s is described by %q", tool.Name, tool.Description)
		}
	}
}

// TestConcurrentUse searches, calls and changes tools, for the race detector.
func TestConcurrentUse(t *testing.T) {
	from := newSource("steady")
	s := newServer(t, from)
	var work sync.WaitGroup
	work.Go(func() {
		for i := range 200 {
			from.show(from.tools(fmt.Sprint("other_", i), "steady")...)
		}
	})
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := connectBy(t, transport.Pipe(s), &client.Options{Era: era})
		work.Go(func() {
			for range 100 {
				if got := foundNames(t, session, "steady"); got != "steady" {
					t.Errorf("found is %q", got)
				}
				if _, err := callInner(t, session, "steady", "{}"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
}

// TestScopes: CallTool needs the scopes of all tools.
func TestScopes(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "s"}, nil)
	for _, name := range []string{"write", "read"} {
		server.AddTool(s, server.Tool{Name: name, Scopes: []string{"use", name}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	}
	server.AddResource(s, server.Resource{URI: "app:r", Scopes: []string{"see"}}, func(context.Context, *server.Request) (string, error) { return "", nil })
	p, err := search.New(s.Provider(), nil)
	if err != nil {
		t.Fatal(err)
	}
	outer := server.New(mcp.Implementation{Name: "outer"}, nil)
	if err := outer.Mount(p, nil); err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct {
		method, name string
		want         []string
	}{
		{mcp.MethodToolsCall, search.CallTool, []string{"read", "use", "write"}},
		{mcp.MethodToolsCall, search.SearchTool, nil},
		{mcp.MethodResourcesRead, "app:r", []string{"see"}},
	} {
		if diff := cmp.Diff(call.want, outer.Scopes(call.method, call.name)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", call.method, call.name, diff)
		}
	}
}
