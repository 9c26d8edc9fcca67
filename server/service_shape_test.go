package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server"
)

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
				got[name] = texts(call(t, session, name, `{}`))
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("the tools say %v, want %v", got, test.want)
			}
		})
	}
}

// A value keeps what it was when it was registered, as a Go method value does.
func TestServiceByValueIsACopy(t *testing.T) {
	service := looker{"before"}
	s := newServer(nil)
	server.AddService(s, service)
	service.says = "after"
	if got := texts(call(t, connect(t, s, client.Legacy), "look", `{}`)); got != "before" {
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
	if got := texts(call(t, session, "keep", `{"name":"a","item":{"x":1}}`)); got != "1" {
		t.Errorf("keep gave %s", got)
	}
	if k.kept["a"] != (point{X: 1}) {
		t.Errorf("kept %v", k.kept)
	}
	if got := call(t, session, "keep", `{"name":"a","item":"x"}`); !got.IsError || !strings.Contains(texts(got), "/item") {
		t.Errorf("keep accepted an item of another type: %s", texts(got))
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
	takesRequest   struct{}
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
func (takesRequest) Run(context.Context, server.Request) error           { return nil }
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

// TestServicesAreRefused: nothing is left out without a word, and the error says which
// method it is and what would do.
func TestServicesAreRefused(t *testing.T) {
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
		{takesRequest{}, "it takes no annotated struct"},
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
	for prompt, err := range session.Prompts(t.Context()) {
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
	for _, part := range []string{"service_shape_test.go:", "service server_test.unordered", `the tool "zebra" is registered already`} {
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

// TestReplaceServices: the entries of a service can be put in again, and those of
// another version of it, and into another server.
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
			if got := texts(call(t, session, name, `{}`)); got != step.want {
				t.Errorf("%s says %q, want %q", name, got, step.want)
			}
		}
	}
	if err := other.Replace(first...); err != nil {
		t.Fatal(err)
	}
	if got := texts(call(t, connect(t, other, client.Legacy), "ping", `{}`)); got != "first" {
		t.Errorf("the other server says %q", got)
	}
	if err := other.Replace(append(first, first...)...); err == nil || !strings.Contains(err.Error(), "registered already") {
		t.Errorf("twice the same at once gives %v", err)
	}
}
