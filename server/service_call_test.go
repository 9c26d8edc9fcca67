package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

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
	shutDownAtEnd(t, s)
	if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "child_"}); err != nil {
		t.Fatal(err)
	}
	if got := textOf(call(t, connect(t, s, client.Legacy), "child_tool", `{}`)); got != "7 at 3, shelf true" {
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
			if err != nil || textOf(result) != fmt.Sprint("true ", i+1, " ", name) || !slices.Equal(told, []float64{float64(i + 1)}) {
				t.Errorf("%s gives %v, %v, and progress %v", name, result, err, told)
			}
		}
		if got := textOf(call(t, session, "none", `{"n":9}`)); got != "true 9" {
			t.Errorf("none says %q", got)
		}
	})
}

// asking is a service whose method asks its caller.
type asking struct{ runs int }

func (a *asking) Order(_ context.Context, r *server.Request, _ pingIn) (string, error) {
	a.runs++
	answer, err := server.Elicit[answersFor](r, "sure", "Sure?")
	return fmt.Sprint(answer.Sure), err
}

// A method that asks runs again with the answer, as a function does.
func TestServiceAsks(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		service := &asking{}
		s := newServer(nil)
		server.AddService(s, service)
		session := connectWith(t, s, accepting(era))
		if got := textOf(call(t, session, "order", `{}`)); got != "true" || service.runs != 2 {
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
func (results) Abstract(context.Context, abstractIn) (json.Marshaler, error) {
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
			if textOf(got) != test.text || string(got.StructuredContent) != structured || got.IsError != (test.tool == "result") {
				t.Errorf("%s gives %s: %q and %s, want %q and %s", test.tool, session.Version(), textOf(got), got.StructuredContent, test.text, structured)
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

// listedFor returns the tools that a client of the version gets.
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

// A library is a service with every tag of a method.
type library struct{}

type lendIn struct {
	_    server.ToolTag `name:"lend.book" title:"Lend" description:"Lends a book." readOnly:"false" destructive:"false" idempotent:"true" openWorld:"false" timeout:"5s" tags:" front ,, desk," scopes:"lend,read"`
	ISBN string         `json:"isbn"`
}

func (library) Lend(_ context.Context, in lendIn) (string, error) { return in.ISBN, nil }

type adviseIn struct {
	_     server.PromptTag `name:"advise" title:"Advise" description:"Advises a reader." tags:"front" scopes:"read"`
	Age   int              `json:"age" jsonschema_description:"in years"`
	Genre *string          `json:"genre"`
	Tags  []string         `json:"tags,omitempty"`
}

func (library) Advise(_ context.Context, in adviseIn) (*mcp.GetPromptResult, error) {
	genre := "any"
	if in.Genre != nil {
		genre = *in.Genre
	}
	text := fmt.Sprintf("%d %s %q", in.Age, genre, in.Tags)
	return &mcp.GetPromptResult{Description: "own", Messages: []mcp.PromptMessage{{Role: mcp.RoleAssistant, Content: mcp.Text(text)}}}, nil
}

type rulesIn struct {
	_ server.ResourceTag `uri:"library:rules" name:"rules" title:"Rules" description:"What is allowed." mimeType:"text/markdown" tags:"front" scopes:"read"`
}

func (library) Rules(context.Context, rulesIn) (string, error) { return "Be *quiet*.", nil }

type pageIn struct {
	_     server.ResourceTag `uri:"library:books/{isbn}/{+path}{?page,of*}" name:"page" title:"Page" description:"A page of a book." mimeType:"application/octet-stream" tags:"stack" scopes:"read"`
	ISBN  string             `json:"isbn"`
	Path  string             `json:"path"`
	Page  int                `json:"page,omitempty"`
	Parts []string           `json:"of,omitempty"`
}

func (library) Page(_ context.Context, in pageIn) ([]byte, error) {
	return fmt.Appendf(nil, "%s %s %d %q", in.ISBN, in.Path, in.Page, in.Parts), nil
}

type isbnIn struct {
	_      server.CompletionTag `template:"library:books/{isbn}/{+path}{?page,of*}" argument:"isbn"`
	Value  string
	Others map[string]string
}

func (library) ISBN(_ context.Context, in isbnIn) ([]string, error) {
	return []string{in.Value + "1", in.Others["path"]}, nil
}

type genreIn struct {
	_     server.CompletionTag `prompt:"advise" argument:"genre"`
	Value typedText
}

type typedText string

func (library) Genre(_ context.Context, in genreIn) ([]string, error) {
	if in.Value == "none" {
		return nil, nil
	}
	return slices.Repeat([]string{string(in.Value)}, 101), nil
}

// TestServiceTags: everything that a tag says reaches the client.
func TestServiceTags(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddService(s, library{})
		session := connect(t, s, era)
		for _, test := range []struct{ method, params, want string }{
			{mcp.MethodToolsList, `{}`, `{"name":"lend.book","title":"Lend","description":"Lends a book.",` +
				`"inputSchema":{"type":"object","properties":{"isbn":{"type":"string"}},"required":["isbn"],"additionalProperties":false},` +
				`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},` +
				`"_meta":{"io.github.dovetail-go/tags":["front","desk"]}}`},
			{mcp.MethodPromptsList, `{}`, `{"name":"advise","title":"Advise","description":"Advises a reader.",` +
				`"arguments":[{"name":"age","description":"in years","required":true},{"name":"genre"},{"name":"tags"}],` +
				`"_meta":{"io.github.dovetail-go/tags":["front"]}}`},
			{mcp.MethodResourcesList, `{}`, `{"uri":"library:rules","name":"rules","title":"Rules","description":"What is allowed.",` +
				`"mimeType":"text/markdown","_meta":{"io.github.dovetail-go/tags":["front"]}}`},
			{mcp.MethodResourceTemplatesList, `{}`, `{"uriTemplate":"library:books/{isbn}/{+path}{?page,of*}","name":"page","title":"Page",` +
				`"description":"A page of a book.","mimeType":"application/octet-stream","_meta":{"io.github.dovetail-go/tags":["stack"]}}`},
			{mcp.MethodToolsCall, `{"name":"lend.book","arguments":{"isbn":"x"}}`, `"text":"x"`},
			{mcp.MethodPromptsGet, `{"name":"advise","arguments":{"age":"7"}}`, `"text":"7 any []"`},
			{mcp.MethodPromptsGet, `{"name":"advise","arguments":{"age":"7","genre":"crime","tags":"a"}}`, `"text":"7 crime [\"a\"]"`},
			{mcp.MethodPromptsGet, `{"name":"advise","arguments":{"age":"7"}}`, `"description":"own"`},
			{mcp.MethodResourcesRead, `{"uri":"library:rules"}`, `"mimeType":"text/markdown","text":"Be *quiet*."`},
			{mcp.MethodResourcesRead, `{"uri":"library:books/12/a/b?of=x&of=y&page=3"}`, `"mimeType":"application/octet-stream","blob":"MTIgYS9iIDMgWyJ4IiAieSJd"`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"library:books/{isbn}/{+path}{?page,of*}"},"argument":{"name":"isbn","value":"9"},"context":{"arguments":{"path":"p"}}}`, `"values":["91","p"],"total":2`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"advise"},"argument":{"name":"genre","value":"c"}}`, `"total":101,"hasMore":true`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"advise"},"argument":{"name":"genre","value":"none"}}`, `"values":[],"total":0`},
		} {
			got, err := raw(t, session, test.method, test.params)
			if err != nil || !strings.Contains(got, test.want) {
				t.Errorf("%s %s gives %s, %v, want\n%s", test.method, test.params, got, err, test.want)
			}
		}
		for _, test := range []struct{ method, params, says string }{
			{mcp.MethodPromptsGet, `{"name":"advise"}`, `missing "age"`},
			{mcp.MethodPromptsGet, `{"name":"advise","arguments":{"age":"x"}}`, "integer"},
			{mcp.MethodPromptsGet, `{"name":"advise","arguments":{"age":7}}`, "must be a string"},
			{mcp.MethodPromptsGet, `{"name":"advise","arguments":{"age":"7","weight":"1"}}`, `unknown "weight"`},
			{mcp.MethodResourcesRead, `{"uri":"library:books/12/a?page=x"}`, `"page"`},
		} {
			_, err := raw(t, session, test.method, test.params)
			wantCode(t, err, jsonrpc.InvalidParams)
			if !strings.Contains(message(err), test.says) {
				t.Errorf("%s %s: the error is %v, want it to say %s", test.method, test.params, err, test.says)
			}
		}
	})
}

// watched is a service with a method for each kind of failure, and annotations for all methods.
type watched struct{ common server.Annotations }

func (w *watched) Annotations() server.Annotations { return w.common }

type (
	whichIn struct {
		Which string `json:"which"`
	}
	toolIn struct {
		_ server.ToolTag `scopes:"own" tags:"own"`
		whichIn
	}
	slowIn struct {
		_ server.ToolTag `timeout:"3s"`
	}
	slowestIn struct {
		_ server.ToolTag `timeout:"0s"`
	}
	usualIn struct{ _ server.ToolTag }
	askIn   struct {
		_ server.PromptTag `scopes:"own"`
		whichIn
	}
	fileIn struct {
		_ server.ResourceTag `uri:"w:{which}" scopes:"own"`
		whichIn
	}
	thingIn struct {
		_ server.ResourceTag `uri:"w:thing/fixed" scopes:"own"`
	}
	wordIn struct {
		_     server.CompletionTag `prompt:"ask" argument:"which"`
		Value string
	}
)

var errOwn = errors.New("an error of its own")

func outcomeFor(which string) (string, error) {
	switch which {
	case "panic":
		panic("a secret")
	case "error":
		return "", errOwn
	case "protocol":
		return "", fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: 4711, Message: "a protocol error"})
	}
	return which, nil
}

func (w *watched) Tool(_ context.Context, in toolIn) (string, error) { return outcomeFor(in.Which) }
func (w *watched) Ask(_ context.Context, in askIn) (string, error)   { return outcomeFor(in.Which) }
func (w *watched) File(_ context.Context, in fileIn) (string, error) { return outcomeFor(in.Which) }
func (w *watched) Thing(context.Context, thingIn) (string, error)    { return outcomeFor("fixed") }
func (w *watched) Word(_ context.Context, in wordIn) ([]string, error) {
	word, err := outcomeFor(in.Value)
	return []string{word}, err
}
func (w *watched) Slow(ctx context.Context, _ slowIn) error       { return idle(ctx, 20*time.Second) }
func (w *watched) Slowest(ctx context.Context, _ slowestIn) error { return idle(ctx, 20*time.Second) }
func (w *watched) Usual(ctx context.Context, _ usualIn) error     { return idle(ctx, 20*time.Second) }

func idle(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// watchedCalls are calls of the methods of watched, for one value of their argument.
func watchedCalls(which string) []struct{ method, params string } {
	return []struct{ method, params string }{
		{mcp.MethodToolsCall, `{"name":"tool","arguments":{"which":"` + which + `"}}`},
		{mcp.MethodPromptsGet, `{"name":"ask","arguments":{"which":"` + which + `"}}`},
		{mcp.MethodResourcesRead, `{"uri":"w:` + which + `"}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"which","value":"` + which + `"}}`},
	}
}

// TestServiceMethodFails: a method that panics tells nothing, whatever it is; an error
// is what it is of a function.
func TestServiceMethodFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		server.AddService(s, &watched{})
		session := connect(t, s, era)
		for _, test := range watchedCalls("panic") {
			log.Reset()
			_, err := raw(t, session, test.method, test.params)
			wantCode(t, err, jsonrpc.InternalError)
			if !reference.MatchString(message(err)) || strings.Contains(message(err), "secret") {
				t.Errorf("%s: the client is told %q", test.method, err)
			}
			if !strings.Contains(log.String(), "a secret") || !strings.Contains(log.String(), "service_call_test.go") {
				t.Errorf("%s: the operator is told %s", test.method, &log)
			}
		}
		for _, test := range watchedCalls("protocol") {
			_, err := raw(t, session, test.method, test.params)
			wantCode(t, err, 4711)
		}
		for _, test := range watchedCalls("error") {
			got, err := raw(t, session, test.method, test.params)
			if test.method == mcp.MethodToolsCall {
				if err != nil || !strings.Contains(got, errOwn.Error()) || !strings.Contains(got, `"isError":true`) {
					t.Errorf("the tool gives %s, %v", got, err)
				}
				continue
			}
			wantCode(t, err, jsonrpc.InternalError)
			if message(err) != errOwn.Error() {
				t.Errorf("%s: the client is told %q", test.method, err)
			}
		}
		for _, test := range watchedCalls("fine") {
			if got, err := raw(t, session, test.method, test.params); err != nil || !strings.Contains(got, "fine") {
				t.Errorf("%s gives %s, %v", test.method, got, err)
			}
		}
	})
}

// TestServiceChain checks that guards and middleware of a service apply inside the guards and middleware of the server,
// and outside the method's own.
func TestServiceChain(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var passed []string
		note := func(name string) []mcp.Middleware {
			return []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					passed = append(passed, name)
					return next(ctx, call)
				}
			}}
		}
		guard := func(name string) []mcp.Guard {
			return []mcp.Guard{{Name: name, Check: func(_ context.Context, call *mcp.Call) error {
				t := call.Target()
				passed = append(passed, fmt.Sprintf("%s %v %v %v", name, t.Scopes, t.Definition.Tags(), t.Metadata["own"]))
				return nil
			}}}
		}
		s := newServer(&server.Options{
			Guards: guard("server guard"), CallMiddleware: note("server call"), Logger: discardLogger(),
			Scopes: []string{"server"}, Metadata: map[string]any{"own": "server"},
		})
		methods := make(map[string]server.Method)
		for _, name := range []string{"Tool", "Ask", "File"} {
			methods[name] = server.Method{Guards: guard("method guard"), CallMiddleware: note("method call")}
		}
		server.AddService(s, &watched{server.Annotations{
			Guards: guard("service guard"), CallMiddleware: note("service call"), Methods: methods,
			Scopes: []string{"service", "all"}, Tags: []string{"every"}, Metadata: map[string]any{"own": "service"},
		}})
		session := connect(t, s, era)
		for _, test := range watchedCalls("error") {
			passed = nil
			_, _ = raw(t, session, test.method, test.params)
			seen := "[server service all own] [every] service"
			if test.method == mcp.MethodToolsCall {
				seen = "[server service all own] [every own] service"
			}
			want := []string{"server guard " + seen, "service guard " + seen, "method guard " + seen, "server call", "service call", "method call"}
			if !slices.Equal(passed, want) {
				t.Errorf("%s passes\n%q, want\n%q", test.method, passed, want)
			}
		}
	})
}

// TestServiceGuards: a guard of a service refuses and hides its methods, and no others.
func TestServiceGuards(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		hiding := mcp.Guard{Name: "nobody", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }}
		for hides, guard := range map[bool]mcp.Guard{false: denyGuard("nobody"), true: hiding} {
			s := newServer(&server.Options{Logger: discardLogger()})
			returns(s, "open", "yes")
			server.AddService(s, &watched{server.Annotations{Guards: []mcp.Guard{guard}}})
			session := connect(t, s, era)
			for _, test := range watchedCalls("fine") {
				got, err := raw(t, session, test.method, test.params)
				if err == nil {
					t.Errorf("%s was allowed: %s", test.method, got)
				} else if named := strings.Contains(message(err), "nobody"); named == hides {
					t.Errorf("%s: hidden %t, and the caller is told %q", test.method, hides, message(err))
				}
			}
			want := []string{"open", "slow", "slowest", "tool", "usual"}
			if hides {
				want = want[:1]
			}
			if got := toolNames(t, session); !slices.Equal(got, want) {
				t.Errorf("hidden %t: the tools are %q, want %q", hides, got, want)
			}
			if got := textOf(call(t, session, "open", `{}`)); got != "yes" {
				t.Errorf("the tool outside the service says %q", got)
			}
		}
	})
}

// TestMethodOptions: what no tag can say of a method is listed and holds.
func TestMethodOptions(t *testing.T) {
	s := newServer(&server.Options{Logger: discardLogger()})
	priority := 0.5
	server.AddService(s, &watched{server.Annotations{Tags: []string{"every"}, Methods: map[string]server.Method{
		"Usual": {Meta: mcp.Meta(`{"m":1}`), OutputSchema: jsonRaw(`{"type":"object","required":["x"]}`), Icons: []mcp.Icon{{Src: "data:,"}}},
		"Thing": {Annotations: &mcp.Annotations{Priority: &priority}, Size: new(int64(7))},
		"File":  {Annotations: &mcp.Annotations{Priority: &priority}},
		"Ask":   {Meta: mcp.Meta(`{"m":2}`)},
	}}})
	for kind, want := range map[mcp.Kind][]string{
		mcp.KindTool:             {`"_meta":{"m":1,"io.github.dovetail-go/tags":["every"]}`, `"outputSchema":{"type":"object","required":["x"]}`, `"icons":[{"src":"data:,"}]`},
		mcp.KindResource:         {`"annotations":{"priority":0.5}`, `"size":7`},
		mcp.KindResourceTemplate: {`"annotations":{"priority":0.5}`},
		mcp.KindPrompt:           {`"_meta":{"m":2,"io.github.dovetail-go/tags":["every"]}`},
	} {
		var list string
		for e := range s.Catalog().All(kind) {
			list += string(e.Definition.JSON())
		}
		for _, member := range want {
			if !strings.Contains(list, member) {
				t.Errorf("the %ss are %s, want %s", kind, list, member)
			}
		}
	}
	_, err := server.Service(&watched{server.Annotations{Methods: map[string]server.Method{"Usuall": {}}}})
	if err == nil || !strings.Contains(err.Error(), "Annotations.Methods names Usuall") {
		t.Errorf("the error is %v", err)
	}
}

// TestServiceTimeout: the timeout of the annotations holds for tools with no timeout in their tag.
func TestServiceTimeout(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddService(s, &watched{server.Annotations{Timeout: 7 * time.Second}})
		session := connectInMemory(t, s, &client.Options{Era: era})
		for tool, says := range map[string]string{"slow": "took longer than 3s", "usual": "took longer than 7s", "slowest": ""} {
			start := time.Now()
			result := call(t, session, tool, `{}`)
			if !strings.Contains(textOf(result), says) || result.IsError != (says != "") {
				t.Errorf("%s says %q after %v", tool, textOf(result), time.Since(start))
			}
			want := map[string]time.Duration{"slow": 3 * time.Second, "usual": 7 * time.Second, "slowest": 20 * time.Second}[tool]
			if took := time.Since(start); took != want {
				t.Errorf("%s took %v, want %v", tool, took, want)
			}
		}
	})
}

// TestServiceHints: a tag wins over what is usual in the service.
func TestServiceHints(t *testing.T) {
	s := newServer(nil)
	server.AddService(s, library{})
	server.AddService(s, &watched{server.Annotations{Tool: mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)}}})
	server.AddService(s, unhinted{})
	session := connect(t, s, client.Legacy)
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		switch a := tool.Annotations; tool.Name {
		case "lend.book":
			if *a.ReadOnlyHint || *a.DestructiveHint || !*a.IdempotentHint || *a.OpenWorldHint {
				t.Errorf("%s has hints %+v", tool.Name, a)
			}
		case "usual":
			if !*a.ReadOnlyHint || a.DestructiveHint != nil || a.IdempotentHint != nil || *a.OpenWorldHint {
				t.Errorf("%s has hints %+v", tool.Name, a)
			}
		case "quiet":
			if a != nil || tool.Meta != nil {
				t.Errorf("%s has hints %+v and _meta %s", tool.Name, a, tool.Meta)
			}
		}
	}
}

type unhinted struct{}

func (unhinted) Quiet(context.Context, pingIn) error { return nil }
