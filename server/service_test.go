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
	Query string         `json:"query" jsonschema:"minLength=1" description:"search terms"`
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
	s := newServer(&server.Options{Dependencies: []server.Dependency{shelf()}, Logger: discardLogger()})
	server.AddService(s, &shop{greeting: "Welcome"})
	return s
}

func TestServiceMethods(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newShop(), era)
		if got := textOf(call(t, session, "search", `{"query":"bread"}`)); got != `["rye bread","wheat bread"]` {
			t.Errorf("search gave %s", got)
		}
		if got := textOf(call(t, session, "search", `{"query":"bread","limit":1}`)); got != `["rye bread"]` {
			t.Errorf("search gave %s", got)
		}
		if got := call(t, session, "search", `{"query":""}`); !got.IsError {
			t.Error("arguments are not validated")
		}
		if got := call(t, session, "empty_http_cache", `{}`); got.IsError || len(got.Content) != 0 {
			t.Errorf("a method without a result gave %+v", got)
		}
		if got := call(t, session, "fail", `{}`); !got.IsError || textOf(got) != "not today" {
			t.Errorf("fail gave %+v", got)
		}
		prompt, err := session.GetPrompt(t.Context(), "welcome", map[string]string{"name": "Ann"}, nil)
		if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "Welcome, Ann" {
			t.Errorf("the prompt gave %+v, %v", prompt, err)
		}
		completed, err := session.CompletePrompt(t.Context(), "welcome", "name", "An", nil, nil)
		if err != nil || !slices.Equal(completed.Values, []string{"Ann", "Anton"}) {
			t.Errorf("completed %+v, %v", completed, err)
		}
		for uri, want := range map[string]string{"shop://items/2": "tea", "shop://hours": `{"open":8}`} {
			read, err := session.ReadResource(t.Context(), uri, nil)
			if err != nil || read.Contents[0].(*mcp.TextResourceContents).Text != want {
				t.Errorf("%s: read %+v, %v", uri, read, err)
			}
		}
		if _, err := session.ReadResource(t.Context(), "shop://items/7", nil); err == nil {
			t.Error("an item that is not there was read")
		}
		_, err = session.ReadResource(t.Context(), "shop://items/x", nil)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

func TestServiceIsDescribed(t *testing.T) {
	session := connect(t, newShop(), client.Legacy)
	listed := map[string]*mcp.Tool{}
	for tool, err := range session.Tools(t.Context(), nil) {
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
func TestInvalidServiceMethods(t *testing.T) {
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

// Arguments of methods that need none.
type (
	pingIn struct{ _ server.ToolTag }
	lookIn struct{ _ server.ToolTag }
)

// A pinger has methods of both kinds.
type pinger struct{ says string }

func (p *pinger) Ping(context.Context, pingIn) (string, error) { return p.says, nil }
func (p pinger) Look(context.Context, lookIn) (string, error)  { return p.says, nil }

// A looker has methods with value receivers only.
type looker struct{ says string }

func (l looker) Look(context.Context, lookIn) (string, error) { return l.says, nil }

// A looking is a service that is no struct.
type looking string

func (l looking) Look(context.Context, lookIn) (string, error) { return string(l), nil }

type withLook interface {
	Look(ctx context.Context, in lookIn) (string, error)
}

// Services that embed others.
type (
	embedsPointer   struct{ *pinger }
	embedsValue     struct{ pinger }
	embedsInterface struct{ withLook }
	embedsTwice     struct{ embedsPointer }
	hides           struct{ *pinger }
)

func (hides) Look(context.Context, lookIn) (string, error) { return "hidden", nil }

// TestServiceShapes: what Go lets one call is what clients call.
func TestServiceShapes(t *testing.T) {
	for _, test := range []struct {
		service any
		want    map[string]string // what each tool says
	}{
		{&pinger{"x"}, map[string]string{"look": "x", "ping": "x"}},
		{looker{"x"}, map[string]string{"look": "x"}},
		{&looker{"x"}, map[string]string{"look": "x"}},
		{looking("x"), map[string]string{"look": "x"}},
		{embedsPointer{&pinger{"x"}}, map[string]string{"look": "x", "ping": "x"}},
		{&embedsPointer{&pinger{"x"}}, map[string]string{"look": "x", "ping": "x"}},
		{&embedsValue{pinger{"x"}}, map[string]string{"look": "x", "ping": "x"}},
		{embedsInterface{looker{"x"}}, map[string]string{"look": "x"}},
		{embedsTwice{embedsPointer{&pinger{"x"}}}, map[string]string{"look": "x", "ping": "x"}},
		{hides{&pinger{"x"}}, map[string]string{"look": "hidden", "ping": "x"}},
	} {
		t.Run(fmt.Sprintf("%T", test.service), func(t *testing.T) {
			s := newServer(nil)
			server.AddService(s, test.service)
			session := connect(t, s, client.Legacy)
			got := map[string]string{}
			for _, name := range toolNames(t, session) {
				got[name] = textOf(call(t, session, name, `{}`))
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("the tools say %v, want %v", got, test.want)
			}
		})
	}
}

// A value receiver is copied at registration, as in a Go method value.
func TestServiceByValueIsACopy(t *testing.T) {
	service := looker{"before"}
	s := newServer(nil)
	server.AddService(s, service)
	service.says = "after"
	if got := textOf(call(t, connect(t, s, client.Legacy), "look", `{}`)); got != "before" {
		t.Errorf("the service says %q", got)
	}
}

// A keeper is a service with a type parameter.
type keeper[T any] struct{ kept map[string]T }

type keepIn[T any] struct {
	_    server.ToolTag
	Name string `json:"name"`
	Item T      `json:"item"`
}

func (k *keeper[T]) Keep(_ context.Context, in keepIn[T]) (int, error) {
	k.kept[in.Name] = in.Item
	return len(k.kept), nil
}

func TestGenericService(t *testing.T) {
	k := &keeper[point]{map[string]point{}}
	s := newServer(nil)
	server.AddService(s, k)
	session := connect(t, s, client.Legacy)
	if got := textOf(call(t, session, "keep", `{"name":"a","item":{"x":1}}`)); got != "1" {
		t.Errorf("keep gave %s", got)
	}
	if k.kept["a"] != (point{X: 1}) {
		t.Errorf("kept %v", k.kept)
	}
	if got := call(t, session, "keep", `{"name":"a","item":"x"}`); !got.IsError || !strings.Contains(textOf(got), "/item") {
		t.Errorf("keep accepted an item of another type: %s", textOf(got))
	}
}

// Types that are not the ones to be registered, or not the only ones.
type (
	annotatedOne struct{}
	annotatedTwo struct{}
	bothOfThem   struct {
		annotatedOne
		annotatedTwo
	}
	bothWithOwn struct {
		annotatedOne
		annotatedTwo
	}
	bothDeep     struct{ *bothOfThem }
	bothPointers struct {
		*annotatedOne
		*annotatedTwo
	}
	pointerGuards   struct{}
	wrongGuards     struct{}
	wrongTexts      struct{}
	wrongTextsByTwo struct{}
	otherAnnotation struct{}
)

func (annotatedOne) Annotations() server.Annotations               { return server.Annotations{} }
func (annotatedTwo) Annotations() server.Annotations               { return server.Annotations{} }
func (annotatedOne) Look(context.Context, lookIn) error            { return nil }
func (annotatedTwo) Ping(context.Context, pingIn) error            { return nil }
func (bothWithOwn) Annotations() server.Annotations                { return server.Annotations{Tags: []string{"own"}} }
func (pointerGuards) Look(context.Context, lookIn) error           { return nil }
func (*pointerGuards) Annotations() server.Annotations             { return server.Annotations{} }
func (wrongGuards) Look(context.Context, lookIn) error             { return nil }
func (wrongGuards) Annotations() *server.Annotations               { return nil }
func (wrongTexts) Look(context.Context, lookIn) error              { return nil }
func (wrongTexts) Descriptions() map[string]string                 { return nil }
func (wrongTextsByTwo) Look(context.Context, lookIn) error         { return nil }
func (wrongTextsByTwo) Descriptions() (server.Descriptions, error) { return nil, nil }
func (otherAnnotation) Look(context.Context, lookIn) error         { return nil }
func (otherAnnotation) Annotations() []string                      { return nil }

type pointerIn struct{ _ server.ToolTag }

// Services with one method that does not fit.
type (
	takesPointer   struct{}
	takesResult    struct{}
	takesVariadic  struct{}
	givesNothing   struct{}
	givesTwo       struct{}
	givesOwnError  struct{}
	takesTwice     struct{}
	takesTwoTags   struct{}
	takesBrokenPtr struct{}
	sameName       struct{}
	doubleKey      struct{}
	doubleKeyIn    struct {
		_ server.ToolTag `title:"a" title:"b"` //nolint:staticcheck // the mistake that is looked for
	}
	twoTagsIn struct {
		_ server.ToolTag
		_ server.PromptTag
	}
	badTimeout   struct{}
	badTimeoutIn struct {
		_ server.ToolTag `timeout:"30"`
	}
	badName   struct{}
	badNameIn struct {
		_ server.ToolTag `name:"ein Name"`
	}
	badField   struct{}
	badFieldIn struct {
		_  server.ToolTag
		Do func() `json:"do"`
	}
	badOut        struct{}
	promptOut     struct{}
	promptNothing struct{}
	promptIn      struct{ _ server.PromptTag }
	promptField   struct{}
	promptFieldIn struct {
		_    server.PromptTag
		When []int `json:"when"`
	}
	readNothing struct{}
	noURI       struct{}
	noURIIn     struct{ _ server.ResourceTag }
	fixedIn     struct {
		_ server.ResourceTag `uri:"app:r"`
	}
	noVariables   struct{}
	noVariablesIn struct {
		_ server.ResourceTag `uri:"app:t/{id}"`
	}
	fixedField   struct{}
	fixedFieldIn struct {
		_  server.ResourceTag `uri:"app:r"`
		ID string             `json:"id"`
	}
	hardTemplate   struct{}
	hardTemplateIn struct {
		_    server.ResourceTag `uri:"app:{a}{b}"`
		A, B string
	}
	completesNothing   struct{}
	completesNothingIn struct {
		_     server.CompletionTag `argument:"name"`
		Value string
	}
	completesMore   struct{}
	completesMoreIn struct {
		_     server.CompletionTag `prompt:"p" argument:"name"`
		Value string
		Limit int
	}
	completesInts struct{}
	completeIn    struct {
		_     server.CompletionTag `prompt:"p" argument:"name"`
		Value string
	}
	noValue   struct{}
	noValueIn struct {
		_ server.CompletionTag `prompt:"p" argument:"name"`
	}
)

type ownError struct{}

func (*ownError) Error() string { return "" }

func (takesPointer) Run(context.Context, *pointerIn) error               { return nil }
func (takesResult) Run(context.Context, mcp.CallToolResult) error        { return nil }
func (takesVariadic) Run(context.Context, pingIn, ...string) error       { return nil }
func (givesNothing) Run(context.Context, pingIn)                         {}
func (givesTwo) Run(context.Context, pingIn) (int, int, error)           { return 0, 0, nil }
func (givesOwnError) Run(context.Context, pingIn) *ownError              { return nil }
func (takesTwice) Run(context.Context, context.Context, pingIn) error    { return nil }
func (takesTwoTags) Run(context.Context, twoTagsIn) error                { return nil }
func (takesBrokenPtr) Run(context.Context, *twoTagsIn) error             { return nil }
func (sameName) Again(context.Context, runIn) error                      { return nil }
func (sameName) Run(context.Context, runIn) error                        { return nil }
func (doubleKey) Run(context.Context, doubleKeyIn) error                 { return nil }
func (badTimeout) Run(context.Context, badTimeoutIn) error               { return nil }
func (badName) Run(context.Context, badNameIn) error                     { return nil }
func (badField) Run(context.Context, badFieldIn) error                   { return nil }
func (badOut) Run(context.Context, pingIn) (chan int, error)             { return nil, nil }
func (promptOut) Run(context.Context, promptIn) (int, error)             { return 0, nil }
func (promptNothing) Run(context.Context, promptIn) error                { return nil }
func (promptField) Run(context.Context, promptFieldIn) (string, error)   { return "", nil }
func (readNothing) Run(context.Context, fixedIn) error                   { return nil }
func (noURI) Run(context.Context, noURIIn) (string, error)               { return "", nil }
func (noVariables) Run(context.Context, noVariablesIn) (string, error)   { return "", nil }
func (fixedField) Run(context.Context, fixedFieldIn) (string, error)     { return "", nil }
func (hardTemplate) Run(context.Context, hardTemplateIn) (string, error) { return "", nil }
func (completesNothing) Run(context.Context, completesNothingIn) ([]string, error) {
	return nil, nil
}
func (completesMore) Run(context.Context, completesMoreIn) ([]string, error) { return nil, nil }
func (completesInts) Run(context.Context, completeIn) ([]int, error)         { return nil, nil }
func (noValue) Run(context.Context, noValueIn) ([]string, error)             { return nil, nil }

// TestInvalidServices: nothing is left out without a word, and the error says which
// method it is and what would do.
func TestInvalidServices(t *testing.T) {
	for _, test := range []struct {
		service any
		says    string
	}{
		// Methods that would not be seen.
		{pinger{}, "its method Ping has a pointer receiver: register a *server_test.pinger"},
		{embedsValue{}, "its method Ping has a pointer receiver"},
		{pointerGuards{}, "its method Annotations has a pointer receiver"},
		{wrongGuards{}, "its method Annotations must be func() server.Annotations"},
		{wrongTexts{}, "its method Descriptions must be func() server.Descriptions"},
		{wrongTextsByTwo{}, "its method Descriptions must be func() server.Descriptions"},
		{bothOfThem{}, "the method Annotations of the embedded server_test.annotatedOne is not promoted"},
		{&bothOfThem{}, "is not promoted"},
		{bothDeep{&bothOfThem{}}, "is not promoted"},
		{bothPointers{}, "the method Annotations of the embedded *server_test.annotatedOne is not promoted"},
		// Parameters and results.
		{takesPointer{}, "method Run(context.Context, *server_test.pointerIn) error: it takes a pointer to the annotated struct: let it take the server_test.pointerIn itself"},
		{takesBrokenPtr{}, "it takes a pointer to the annotated struct"},
		{takesResult{}, "it takes no annotated struct"},
		{takesVariadic{}, "it must not be variadic"},
		{givesNothing{}, "its results do not fit"},
		{givesTwo{}, "its results do not fit"},
		{givesOwnError{}, "its results do not fit"},
		{takesTwice{}, "two values of type context.Context"},
		{takesTwoTags{}, "has two annotations"},
		{sameName{}, `method Run(context.Context, server_test.runIn) error: Again is the tool "run" already`},
		// Tags.
		{doubleKey{}, "two tags title"},
		{badTimeout{}, `timeout must be a duration such as 30s, not "30"`},
		{badName{}, "a name consists of"},
		{unpaired{}, `metadata must be pairs such as team=search, not "tier"`},
		{unnamed{}, `metadata must be pairs such as team=search, not "=search"`},
		{twoTeams{}, `metadata has two values of "team"`},
		{longLived{}, `ttl must be a duration such as 30s, not "30"`},
		{backwards{}, `ttl must be a duration such as 30s, not "-1s"`},
		{everybodys{}, `cache must be "private" or "public", not "shared"`},
		{keptTool{}, `the annotation has a tag "ttl"; accepted: name`},
		// What they are.
		{badField{}, "arguments: schema: badFieldIn.Do"},
		{badOut{}, "result: schema"},
		{promptOut{}, "not int"},
		{promptNothing{}, "a prompt must have a result"},
		{promptField{}, "field When: []int cannot hold a string's value"},
		{readNothing{}, "a resource must have a result"},
		{noURI{}, "a URI needs a scheme"},
		{noVariables{}, `the template's "id" has no field`},
		{fixedField{}, `the field "id" is not a variable`},
		{hardTemplate{}, "resource template"},
		{completesNothing{}, "one of Prompt and Template"},
		{completesMore{}, "has a field Limit int"},
		{completesInts{}, "must be []string"},
		{noValue{}, "needs a field Value string"},
	} {
		t.Run(strings.TrimPrefix(fmt.Sprintf("%T", test.service), "server_test."), func(t *testing.T) {
			_, err := server.Service(test.service)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), fmt.Sprintf("service %T: ", test.service)) {
				t.Errorf("the error is %v, want it to say %s", err, test.says)
			}
		})
	}
	for _, service := range []any{bothWithOwn{}, otherAnnotation{}} {
		if _, err := server.Service(service); err != nil {
			t.Errorf("%T was refused: %v", service, err)
		}
	}
}

// Methods are in the order of their names, whatever the order of the source.
type unordered struct{}

func (unordered) Zebra(context.Context, pingIn) error              { return nil }
func (unordered) Ape(context.Context, lookIn) error                { return nil }
func (unordered) HTTPGet2(context.Context, emptyIn) error          { return nil }
func (unordered) Mouse(context.Context, pingIn) error              { return nil }
func (unordered) Prompt(context.Context, promptIn) (string, error) { return "", nil }
func (unordered) Advise(context.Context, promptIn) (string, error) { return "", nil }
func (unordered) ignored(context.Context, pingIn) error            { return nil }
func (unordered) Alone(pingIn) (string, error)                     { return "", nil }

func TestServiceOrder(t *testing.T) {
	s := newServer(nil)
	server.AddService(s, unordered{})
	unordered{}.ignored(t.Context(), pingIn{})
	session := connect(t, s, client.Legacy)
	if got, want := toolNames(t, session), []string{"ape", "http_get2", "mouse", "zebra"}; !slices.Equal(got, want) {
		t.Errorf("the tools are %q, want %q", got, want)
	}
	var prompts []string
	for prompt, err := range session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, prompt.Name)
	}
	if want := []string{"advise", "prompt"}; !slices.Equal(prompts, want) {
		t.Errorf("the prompts are %q, want %q", prompts, want)
	}
}

// TestServiceCollisions: a name is given once, and if it is not, nothing is registered.
func TestServiceCollisions(t *testing.T) {
	s := newServer(nil)
	returns(s, "zebra", "a function")
	message := panicOf(func() { server.AddService(s, unordered{}) })
	for _, part := range []string{"service_test.go:", "service server_test.unordered", `the tool "zebra" is registered already`} {
		if !strings.Contains(message, part) {
			t.Errorf("the panic is %q, want it to say %s", message, part)
		}
	}
	session := connect(t, s, client.Legacy)
	if got := toolNames(t, session); !slices.Equal(got, []string{"zebra"}) {
		t.Errorf("the tools are %q", got)
	}
	// The other way round, the function is one too many.
	s = newServer(nil)
	server.AddService(s, unordered{})
	if message := panicOf(func() { returns(s, "zebra", "") }); !strings.Contains(message, `the tool "zebra" is registered already`) {
		t.Errorf("the panic is %q", message)
	}
	if message := panicOf(func() { server.AddService(s, unordered{}) }); !strings.Contains(message, "registered already") {
		t.Errorf("the panic is %q", message)
	}
}

func panicOf(fn func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	fn()
	return ""
}

// TestReplaceServices: the entries of a service, or of another version of the service, can replace the
// earlier ones, and can be added to another server.
func TestReplaceServices(t *testing.T) {
	entries := func(says string) []*server.Entry {
		t.Helper()
		entries, err := server.Service(&pinger{says})
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
	one, other := newServer(nil), newServer(nil)
	first, second := entries("first"), entries("second")
	for _, step := range []struct {
		entries []*server.Entry
		want    string
	}{{first, "first"}, {first, "first"}, {second, "second"}, {first, "first"}} {
		if err := one.Replace(step.entries...); err != nil {
			t.Fatal(err)
		}
		session := connect(t, one, client.Legacy)
		if got, want := toolNames(t, session), []string{"look", "ping"}; !slices.Equal(got, want) {
			t.Errorf("the tools are %q, want %q", got, want)
		}
		for _, name := range []string{"look", "ping"} {
			if got := textOf(call(t, session, name, `{}`)); got != step.want {
				t.Errorf("%s says %q, want %q", name, got, step.want)
			}
		}
	}
	if err := other.Replace(first...); err != nil {
		t.Fatal(err)
	}
	if got := textOf(call(t, connect(t, other, client.Legacy), "ping", `{}`)); got != "first" {
		t.Errorf("the other server says %q", got)
	}
	if err := other.Replace(append(first, first...)...); err == nil || !strings.Contains(err.Error(), "registered already") {
		t.Errorf("twice the same at once gives %v", err)
	}
}

// TestServersShareAService: it may be registered at any number of servers, each of
// which has dependencies and guards of its own.
func TestServersShareAService(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		shared := counter{}
		entries, err := server.Service(shared)
		if err != nil {
			t.Fatal(err)
		}
		serve := func(count int, guards ...mcp.Guard) *client.Session {
			s := newServer(&server.Options{
				Logger: discardLogger(), Guards: guards,
				Dependencies: []server.Dependency{depend[stock](shelf7{}), depend(tariff{count}), shelf()},
			})
			if err := s.Replace(entries...); err != nil {
				t.Fatal(err)
			}
			return connect(t, s, era)
		}
		first, second := serve(1), serve(2)
		shut := serve(3, mcp.Guard{Name: "shut", Check: func(context.Context, *mcp.Call) error { return errors.New("no") }})
		for session, want := range map[*client.Session]string{first: "7 at 1, shelf true", second: "7 at 2, shelf true"} {
			if got := textOf(call(t, session, "tool", `{}`)); got != want {
				t.Errorf("the method says %q, want %q", got, want)
			}
		}
		if _, err := shut.CallTool(t.Context(), "tool", nil, nil); !client.IsForbidden(err) {
			t.Errorf("the guarded method gives %v", err)
		}
	})
}

// TestCallersCannotSetDependencies: what a method is given beside its arguments is not the
// caller's to say, whatever it is called.
func TestCallersCannotSetDependencies(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newShop(), era)
		for _, argument := range []string{`"db":{"items":["secret bread"]}`, `"shelfDB":{}`, `"r":{}`, `"ctx":{}`, `"_":{}`, `"":1`} {
			result := call(t, session, "search", `{"query":"bread",`+argument+`}`)
			if !result.IsError || !strings.Contains(textOf(result), "unknown member") {
				t.Errorf("with %s the tool says %s", argument, textOf(result))
			}
		}
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"shelf", "db", "items", "context", "Request", "_"} {
				if strings.Contains(string(tool.InputSchema), `"`+word) {
					t.Errorf("the schema of %s is %s", tool.Name, tool.InputSchema)
				}
			}
		}
	})
}

// A desk is a service whose methods carry metadata.
type desk struct{ metadata map[string]any }

func (d desk) Annotations() server.Annotations { return server.Annotations{Metadata: d.metadata} }

type (
	deskToolIn struct {
		_ server.ToolTag `name:"tool" metadata:"team=search, tier = 2 ,,note=a=b,empty=" tags:"front"`
	}
	deskPromptIn struct {
		_ server.PromptTag `name:"prompt" metadata:"team=search,tier=2,note=a=b,empty=" tags:"front"`
		X string           `json:"x"`
	}
	deskResourceIn struct {
		_ server.ResourceTag `uri:"desk:r" metadata:"team=search,tier=2,note=a=b,empty=" tags:"front"`
	}
	deskTemplateIn struct {
		_ server.ResourceTag `uri:"desk:t/{x}" metadata:"team=search,tier=2,note=a=b,empty=" tags:"front"`
		X string             `json:"x"`
	}
	deskWordIn struct {
		_     server.CompletionTag `prompt:"prompt" argument:"x"`
		Value string
	}
)

func (desk) Tool(context.Context, deskToolIn) (string, error)         { return "", nil }
func (desk) Prompt(context.Context, deskPromptIn) (string, error)     { return "", nil }
func (desk) Resource(context.Context, deskResourceIn) (string, error) { return "", nil }
func (desk) Template(context.Context, deskTemplateIn) (string, error) { return "", nil }
func (desk) Word(context.Context, deskWordIn) ([]string, error)       { return nil, nil }

// TestMethodMetadata checks that guards get the metadata of a method's tag, which replace the metadata of its
// service and its server, and that they are not sent to clients.
func TestMethodMetadata(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen string
		look := mcp.Guard{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
			seen = ""
			for _, key := range []string{"team", "tier", "note", "empty", "floor", "house", "none"} {
				seen += fmt.Sprintf("%s=%v ", key, call.Target().Metadata[key])
			}
			return nil
		}}
		s := newServer(&server.Options{Guards: []mcp.Guard{look}, Metadata: map[string]any{"team": "server", "floor": 1, "house": "white"}})
		server.AddService(s, desk{map[string]any{"team": "service", "floor": 2}})
		session := connect(t, s, era)
		for _, call := range []struct{ method, params string }{
			{mcp.MethodToolsCall, `{"name":"tool"}`},
			{mcp.MethodPromptsGet, `{"name":"prompt","arguments":{"x":""}}`},
			{mcp.MethodResourcesRead, `{"uri":"desk:r"}`},
			{mcp.MethodResourcesRead, `{"uri":"desk:t/1"}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""}}`},
		} {
			seen = "nothing"
			_, err := raw(t, session, call.method, call.params)
			if want := "team=search tier=2 note=a=b empty= floor=2 house=white none=<nil> "; err != nil || seen != want {
				t.Errorf("%s %s: the guard finds %q, %v, want %q", call.method, call.params, seen, err, want)
			}
		}
		for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
			if list, err := raw(t, session, method, `{}`); err != nil || !strings.Contains(list, `["front"]`) || strings.Contains(list, "search") {
				t.Errorf("%s says %s, %v", method, list, err)
			}
		}
	})
}

// Services with a tag that says nothing that could be meant.
type (
	unpaired   struct{}
	unpairedIn struct {
		_ server.ToolTag `metadata:"team=search,tier"`
	}
	unnamed   struct{}
	unnamedIn struct {
		_ server.PromptTag `metadata:"=search"`
	}
	twoTeams   struct{}
	twoTeamsIn struct {
		_ server.ToolTag `metadata:"team=search,team=stock"`
	}
	longLived   struct{}
	longLivedIn struct {
		_ server.ResourceTag `uri:"app:r" ttl:"30"`
	}
	backwards   struct{}
	backwardsIn struct {
		_ server.ResourceTag `uri:"app:{x}" ttl:"-1s"`
		X string             `json:"x"`
	}
	everybodys   struct{}
	everybodysIn struct {
		_ server.ResourceTag `uri:"app:r" cache:"shared"`
	}
	keptTool   struct{}
	keptToolIn struct {
		_ server.ToolTag `ttl:"1s"`
	}
)

func (unpaired) Run(context.Context, unpairedIn) error               { return nil }
func (unnamed) Run(context.Context, unnamedIn) (string, error)       { return "", nil }
func (twoTeams) Run(context.Context, twoTeamsIn) error               { return nil }
func (longLived) Run(context.Context, longLivedIn) (string, error)   { return "", nil }
func (backwards) Run(context.Context, backwardsIn) (string, error)   { return "", nil }
func (everybodys) Run(context.Context, everybodysIn) (string, error) { return "", nil }
func (keptTool) Run(context.Context, keptToolIn) error               { return nil }

// manyArguments has more arguments than other tools.
type manyArguments struct{}

type manyIn struct {
	_                                                server.ToolTag
	P0, P1, P2, P3, P4, P5, P6, P7, P8, P9           string
	P10, P11, P12, P13, P14, P15, P16, P17, P18, P19 string
	P20, P21, P22, P23, P24, P25, P26, P27, P28, P29 string
	P30, P31, P32, P33, P34, P35, P36, P37, P38, P39 string
	P40, P41, P42, P43, P44, P45, P46, P47, P48, P49 string
	P50, P51, P52, P53, P54, P55, P56, P57, P58, P59 string
	P60, P61, P62, P63, P64, P65, P66, P67, P68, P69 string
}

func (manyArguments) Count(context.Context, manyIn) (int, error) { return 70, nil }

func (manyArguments) Descriptions() server.Descriptions {
	texts := make(server.Descriptions)
	for i := range 70 {
		texts[fmt.Sprintf("Count.P%d", i)] = fmt.Sprintf("the text number %d.", i)
	}
	return texts
}

// The number of described arguments has no limit.
func TestManyDescriptions(t *testing.T) {
	entries, err := server.Service(manyArguments{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 70 {
		if text := fmt.Sprintf(`"the text number %d."`, i); !strings.Contains(string(entries[0].Definition.JSON()), text) {
			t.Errorf("the definition lacks %s", text)
		}
	}
}
