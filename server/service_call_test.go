package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A stock is a dependency that is an interface, a tariff one that is a plain value.
type (
	stock  interface{ Count() int }
	shelf7 struct{}
	tariff struct{ Cents int }
)

func (shelf7) Count() int { return 7 }

func depend[T any](value T) server.Dependency {
	return server.Provide(func(context.Context) (T, func(context.Context) error, error) { return value, nil, nil })
}

// counter takes dependencies in methods of all kinds.
type counter struct{}

type (
	countToolIn   struct{ _ server.ToolTag }
	countPromptIn struct {
		_    server.PromptTag `name:"count"`
		What string           `json:"what,omitempty"`
	}
	countFixedIn struct {
		_ server.ResourceTag `uri:"count:all"`
	}
	countTemplateIn struct {
		_    server.ResourceTag `uri:"count:one/{what}"`
		What string             `json:"what"`
	}
	countCompletionIn struct {
		_     server.CompletionTag `prompt:"count" argument:"what"`
		Value string
	}
)

func counted(s stock, t tariff, db *shelfDB) string {
	count := -1
	if s != nil {
		count = s.Count()
	}
	return fmt.Sprint(count, " at ", t.Cents, ", shelf ", db != nil)
}

func (counter) Tool(_ context.Context, s stock, t tariff, db *shelfDB, _ countToolIn) (string, error) {
	return counted(s, t, db), nil
}

func (counter) Prompt(_ context.Context, _ countPromptIn, db *shelfDB, t tariff, s stock) (string, error) {
	return counted(s, t, db), nil
}

func (counter) Fixed(_ context.Context, t tariff, _ countFixedIn, s stock, db *shelfDB) (string, error) {
	return counted(s, t, db), nil
}

func (counter) Template(_ context.Context, s stock, _ countTemplateIn, t tariff, db *shelfDB) (string, error) {
	return counted(s, t, db), nil
}

func (counter) Completion(_ context.Context, db *shelfDB, s stock, t tariff, _ countCompletionIn) ([]string, error) {
	return []string{counted(s, t, db)}, nil
}

var counterCalls = []struct{ method, params string }{
	{mcp.MethodToolsCall, `{"name":"tool"}`},
	{mcp.MethodPromptsGet, `{"name":"count"}`},
	{mcp.MethodResourcesRead, `{"uri":"count:all"}`},
	{mcp.MethodResourcesRead, `{"uri":"count:one/x"}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"count"},"argument":{"name":"what","value":""}}`},
}

// TestServiceDependencies: methods of all kinds get them, by their exact types; a nil
// one is nil.
func TestServiceDependencies(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, test := range []struct {
			lifespan []server.Dependency
			want     string
		}{
			{[]server.Dependency{depend[stock](shelf7{}), depend(tariff{3}), depend(&shelfDB{})}, "7 at 3, shelf true"},
			{[]server.Dependency{depend[stock](nil), depend(tariff{}), depend[*shelfDB](nil)}, "-1 at 0, shelf false"},
		} {
			s := newServer(&server.Options{Dependencies: test.lifespan})
			server.AddService(s, counter{})
			session := connect(t, s, era)
			for _, c := range counterCalls {
				if got, err := raw(t, session, c.method, c.params); err != nil || !strings.Contains(got, `"`+test.want+`"`) {
					t.Errorf("%s %s gives %s, %v, want %s", c.method, c.params, got, err, test.want)
				}
			}
		}
	})
}

// A value that would do is not one of that type.
func TestServiceDependenciesAreExact(t *testing.T) {
	for _, test := range []struct {
		lifespan []server.Dependency
		says     string
	}{
		{[]server.Dependency{depend(shelf7{}), depend(tariff{}), depend(&shelfDB{})}, "takes a server_test.stock"},
		{[]server.Dependency{depend[stock](shelf7{}), depend(&tariff{}), depend(&shelfDB{})}, "takes a server_test.tariff"},
		{[]server.Dependency{depend[stock](shelf7{}), depend(tariff{}), depend(shelfDB{})}, "takes a *server_test.shelfDB"},
		{nil, "it provides nothing"},
		{[]server.Dependency{depend(shelf7{}), depend(1)}, "it provides server_test.shelf7, int"},
	} {
		s := newServer(&server.Options{Dependencies: test.lifespan})
		entries, err := server.Service(counter{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(entries...); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("the error is %v, want it to say %s", err, test.says)
		}
		if got := panicOf(func() { server.AddService(s, counter{}) }); !strings.Contains(got, test.says) {
			t.Errorf("the panic is %s, want it to say %s", got, test.says)
		}
	}
}

// A mounted service sees what its own server depends on.
func TestServiceDependenciesThroughMounts(t *testing.T) {
	child := newServer(&server.Options{Dependencies: []server.Dependency{depend[stock](shelf7{}), depend(tariff{3}), depend(&shelfDB{})}})
	server.AddService(child, counter{})
	s := newServer(&server.Options{Dependencies: []server.Dependency{depend(tariff{99})}})
	shutsDown(t, s)
	if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "child_"}); err != nil {
		t.Fatal(err)
	}
	if got := texts(call(t, connect(t, s, client.Legacy), "child_tool", `{}`)); got != "7 at 3, shelf true" {
		t.Errorf("the tool says %s", got)
	}
}

// placed takes what is injected at all places.
type placed struct{}

type placedIn struct {
	_ server.ToolTag
	N int `json:"n"`
}

func (placed) First(r *server.Request, ctx context.Context, in placedIn) (string, error) { //nolint:revive // the order is what is tested
	return place(ctx, r, in)
}

func (placed) Second(ctx context.Context, r *server.Request, in placedIn) (string, error) {
	return place(ctx, r, in)
}

func (placed) Third(in placedIn, ctx context.Context, r *server.Request) (string, error) { //nolint:revive // see First
	return place(ctx, r, in)
}

func (placed) Last(in placedIn, r *server.Request, _ *shelfDB, ctx context.Context) (string, error) { //nolint:revive // see First
	return place(ctx, r, in)
}

func (placed) None(ctx context.Context, in placedIn) (string, error) {
	return place(ctx, nil, in)
}

// Many takes more than fits on the stack of a call.
func (placed) Many(ctx context.Context, _ int8, _ int16, _ int32, _ int64, _ uint8, _ uint16, _ uint32, r *server.Request, in placedIn) (string, error) {
	return place(ctx, r, in)
}

func place(ctx context.Context, r *server.Request, in placedIn) (string, error) {
	if r == nil {
		return fmt.Sprint(ctx != nil, " ", in.N), nil
	}
	return fmt.Sprint(ctx != nil, " ", in.N, " ", r.Call().Target().Name), r.Progress(ctx, float64(in.N), 0, "")
}

// TestServiceRequest: the request is injected wherever a method wants it, and is that
// of the call.
func TestServiceRequest(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Dependencies: []server.Dependency{
			shelf(), depend(int8(0)), depend(int16(0)), depend(int32(0)), depend(int64(0)), depend(uint8(0)), depend(uint16(0)), depend(uint32(0)),
		}})
		server.AddService(s, placed{})
		session := connect(t, s, era)
		for i, name := range []string{"first", "second", "third", "last", "many"} {
			var told []float64
			result, err := session.CallTool(t.Context(), name, map[string]int{"n": i + 1}, &client.CallOptions{
				Progress: func(p *mcp.ProgressParams) { told = append(told, p.Progress) },
			})
			if err != nil || texts(result) != fmt.Sprint("true ", i+1, " ", name) || !slices.Equal(told, []float64{float64(i + 1)}) {
				t.Errorf("%s gives %v, %v, and progress %v", name, result, err, told)
			}
		}
		if got := texts(call(t, session, "none", `{"n":9}`)); got != "true 9" {
			t.Errorf("none says %q", got)
		}
	})
}

// asking is a service whose method asks its caller.
type asking struct{ runs int }

func (a *asking) Order(_ context.Context, r *server.Request, _ pingIn) (string, error) {
	a.runs++
	answer, err := server.Elicit[sure](r, "sure", "Sure?")
	return fmt.Sprint(answer.Sure), err
}

// A method that asks runs again with the answer, as a function does.
func TestServiceAsks(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		service := &asking{}
		s := newServer(nil)
		server.AddService(s, service)
		session := connectWith(t, s, accepting(era))
		if got := texts(call(t, session, "order", `{}`)); got != "true" || service.runs != 2 {
			t.Errorf("the method says %q after %d runs", got, service.runs)
		}
	})
}

// results has a method for each kind of result.
type results struct{}

type (
	textIn    struct{ _ server.ToolTag }
	nothingIn struct{ _ server.ToolTag }
	structIn  struct {
		_ server.ToolTag `title:"A struct" readOnly:"true" tags:"x"`
	}
	numberIn   struct{ _ server.ToolTag }
	anythingIn struct{ _ server.ToolTag }
	contentIn  struct{ _ server.ToolTag }
	resultIn   struct{ _ server.ToolTag }
	nilIn      struct{ _ server.ToolTag }
	abstractIn struct{ _ server.ToolTag }
)

func (results) Text(context.Context, textIn) (string, error)            { return "text", nil }
func (results) Nothing(context.Context, nothingIn) error                { return nil }
func (results) Struct(context.Context, structIn) (point, error)         { return point{1, 2}, nil }
func (results) Number(context.Context, numberIn) (int, error)           { return 7, nil }
func (results) Anything(context.Context, anythingIn) (any, error)       { return point{1, 2}, nil }
func (results) Content(context.Context, contentIn) (mcp.Content, error) { return mcp.Text("c"), nil }
func (results) Nil(context.Context, nilIn) (*mcp.CallToolResult, error) { return nil, nil }

// Abstract gives content as a value, since its type does not say that it is content.
func (results) Abstract(context.Context, abstractIn) (interface{ AppendJSON([]byte) ([]byte, error) }, error) {
	return mcp.Text("c"), nil
}

func (results) Result(context.Context, resultIn) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("own")}, IsError: true}, nil
}

// TestServiceResults: what a method returns is what a function with that result gives.
func TestServiceResults(t *testing.T) {
	s := newServer(nil)
	server.AddService(s, results{})
	modern, legacy := connect(t, s, client.Modern), connect(t, s, client.Legacy)
	for _, test := range []struct{ tool, text, modern, legacy string }{
		{"text", "text", "", ""},
		{"nothing", "", "", ""},
		{"struct", `{"x":1,"y":2}`, `{"x":1,"y":2}`, `{"x":1,"y":2}`},
		{"number", "7", "7", ""},
		{"anything", `{"x":1,"y":2}`, `{"x":1,"y":2}`, `{"x":1,"y":2}`},
		{"content", "c", "", ""},
		{"nil", "", "", ""},
		{"abstract", `{"type":"text","text":"c"}`, `{"type":"text","text":"c"}`, `{"type":"text","text":"c"}`},
		{"result", "own", "", ""},
	} {
		for session, structured := range map[*client.Session]string{modern: test.modern, legacy: test.legacy} {
			got := call(t, session, test.tool, `{}`)
			if texts(got) != test.text || string(got.StructuredContent) != structured || got.IsError != (test.tool == "result") {
				t.Errorf("%s gives %s: %q and %s, want %q and %s", test.tool, session.Version(), texts(got), got.StructuredContent, test.text, structured)
			}
		}
	}
}

// TestServiceOutputSchema: a version has the schemas, hints and tags of methods that it
// has words for.
func TestServiceOutputSchema(t *testing.T) {
	s := newServer(nil)
	server.AddService(s, results{})
	const object = `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}`
	for _, test := range []struct {
		version                              mcp.Version
		ofStruct, ofNumber                   string
		hasTitle, hasAnnotations, hasTagsToo bool
	}{
		{mcp.Version20241105, "", "", false, false, false},
		{mcp.Version20250326, "", "", false, true, false},
		{mcp.Version20250618, object, "", true, true, true},
		{mcp.Version20251125, object, "", true, true, true},
		{mcp.Version20260728, object, `{"type":"integer"}`, true, true, true},
	} {
		tools := listedFor(t, s, test.version)
		for name, want := range map[string]string{"struct": test.ofStruct, "number": test.ofNumber, "text": "", "nothing": "", "anything": "", "content": "", "result": ""} {
			if got := tools[name]["outputSchema"]; string(got) != want {
				t.Errorf("%s: the output of %s has the schema %s, want %s", test.version, name, got, want)
			}
		}
		of := tools["struct"]
		if got := of["title"] != nil; got != test.hasTitle {
			t.Errorf("%s: there is a title: %t", test.version, got)
		}
		if got := of["annotations"] != nil; got != test.hasAnnotations {
			t.Errorf("%s: there are annotations: %t", test.version, got)
		}
		if got := of["_meta"] != nil; got != test.hasTagsToo {
			t.Errorf("%s: there is _meta: %t", test.version, got)
		}
	}
}

// listedFor are the tools that a client of the version is told of.
func listedFor(t *testing.T, s *server.Server, version mcp.Version) map[string]map[string]json.RawMessage {
	t.Helper()
	handler := s.Bind(transport.Link{Peer: nobody{}, Input: t.Context(), Go: func(func(context.Context)) {}})
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	lines := []string{strings.Replace(initialize, "2025-11-25", string(version), 1), list}
	if version == mcp.Version20260728 {
		lines = []string{strings.Replace(list, `"tools/list"`, `"tools/list","params":{`+strings.TrimPrefix(modernMeta, ",")+`}`, 1)}
	}
	var answer []byte
	for _, line := range lines {
		request, err := jsonrpc.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		var reply jsonrpc.Reply
		if err := handler.Handle(t.Context(), nobody{}, request.(*jsonrpc.Request), &reply); err != nil {
			t.Fatal(err)
		}
		answer = reply.Buf
	}
	var listed struct {
		Tools  []map[string]json.RawMessage
		Result json.RawMessage
	}
	if err := json.Unmarshal(answer, &listed); err == nil && listed.Result != nil {
		answer = listed.Result
	}
	if err := json.Unmarshal(answer, &listed); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	tools := map[string]map[string]json.RawMessage{}
	for _, tool := range listed.Tools {
		tools[jsonscan.Unquote(tool["name"])] = tool
	}
	return tools
}
