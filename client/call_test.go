package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type sumIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

type pair struct {
	Sum  int   `json:"sum"`
	Both []int `json:"both"`
}

// newSampler is a server with one of everything.
func newSampler() *server.Server {
	s := newServer(&server.Options{Instructions: "Be kind."})
	server.AddTool(s, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in sumIn) (pair, error) {
		return pair{in.A + in.B, []int{in.A, in.B}}, nil
	})
	server.AddTool(s, server.Tool{Name: "say"}, func(_ context.Context, _ *server.Request, in struct {
		Word string `json:"word"`
	}) (string, error) {
		return in.Word, nil
	})
	server.AddTool(s, server.Tool{Name: "fail"}, func(context.Context, *server.Request, none) (int, error) {
		return 0, errors.New("the oven is cold")
	})
	server.AddTool(s, server.Tool{Name: "silent"}, func(context.Context, *server.Request, none) ([]mcp.Content, error) {
		return nil, nil
	})
	server.AddTool(s, server.Tool{Name: "meta"}, func(_ context.Context, r *server.Request, _ none) (string, error) {
		return string(r.Meta("example.com/trace")), nil
	})
	server.AddResource(s, server.Resource{URI: "app://motto", MIMEType: "text/plain"}, func(context.Context, *server.Request) (string, error) {
		return "measure twice", nil
	})
	type user struct {
		ID string `json:"id"`
	}
	server.AddTemplate(s, server.Template{URITemplate: "app://users/{id}"}, func(_ context.Context, _ *server.Request, u user) (string, error) {
		return "user " + u.ID, nil
	})
	type greeting struct {
		Name string `json:"name"`
	}
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, g greeting) (string, error) {
		return "Greet " + g.Name + ".", nil
	})
	return s
}

func TestTypedCalls(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		ctx, session := t.Context(), connect(t, everywhere.Dialer(t, newSampler()), client.Options{Era: era})

		if got := session.Server().Name; got != "test" {
			t.Errorf("the server is %q", got)
		}
		if session.Instructions() != "Be kind." || session.Capabilities().Tools == nil {
			t.Errorf("instructions %q, capabilities %+v", session.Instructions(), session.Capabilities())
		}
		if !session.Version().Known() {
			t.Errorf("the version is %q", session.Version())
		}
		if err := session.Ping(ctx); err != nil {
			t.Errorf("ping: %v", err)
		}

		for name, arguments := range map[string]any{
			"struct": sumIn{2, 3}, "map": map[string]int{"a": 2, "b": 3}, "raw": json.RawMessage(`{"a":2,"b":3}`), "pointer": &sumIn{2, 3},
		} {
			result, err := session.CallTool(ctx, "add", arguments, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := string(result.StructuredContent); got != `{"both":[2,3],"sum":5}` && got != `{"sum":5,"both":[2,3]}` {
				t.Errorf("%s: the result is %s", name, got)
			}
		}
		motto, err := session.Read(ctx, "app://motto", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := motto.Contents[0].(*mcp.TextResourceContents).Text; got != "measure twice" {
			t.Errorf("the resource reads %q", got)
		}
		if _, err := session.Read(ctx, "app://nothing", nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("reading what does not exist: %v", err)
		}
		prompt, err := session.Prompt(ctx, "greet", map[string]string{"name": "Ada"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := prompt.Messages[0].Content.(*mcp.TextContent).Text; got != "Greet Ada." {
			t.Errorf("the prompt says %q", got)
		}
		if _, err := session.CallTool(ctx, "unheard of", nil, nil); code(err) != jsonrpc.InvalidParams {
			t.Errorf("an unknown tool: %v", err)
		}
		if _, err := session.Call(ctx, "example/unheard-of", nil, nil); code(err) != jsonrpc.MethodNotFound {
			t.Errorf("an unknown method: %v", err)
		}
		motto2, err := session.Call(ctx, mcp.MethodResourcesRead, json.RawMessage(" {\"uri\": \"app://motto\"}\n"), nil)
		if err != nil || !strings.Contains(string(motto2), "measure twice") {
			t.Errorf("a call of any method: %s, %v", motto2, err)
		}
	})
}

// code is that of the peer's error, 0 if it is none.
func code(err error) jsonrpc.Code {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Code
	}
	return 0
}

func TestCallAs(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		ctx, session := t.Context(), connect(t, everywhere.Dialer(t, newSampler()), client.Options{Era: era})

		got, err := client.CallAs[pair](ctx, session, "add", sumIn{2, 3})
		if diff := cmp.Diff(pair{5, []int{2, 3}}, got); err != nil || diff != "" {
			t.Errorf("structured content: %v\n%s", err, diff)
		}
		if got, err := client.CallAs[string](ctx, session, "say", map[string]string{"word": "oak"}); err != nil || got != "oak" {
			t.Errorf("text: %q, %v", got, err)
		}
		if got, err := client.CallAs[pair](ctx, session, "say", map[string]string{"word": `{"sum":7}`}); err != nil || got.Sum != 7 {
			t.Errorf("JSON in text: %v, %v", got, err)
		}
		if got, err := client.CallAs[json.RawMessage](ctx, session, "say", map[string]string{"word": `[1, 2]`}); err != nil || string(got) != "[1, 2]" {
			t.Errorf("raw JSON in text: %s, %v", got, err)
		}

		_, err = client.CallAs[int](ctx, session, "fail", nil)
		failure, ok := errors.AsType[*client.ToolError](err)
		if !ok || failure.Tool != "fail" || !failure.Result.IsError {
			t.Fatalf("a tool that fails: %v", err)
		}
		if err.Error() != `tool "fail": the oven is cold` {
			t.Errorf("the error reads %q", err)
		}
		if _, err := client.CallAs[[]string](ctx, session, "add", sumIn{2, 3}); err == nil || !strings.Contains(err.Error(), `the result is no []string`) {
			t.Errorf("a wrong type: %v", err)
		}
		if _, err := client.CallAs[int](ctx, session, "say", map[string]string{"word": "oak"}); err == nil {
			t.Error("text that is no number became one")
		}
		if _, err := client.CallAs[int](ctx, session, "silent", nil); err == nil || !strings.Contains(err.Error(), "no structured content and no text") {
			t.Errorf("nothing to decode: %v", err)
		}
	})
}

// Structured content is the result unless the tool has failed. Its text is not looked at.
func TestCallAsStructured(t *testing.T) {
	const both = `"content":[{"type":"text","text":"8"}],"structuredContent":7`
	for name, test := range map[string]struct {
		result, err string
	}{
		"both":           {`{` + both + `}`, ""},
		"said not to":    {`{` + both + `,"isError":false}`, ""},
		"odd text":       {`{"content":[{"type":"text","text":8}],"structuredContent":7}`, ""},
		"failed":         {`{` + both + `,"isError":true}`, `tool "x": 8`},
		"failed somehow": {`{` + both + `,"isError":"yes"}`, "isError"},
		"odd":            {`{"content":[],"structuredContent":"7"}`, "the result is no int"},
		"no object":      {`[7]`, "must be an object"},
	} {
		session := connect(t, answering(func(req *jsonrpc.Request) []string { return []string{result(req, test.result)} }), client.Options{Era: client.Legacy})
		got, err := client.CallAs[int](t.Context(), session, "x", nil)
		if test.err == "" && (err != nil || got != 7) || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: got %d, %v", name, got, err)
		}
	}
}

func TestArgumentsMustBeAnObject(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		ctx, session := t.Context(), connect(t, everywhere.Dialer(t, newSampler()), client.Options{Era: era})
		for name, arguments := range map[string]any{
			"list":             []int{1},
			"nil pointer":      (*sumIn)(nil),
			"channel":          make(chan int),
			"cut off":          json.RawMessage(`{"a":`),
			"raw list":         json.RawMessage(`[1]`),
			"escaping members": json.RawMessage(`{},"name":"fail"`),
			"empty":            json.RawMessage(``),
		} {
			result, err := session.CallTool(ctx, "silent", arguments, nil)
			if err == nil || code(err) != 0 {
				t.Errorf("%s: result %+v, error %v; want one that says that arguments must be an object", name, result, err)
			}
		}
		for name, params := range map[string]string{"list": `[]`, "null": `null`, "cut off": `{"name":`, "two": `{} {}`} {
			if _, err := session.Call(ctx, mcp.MethodToolsList, json.RawMessage(params), nil); err == nil || code(err) != 0 {
				t.Errorf("params %s: %v", name, err)
			}
		}
		for _, params := range []string{`{}`, `{ }`, " {}\n"} {
			if _, err := session.Call(ctx, mcp.MethodToolsList, json.RawMessage(params), nil); err != nil {
				t.Errorf("params %q: %v", params, err)
			}
		}
		if _, err := session.CallTool(ctx, "silent", nil, &client.CallOptions{Meta: mcp.Meta(`{"a":`)}); err == nil || code(err) != 0 {
			t.Errorf("a _meta that is no JSON: %v", err)
		}
		if err := session.Ping(ctx); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// What a caller passes in may be in use elsewhere: the protocol's own metadata
// goes into a copy.
func TestCallersValuesAreNotChanged(t *testing.T) {
	const trace = `{"example.com/trace":"t1","io.modelcontextprotocol/protocolVersion":"forged","progressToken":"forged"}`
	opts := &client.CallOptions{Meta: mcp.Meta(trace), Progress: func(*mcp.ProgressParams) {}}
	arguments := json.RawMessage(`{"a": 1, "b": 2}`)
	params := json.RawMessage(`{"uri": "app://motto", "_meta": {"x": 1}}`)
	modern := connect(t, everywhere.Dialer(t, newSampler()), client.Options{Era: client.Modern})
	legacy := connect(t, everywhere.Dialer(t, newSampler()), client.Options{Era: client.Legacy})

	var group sync.WaitGroup
	for i := range 32 {
		session := modern
		if i%2 == 0 {
			session = legacy
		}
		group.Go(func() {
			result, err := session.CallTool(t.Context(), "meta", json.RawMessage(`{}`), opts)
			if err != nil {
				t.Errorf("the protocol's metadata was overruled: %v", err)
				return
			}
			if got := result.Content[0].(*mcp.TextContent).Text; got != `"t1"` {
				t.Errorf("the server sees %s", got)
			}
			if _, err := session.CallTool(t.Context(), "add", arguments, opts); err != nil {
				t.Error(err)
			}
			if _, err := session.Call(t.Context(), mcp.MethodResourcesRead, params, opts); err != nil {
				t.Error(err)
			}
			if _, err := session.Prompt(t.Context(), "greet", map[string]string{"name": strconv.Itoa(i)}, opts); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if string(opts.Meta) != trace || string(arguments) != `{"a": 1, "b": 2}` || string(params) != `{"uri": "app://motto", "_meta": {"x": 1}}` {
		t.Errorf("changed: %s, %s, %s", opts.Meta, arguments, params)
	}
}

// Meta of CallOptions goes out with every kind of call.
func TestMetaIsSent(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		seen := make(chan string, 1)
		s := newServer(&server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				seen <- call.Method() + " " + string(call.Member("_meta", "k"))
				return next(ctx, call)
			}
		}}})
		session := connect(t, everywhere.Dialer(t, s), client.Options{Era: era})
		opts := &client.CallOptions{Meta: mcp.Meta(`{"k":1}`)}
		for method, call := range map[string]func() error{
			mcp.MethodToolsCall:     func() error { _, err := session.CallTool(t.Context(), "x", nil, opts); return err },
			mcp.MethodPromptsGet:    func() error { _, err := session.Prompt(t.Context(), "x", nil, opts); return err },
			mcp.MethodResourcesRead: func() error { _, err := session.Read(t.Context(), "app://x", opts); return err },
			"example/any":           func() error { _, err := session.Call(t.Context(), "example/any", nil, opts); return err },
			"example/more": func() error {
				_, err := session.Call(t.Context(), "example/more", json.RawMessage(`{"_meta":{"j":2}}`), opts)
				return err
			},
		} {
			if err := call(); code(err) == 0 {
				t.Errorf("%s: %v, want the server's refusal", method, err)
			}
			if got := <-seen; got != method+" 1" {
				t.Errorf("the server sees %s, want %s 1", got, method)
			}
		}
	})
}

func TestCompletions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newSampler()
		complete := func(_ context.Context, _ *server.Request, typed string, others map[string]string) ([]string, error) {
			return []string{typed + "k", others["region"]}, nil
		}
		server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "name"}, complete)
		server.AddCompletion(s, server.Completion{Template: "app://users/{id}", Argument: "id"}, complete)
		session := connect(t, everywhere.Dialer(t, s), client.Options{Era: era})

		values, err := session.CompletePrompt(t.Context(), "greet", "name", "oa", map[string]string{"region": "north"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"oak", "north"}, values.Values); diff != "" {
			t.Error(diff)
		}
		values, err = session.CompleteTemplate(t.Context(), "app://users/{id}", "id", "el", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"elk", ""}, values.Values); diff != "" {
			t.Error(diff)
		}
	})
}
