package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func newPaged(tools, size int) *server.Server {
	s := newServer(&server.Options{PageSize: size})
	for i := range tools {
		returns(s, fmt.Sprintf("tool%02d", i), "")
	}
	return s
}

// page returns one page of tools.
func page(t testing.TB, session *client.Session, cursor string) (names []string, next string) {
	t.Helper()
	params := `{}`
	if cursor != "" {
		params = `{"cursor":"` + cursor + `"}`
	}
	result, err := raw(t, session, mcp.MethodToolsList, params)
	if err != nil {
		t.Fatal(err)
	}
	var list mcp.ListToolsResult
	if err := list.UnmarshalJSON([]byte(result)); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if list.NextCursor != nil {
		next = *list.NextCursor
	}
	return names, next
}

func TestPages(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		if got, next := page(t, connect(t, newPaged(2, 1), era), ""); len(got) != 1 || next == "" {
			t.Errorf("the first page of one tool has %q, then %q", got, next)
		}
		for tools := range 8 {
			session := connect(t, newPaged(tools, 3), era)
			if got := len(toolNames(t, session)); got != tools {
				t.Errorf("of %d tools %d are listed", tools, got)
			}
			names, next := page(t, session, "")
			if len(names) != min(tools, 3) || (next == "") != (tools <= 3) {
				t.Errorf("the first page of %d tools is %q, %q", tools, names, next)
			}
		}
	})
}

// TestPagesOfCaller checks the pages of a caller who does not see all entries, which the cursor of a hidden one must not
// reveal.
func TestPagesOfCaller(t *testing.T) {
	hidden := mcp.Guard{Name: "hidden", Visible: func(_ context.Context, _ *mcp.Caller, target *mcp.Target) bool {
		return strings.ContainsAny(target.Name[len("tool0"):], "1348")
	}}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{PageSize: 2, Guards: []mcp.Guard{hidden}})
		for i := range 9 {
			returns(s, fmt.Sprintf("tool%02d", i), "")
		}
		session := connect(t, s, era)
		first, next := page(t, session, "")
		second, end := page(t, session, next)
		if got, want := append(first, second...), []string{"tool01", "tool03", "tool04", "tool08"}; !slices.Equal(got, want) || len(first) != 2 || end != "" {
			t.Errorf("the pages have %q, %d of them on the first, then %q; want %q", got, len(first), end, want)
		}
		for _, name := range []string{"tool02", "tool99"} {
			_, err := raw(t, session, mcp.MethodToolsList, `{"cursor":"`+base64.RawURLEncoding.EncodeToString([]byte(name))+`"}`)
			wantCode(t, err, jsonrpc.InvalidParams)
		}
	})
}

// TestStableCursor checks that a cursor stays valid when the list changes elsewhere.
func TestStableCursor(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newPaged(9, 3)
		session := connect(t, s, era)
		_, next := page(t, session, "")
		s.Remove(mcp.KindTool, "tool00", "tool04")
		returns(s, "tool99", "")
		names, next := page(t, session, next)
		if want := []string{"tool03", "tool05", "tool06"}; !slices.Equal(names, want) {
			t.Errorf("the second page is %q, want %q", names, want)
		}
		names, next = page(t, session, next)
		if want := []string{"tool07", "tool08", "tool99"}; !slices.Equal(names, want) || next != "" {
			t.Errorf("the last page is %q, want %q", names, want)
		}
	})
}

func TestInvalidCursor(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newPaged(9, 3)
		session := connect(t, s, era)
		_, stale := page(t, session, "")
		s.Remove(mcp.KindTool, "tool02")
		cursors := []string{`"nonsense"`, `7`, `{}`, `"` + stale + `"`, `"` + strings.Repeat("A", 1<<16) + `"`}
		for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
			for _, cursor := range cursors {
				_, err := raw(t, session, method, `{"cursor":`+cursor+`}`)
				if wantCode(t, err, jsonrpc.InvalidParams); t.Failed() {
					t.Fatalf("%s with %.40s", method, cursor)
				}
			}
		}
		// A server without pages has no cursors either.
		_, err := raw(t, connect(t, newPaged(2, 0), era), mcp.MethodToolsList, `{"cursor":"x"}`)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

// TestEmptyCursor checks that an empty cursor, or null, requests the first page.
func TestEmptyCursor(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newPaged(9, 3), era)
		want, err := raw(t, session, mcp.MethodToolsList, `{}`)
		if err != nil {
			t.Fatal(err)
		}
		for _, cursor := range []string{`""`, `null`} {
			got, err := raw(t, session, mcp.MethodToolsList, `{"cursor":`+cursor+`}`)
			if err != nil || got != want {
				t.Errorf("cursor %s: %s, %v; want %s", cursor, got, err, want)
			}
		}
	})
}

// TestNullArguments checks that null means no arguments for a prompt.
func TestNullArguments(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddPrompt(s, server.Prompt{Name: "hello"}, func(context.Context, *server.Request, struct{}) (string, error) { return "hi", nil })
		got, err := raw(t, connect(t, s, era), mcp.MethodPromptsGet, `{"name":"hello","arguments":null}`)
		if err != nil || !strings.Contains(got, `"hi"`) {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// TestListBytes checks that lists have schemas and metadata unchanged, by name or in the order of
// registration.
func TestListBytes(t *testing.T) {
	const schema = `{"type":"object", "$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"b":{"type":"integer","default":1.0},"a":{}},"x-own":"\u00e9"}`
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, registration := range []bool{false, true} {
			s := newServer(&server.Options{RegistrationOrder: registration})
			returns(s, "z", "")
			server.AddRawTool(s, server.Tool{Name: "a", InputSchema: jsonRaw(schema), Meta: mcp.Meta(`{"b":1.0,"a":2}`)}, nil)
			session := connect(t, s, era)
			got, err := raw(t, session, mcp.MethodToolsList, `{}`)
			if err != nil || !strings.Contains(got, `"inputSchema":`+schema) || !strings.Contains(got, `"_meta":{"b":1.0,"a":2}`) {
				t.Errorf("the list is %s, %v", got, err)
			}
			if asRegistered := strings.Index(got, `"name":"z"`) < strings.Index(got, `"name":"a"`); asRegistered != registration {
				t.Errorf("with RegistrationOrder %t the list is %s", registration, got)
			}
		}
	})
}

func addRaw(s *server.Server, name, schema string) {
	server.AddRawTool(s, server.Tool{Name: name, Title: "inputSchema", InputSchema: json.RawMessage(schema), Meta: mcp.Meta(`{"inputSchema":{}}`)}, nil)
}

// TestInputSchema checks that the schema is the listed one.
func TestInputSchema(t *testing.T) {
	const given = `{"type":"object", "properties":{"inputSchema":{"type":"string","x-mcp-header":"Region"}}}`
	s := newServer(&server.Options{PageSize: 1})
	if got := s.InputSchema(t.Context(), "raw"); got != nil {
		t.Errorf("a server without tools has %s", got)
	}
	addRaw(s, "raw", given)
	server.AddTool(s, server.Tool{Name: "typed"}, nothing[struct {
		Region string `json:"region" jsonschema_extras:"x-mcp-header=Region"`
	}])
	server.AddPrompt(s, server.Prompt{Name: "prompt"}, nothing[struct{}])
	if got := string(s.InputSchema(t.Context(), "raw")); got != given {
		t.Errorf("the schema is %s, want %s", got, given)
	}
	for _, name := range []string{"", "Raw", "prompt", "inputSchema"} {
		if got := s.InputSchema(t.Context(), name); got != nil {
			t.Errorf("%q has %s", name, got)
		}
	}
	session := connect(t, s, client.Modern)
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if got := s.InputSchema(t.Context(), tool.Name); string(got) != string(tool.InputSchema) {
			t.Errorf("%s is listed with %s, but has %s", tool.Name, tool.InputSchema, got)
		}
	}

	const other = `{"type":"object","properties":{}}`
	entry, err := server.NewRawTool(server.Tool{Name: "raw", InputSchema: json.RawMessage(other)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(entry); err != nil {
		t.Fatal(err)
	}
	if got := string(s.InputSchema(t.Context(), "raw")); got != other {
		t.Errorf("after a change the schema is %s, want %s", got, other)
	}
	s.Remove(mcp.KindTool, "raw")
	if got := s.InputSchema(t.Context(), "raw"); got != nil {
		t.Errorf("a tool that is gone has %s", got)
	}
}

// TestInputSchemaUnderChanges checks that a concurrent reader gets one of the schemas.
func TestInputSchemaUnderChanges(t *testing.T) {
	s := newServer(nil)
	schemas := []string{`{"type":"object","title":"a"}`, `{"type":"object","title":"b"}`}
	addRaw(s, "raw", schemas[0])
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if got := string(s.InputSchema(t.Context(), "raw")); got != schemas[0] && got != schemas[1] {
					t.Errorf("the schema is %s", got)
					return
				}
			}
		})
	}
	for i := range 200 {
		entry, err := server.NewRawTool(server.Tool{Name: "raw", InputSchema: json.RawMessage(schemas[i%2])}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(entry); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// TestInputSchemaBudget checks that the look-up does not allocate.
func TestInputSchemaBudget(t *testing.T) {
	racetest.Skip(t)
	s := newPaged(500, 0)
	n := testing.AllocsPerRun(100, func() {
		if s.InputSchema(t.Context(), "tool00") == nil || s.InputSchema(t.Context(), "none") != nil {
			t.Fatal("InputSchema does not return the schemas of the tools")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A transport compares request headers with the arguments that the schema
// annotates.
func ExampleServer_InputSchema() {
	s := server.New(mcp.Implementation{Name: "database", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "query"}, func(ctx context.Context, r *server.Request, in struct {
		Region string `json:"region" jsonschema_extras:"x-mcp-header=Region"`
	}) (string, error) {
		return "from " + in.Region, nil
	})
	var schema struct{ Properties map[string]any }
	if err := json.Unmarshal(s.InputSchema(context.Background(), "query"), &schema); err != nil {
		fmt.Println(err)
	}
	fmt.Println(schema.Properties["region"])
	fmt.Println(s.InputSchema(context.Background(), "drop") == nil)
	// Output:
	// map[type:string x-mcp-header:Region]
	// true
}

type scopedNotes struct{}

type scopedToolIn struct {
	_ server.ToolTag `name:"write" scopes:"notes:write, notes:read"`
}

func (scopedNotes) Write(context.Context, scopedToolIn) (string, error) { return "", nil }

type scopedPromptIn struct {
	_     server.PromptTag `name:"draft" scopes:"notes:read"`
	Title string           `json:"title"`
}

func (scopedNotes) Draft(context.Context, scopedPromptIn) (string, error) { return "", nil }

type scopedValuesIn struct {
	_     server.CompletionTag `prompt:"draft" argument:"title"`
	Value string
}

func (scopedNotes) Titles(context.Context, scopedValuesIn) ([]string, error) { return nil, nil }

// What a call needs is what the thing that it reaches declares, wherever that is.
func TestScopes(t *testing.T) {
	reads := func(s *server.Server, r server.Resource) {
		server.AddResource(s, r, func(context.Context, *server.Request) (string, error) { return "", nil })
	}
	s, child, grandchild := newServer(nil), newServer(&server.Options{Scopes: []string{"child"}}), newServer(nil)
	server.AddService(s, scopedNotes{})
	returns(s, "open", "")
	reads(s, server.Resource{URI: "app:own", Scopes: []string{"own"}})
	server.AddTemplate(s, server.Template{URITemplate: "app:all/{+path}", Scopes: []string{"all"}}, func(context.Context, *server.Request, struct {
		Path string `json:"path"`
	}) (string, error) {
		return "", nil
	})
	returns(child, "plain", "")
	server.AddTool(child, server.Tool{Name: "own", Scopes: []string{"nearer"}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	server.AddService(grandchild, scopedNotes{})
	reads(grandchild, server.Resource{URI: "app:deep", Scopes: []string{"deep"}})
	mount(t, child, grandchild, "g.")
	mounted := newServer(nil)
	mount(t, mounted, s, "")
	mount(t, mounted, child, "c.")
	for _, test := range []struct {
		server       *server.Server
		method, name string
		want         []string
	}{
		{s, mcp.MethodToolsCall, "write", []string{"notes:write", "notes:read"}},
		{s, mcp.MethodToolsCall, "open", nil},
		{s, mcp.MethodToolsCall, "draft", nil},
		{s, mcp.MethodToolsCall, "unknown", nil},
		{s, mcp.MethodPromptsGet, "draft", []string{"notes:read"}},
		{s, mcp.MethodPromptsGet, "write", nil},
		{s, mcp.MethodComplete, "draft", []string{"notes:read"}},
		{s, mcp.MethodComplete, "app:all/{+path}", []string{"all"}},
		{s, mcp.MethodResourcesRead, "app:own", []string{"own"}},
		{s, mcp.MethodResourcesRead, "app:all/x/y", []string{"all"}},
		{s, mcp.MethodResourcesSubscribe, "app:all/x", []string{"all"}},
		{s, mcp.MethodResourcesUnsubscribe, "app:own", []string{"own"}},
		{s, mcp.MethodResourcesRead, "app:unknown", nil},
		{s, mcp.MethodToolsList, "write", nil},
		{s, mcp.MethodSubscriptionsListen, "", nil},
		{child, mcp.MethodToolsCall, "plain", []string{"child"}},
		{child, mcp.MethodToolsCall, "own", []string{"child", "nearer"}},
		{child, mcp.MethodToolsCall, "g.write", []string{"child", "notes:write", "notes:read"}},
		{mounted, mcp.MethodToolsCall, "write", []string{"notes:write", "notes:read"}},
		{mounted, mcp.MethodToolsCall, "c.own", []string{"child", "nearer"}},
		{mounted, mcp.MethodToolsCall, "c.plain", []string{"child"}},
		{mounted, mcp.MethodToolsCall, "c.g.write", []string{"child", "notes:write", "notes:read"}},
		{mounted, mcp.MethodToolsCall, "own", nil},
		{mounted, mcp.MethodPromptsGet, "c.g.draft", []string{"child", "notes:read"}},
		{mounted, mcp.MethodComplete, "c.g.draft", []string{"child", "notes:read"}},
		{mounted, mcp.MethodComplete, "draft", []string{"notes:read"}},
		{mounted, mcp.MethodResourcesRead, "app:deep", []string{"child", "deep"}},
		{mounted, mcp.MethodResourcesRead, "app:own", []string{"own"}},
		{mounted, mcp.MethodResourcesRead, "app:all/x", []string{"all"}},
	} {
		if diff := cmp.Diff(test.want, test.server.Scopes(test.method, test.name)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.method, test.name, diff)
		}
	}
}

// What is mounted as a provider needs what it needs by itself, behind any number of
// servers; a provider that knows no scopes leaves the scopes of the servers.
func TestScopesOfProviders(t *testing.T) {
	notes := newServer(nil)
	server.AddService(notes, scopedNotes{})
	reads := func(context.Context, *server.Request) (string, error) { return "", nil }
	server.AddResource(notes, server.Resource{URI: "app:own", Scopes: []string{"own"}}, reads)
	middle, outer := newServer(&server.Options{Scopes: []string{"middle"}}), newServer(nil)
	for _, mounted := range []struct {
		on     *server.Server
		p      server.Provider
		prefix string
	}{{middle, notes.Provider(), "n."}, {middle, newTestProvider("apples"), ""}, {outer, middle.Provider(), "m."}} {
		if err := mounted.on.Mount(mounted.p, &server.MountOptions{Prefix: mounted.prefix}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		method, name string
		want         []string
	}{
		{mcp.MethodToolsCall, "m.n.write", []string{"middle", "notes:write", "notes:read"}},
		{mcp.MethodToolsCall, "m.apples", []string{"middle"}},
		{mcp.MethodToolsCall, "write", nil},
		{mcp.MethodPromptsGet, "m.n.draft", []string{"middle", "notes:read"}},
		{mcp.MethodComplete, "m.n.draft", []string{"middle", "notes:read"}},
		{mcp.MethodResourcesRead, "app:own", []string{"middle", "own"}},
		{mcp.MethodResourcesSubscribe, "app:own", []string{"middle", "own"}},
	} {
		if diff := cmp.Diff(test.want, outer.Scopes(test.method, test.name)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.method, test.name, diff)
		}
	}
}

// Guards see all the scopes, in the order from the server to the entry.
func TestScopesAddUp(t *testing.T) {
	var seen []string
	around := withGuard(mcp.Guard{Name: "sees", Check: func(_ context.Context, call *mcp.Call) error {
		seen = call.Target().Scopes
		return nil
	}})
	around.Scopes = []string{"server", "shared"}
	s, child := newServer(around.options()), newServer(&server.Options{Scopes: []string{"child"}})
	server.AddTool(child, server.Tool{Name: "t", Scopes: []string{"shared", "tool"}}, nothing[struct{}])
	shutDownAtEnd(t, s)
	if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "c.", Scopes: []string{"mount"}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"server", "shared", "mount", "child", "tool"}
	call(t, connect(t, s, client.Modern), "c.t", `{}`)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("a guard sees (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, s.Scopes(mcp.MethodToolsCall, "c.t")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Tags are in _meta, and where the author wants it also where lauren-mcp has them.
func TestTopLevelTags(t *testing.T) {
	var tagged mcp.Meta
	if err := tagged.Set(mcp.MetaTags, jsonRaw(`["search","basic","search"]`)); err != nil {
		t.Fatal(err)
	}
	for topLevel, want := range map[bool]string{
		false: `"additionalProperties":false},"_meta":{"io.github.dovetail-go/tags":["search","basic","search"]}}`,
		true:  `"_meta":{"io.github.dovetail-go/tags":["search","basic","search"]},"tags":["basic","search"]}`,
	} {
		s := newServer(&server.Options{TopLevelTags: topLevel})
		server.AddTool(s, server.Tool{Name: "a", Meta: tagged}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		server.AddTool(s, server.Tool{Name: "b"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		eachEra(t, func(t *testing.T, era client.Era) {
			got, err := raw(t, connect(t, s, era), mcp.MethodToolsList, "{}")
			if err != nil || !strings.Contains(got, want) || strings.Count(got, `"tags"`) != strings.Count(want, `"tags"`) {
				t.Errorf("top level %t: %s, %v, want %s", topLevel, got, err, want)
			}
		})
		if got := s.Catalog().Lookup(mcp.KindTool, "a").Definition.Tags(); strings.Join(got, " ") != "basic search" {
			t.Errorf("top level %t: the tags are %q", topLevel, got)
		}
	}
	listed := mcp.NewDefinition(jsonRaw(`{"name":"a","tags":["x","y"],"_meta":{"fastmcp":{"tags":["y","z"]}}}`))
	if got := listed.Tags(); strings.Join(got, " ") != "x y z" {
		t.Errorf("the tags of a definition are %q", got)
	}
}
