package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A shelfDB is what the shop below depends on.
type shelfDB struct{ items []string }

type shop struct{ greeting string }

type searchIn struct {
	_     server.ToolTag `name:"search" title:"Search" description:"Full-text search" readOnly:"true" timeout:"30s" tags:"catalogue, fast" scopes:"read"`
	Query string         `json:"query" jsonschema:"minLength=1" jsonschema_description:"search terms"`
	Limit int            `json:"limit,omitempty" jsonschema:"default=10,minimum=1"`
}

func (s *shop) Search(ctx context.Context, db *shelfDB, in searchIn, r *server.Request) ([]string, error) {
	var found []string
	for _, item := range db.items {
		if strings.Contains(item, in.Query) && len(found) < in.Limit {
			found = append(found, item)
		}
	}
	return found, ctx.Err()
}

type emptyIn struct {
	_ server.ToolTag `destructive:"true" openWorld:"false"`
}

func (s *shop) EmptyHTTPCache(context.Context, emptyIn) error { return nil }

type failIn struct {
	_ server.ToolTag `name:"fail"`
}

func (s *shop) Fail(context.Context, failIn) (int, error) { return 0, errors.New("not today") }

type welcomeIn struct {
	_    server.PromptTag `name:"welcome" description:"Greets a customer"`
	Name string           `json:"name"`
}

func (s *shop) Welcome(_ context.Context, in welcomeIn) (string, error) {
	return s.greeting + ", " + in.Name, nil
}

type namesIn struct {
	_      server.CompletionTag `prompt:"welcome" argument:"name"`
	Value  string
	Others map[string]string
}

func (s *shop) Names(_ context.Context, in namesIn) ([]string, error) {
	return slices.DeleteFunc([]string{"Ann", "Anton", "Bob"}, func(name string) bool { return !strings.HasPrefix(name, in.Value) }), nil
}

type itemIn struct {
	_     server.ResourceTag `uri:"shop://items/{index}" name:"item" mimeType:"text/plain"`
	Index int                `json:"index"`
}

func (s *shop) Item(_ context.Context, in itemIn, db *shelfDB) (string, error) {
	if in.Index >= len(db.items) {
		return "", mcp.ResourceNotFound(fmt.Sprint("shop://items/", in.Index))
	}
	return db.items[in.Index], nil
}

type hoursIn struct {
	_ server.ResourceTag `uri:"shop://hours"`
}

func (s *shop) Hours(context.Context, hoursIn) (map[string]int, error) {
	return map[string]int{"open": 8}, nil
}

// Close and String take no context: they are left alone.
func (s *shop) Close() error   { return nil }
func (s *shop) String() string { return "shop" }

func (s *shop) Annotations() server.Annotations {
	idempotent := true
	return server.Annotations{Tool: mcp.ToolAnnotations{IdempotentHint: &idempotent}, Tags: []string{"shop"}}
}

func (s *shop) Descriptions() server.Descriptions {
	return server.Descriptions{
		"Search": "a tag wins", "Search.query": "a tag wins", "Search.limit": "how many at most",
		"Fail": "Always fails.", "Welcome.name": "of the customer",
	}
}

func shelf() server.Dependency {
	return server.Provide(func(context.Context) (*shelfDB, func(context.Context) error, error) {
		return &shelfDB{items: []string{"rye bread", "wheat bread", "tea"}}, nil, nil
	})
}

func newShop() *server.Server {
	s := newServer(&server.Options{Dependencies: []server.Dependency{shelf()}, Logger: quiet()})
	server.AddService(s, &shop{greeting: "Welcome"})
	return s
}

func TestServiceMethods(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newShop(), era)
		if got := texts(call(t, session, "search", `{"query":"bread"}`)); got != `["rye bread","wheat bread"]` {
			t.Errorf("search gave %s", got)
		}
		if got := texts(call(t, session, "search", `{"query":"bread","limit":1}`)); got != `["rye bread"]` {
			t.Errorf("search gave %s", got)
		}
		if got := call(t, session, "search", `{"query":""}`); !got.IsError {
			t.Error("arguments are not validated")
		}
		if got := call(t, session, "empty_http_cache", `{}`); got.IsError || len(got.Content) != 0 {
			t.Errorf("a method without a result gave %+v", got)
		}
		if got := call(t, session, "fail", `{}`); !got.IsError || texts(got) != "not today" {
			t.Errorf("fail gave %+v", got)
		}
		prompt, err := session.Prompt(t.Context(), "welcome", map[string]string{"name": "Ann"}, nil)
		if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "Welcome, Ann" {
			t.Errorf("the prompt gave %+v, %v", prompt, err)
		}
		completed, err := session.CompletePrompt(t.Context(), "welcome", "name", "An", nil)
		if err != nil || !slices.Equal(completed.Values, []string{"Ann", "Anton"}) {
			t.Errorf("completed %+v, %v", completed, err)
		}
		for uri, want := range map[string]string{"shop://items/2": "tea", "shop://hours": `{"open":8}`} {
			read, err := session.Read(t.Context(), uri, nil)
			if err != nil || read.Contents[0].(*mcp.TextResourceContents).Text != want {
				t.Errorf("%s: read %+v, %v", uri, read, err)
			}
		}
		if _, err := session.Read(t.Context(), "shop://items/7", nil); err == nil {
			t.Error("an item that is not there was read")
		}
		_, err = session.Read(t.Context(), "shop://items/x", nil)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

func TestServiceIsDescribed(t *testing.T) {
	session := connect(t, newShop(), client.Legacy)
	listed := map[string]*mcp.Tool{}
	for tool, err := range session.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed[tool.Name] = tool
	}
	search := listed["search"]
	for _, part := range []string{`"description":"search terms"`, `"description":"how many at most"`} {
		if !strings.Contains(string(search.InputSchema), part) {
			t.Errorf("the schema %s lacks %s", search.InputSchema, part)
		}
	}
	if search.Title != "Search" || search.Description != "Full-text search" || !*search.Annotations.ReadOnlyHint || !*search.Annotations.IdempotentHint {
		t.Errorf("search is %+v with %+v", search, search.Annotations)
	}
	if string(search.Meta) != `{"io.github.dovetail-go/tags":["shop","catalogue","fast"]}` {
		t.Errorf("search has _meta %s", search.Meta)
	}
	if got := listed["fail"].Description; got != "Always fails." {
		t.Errorf("fail is described by %q", got)
	}
	if got := listed["empty_http_cache"].Annotations; !*got.DestructiveHint || *got.OpenWorldHint {
		t.Errorf("empty_http_cache has hints %+v", got)
	}
	if schema := listed["empty_http_cache"].OutputSchema; schema != nil {
		t.Errorf("a method without a result has an output schema: %s", schema)
	}
}

func TestServiceScopesReachGuards(t *testing.T) {
	var seen []string
	s := newServer(&server.Options{Dependencies: []server.Dependency{shelf()}, Guards: []mcp.Guard{{
		Name: "scopes", Check: func(_ context.Context, call *mcp.Call) error {
			seen = call.Target().Scopes
			return nil
		},
	}}})
	server.AddService(s, &shop{})
	call(t, connect(t, s, client.Legacy), "search", `{"query":"tea"}`)
	if !slices.Equal(seen, []string{"read"}) {
		t.Errorf("the guard sees %v", seen)
	}
}

type (
	noStruct   struct{}
	twoStructs struct{}
	badResult  struct{}
	badKey     struct{}
	notBlank   struct{}
	needsOther struct{}
	twice      struct{}
	noMethods  struct{}
	badKeyIn   struct {
		_ server.ToolTag `nmae:"x"`
	}
	notBlankIn struct{ Tag server.ToolTag }
	badHintIn  struct {
		_ server.ToolTag `readOnly:"yes"`
	}
	badHint     struct{}
	badTemplate struct{}
	badURIIn    struct {
		_ server.ResourceTag `uri:"shop://{a}"`
		B string             `json:"b"`
	}
)

func (noStruct) Run(context.Context, int) error               { return nil }
func (twoStructs) Run(context.Context, emptyIn, failIn) error { return nil }
func (badResult) Run(context.Context, emptyIn) (int, string)  { return 0, "" }
func (badKey) Run(context.Context, badKeyIn) error            { return nil }
func (notBlank) Run(context.Context, notBlankIn) error        { return nil }
func (needsOther) Run(context.Context, emptyIn, *strings.Reader) error {
	return nil
}
func (twice) Run(context.Context, emptyIn) error                  { return nil }
func (twice) Again(context.Context, emptyIn) error                { return nil }
func (badHint) Run(context.Context, badHintIn) error              { return nil }
func (badTemplate) Run(context.Context, badURIIn) (string, error) { return "", nil }

type runIn struct {
	_ server.ToolTag `name:"run"`
}

func (*noMethods) Run(runIn) error { return nil }

// A method that does not fit fails registration, with its name and what would fit.
func TestServicesThatDoNotFit(t *testing.T) {
	for _, test := range []struct {
		service any
		says    []string
	}{
		{noStruct{}, []string{"Run(context.Context, int) error", "no annotated struct", "a method takes a context.Context"}},
		{twoStructs{}, []string{"two annotated structs"}},
		{badResult{}, []string{"results", "an error, a result and an error, or a stream"}},
		{badKey{}, []string{`"nmae"`, "accepted: name, title"}},
		{notBlank{}, []string{"must be blank"}},
		{badHint{}, []string{"readOnly", `"true" or "false"`}},
		{badTemplate{}, []string{`"a"`}},
		{&noMethods{}, []string{"no exported method that takes a context.Context"}},
		{nil, []string{"nil"}},
		{(*shop)(nil), []string{"nil"}},
	} {
		_, err := server.Service(test.service)
		if err == nil {
			t.Errorf("%T was accepted", test.service)
			continue
		}
		for _, part := range test.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%T: the error is %v, want it to say %s", test.service, err, part)
			}
		}
	}
	for _, test := range []struct {
		service any
		says    string
	}{{needsOther{}, "*strings.Reader"}, {&shop{}, "*server_test.shelfDB"}} {
		entries, err := server.Service(test.service)
		if err != nil {
			t.Fatal(err)
		}
		if err := newServer(nil).Replace(entries...); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%T: the error is %v, want it to name %s", test.service, err, test.says)
		}
	}
}

// Explicit tags aside, a method's tool has the method's name.
func TestServiceNames(t *testing.T) {
	entries, err := server.Service(twice{})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(nil)
	if err := s.Replace(entries...); err != nil {
		t.Fatal(err)
	}
	session := connect(t, s, client.Legacy)
	call(t, session, "run", `{}`)
	call(t, session, "again", `{}`)
}
