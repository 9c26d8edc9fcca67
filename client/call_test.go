package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type sumIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

type pair struct {
	Sum  int   `json:"sum"`
	Both []int `json:"both"`
}

// newSampler is a server with one entry of each kind.
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
	server.AddTool(s, server.Tool{Name: "fail"}, func(context.Context, *server.Request, noServer) (int, error) {
		return 0, errors.New("the oven is cold")
	})
	server.AddTool(s, server.Tool{Name: "silent"}, func(context.Context, *server.Request, noServer) ([]mcp.Content, error) {
		return nil, nil
	})
	server.AddTool(s, server.Tool{Name: "meta"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
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
		ctx, session := t.Context(), connect(t, transporttests.Dialer(t, newSampler()), client.Options{Era: era})

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
		motto, err := session.ReadResource(ctx, "app://motto", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := motto.Contents[0].(*mcp.TextResourceContents).Text; got != "measure twice" {
			t.Errorf("the resource reads %q", got)
		}
		if _, err := session.ReadResource(ctx, "app://nothing", nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("reading what does not exist: %v", err)
		}
		prompt, err := session.GetPrompt(ctx, "greet", map[string]string{"name": "Ada"}, nil)
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

// code returns the code of the server's error, or 0.
func code(err error) jsonrpc.Code {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Code
	}
	return 0
}

func TestCallAs(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		ctx, session := t.Context(), connect(t, transporttests.Dialer(t, newSampler()), client.Options{Era: era})

		got, err := client.CallAs[pair](ctx, session, "add", sumIn{2, 3}, nil)
		if diff := cmp.Diff(pair{5, []int{2, 3}}, got); err != nil || diff != "" {
			t.Errorf("structured content: %v\n%s", err, diff)
		}
		if got, err := client.CallAs[string](ctx, session, "say", map[string]string{"word": "oak"}, nil); err != nil || got != "oak" {
			t.Errorf("text: %q, %v", got, err)
		}
		if got, err := client.CallAs[string](ctx, session, "add", sumIn{2, 3}, nil); err != nil || got != `{"sum":5,"both":[2,3]}` {
			t.Errorf("text beside structured content: %q, %v", got, err)
		}
		if got, err := client.CallAs[pair](ctx, session, "say", map[string]string{"word": `{"sum":7}`}, nil); err != nil || got.Sum != 7 {
			t.Errorf("JSON in text: %v, %v", got, err)
		}
		if got, err := client.CallAs[json.RawMessage](ctx, session, "say", map[string]string{"word": `[1, 2]`}, nil); err != nil || string(got) != "[1, 2]" {
			t.Errorf("raw JSON in text: %s, %v", got, err)
		}

		_, err = client.CallAs[int](ctx, session, "fail", nil, nil)
		failure, ok := errors.AsType[*client.ToolError](err)
		if !ok || failure.Tool != "fail" || !failure.Result.IsError {
			t.Fatalf("a tool that fails: %v", err)
		}
		if err.Error() != `tool "fail": the oven is cold` {
			t.Errorf("the error reads %q", err)
		}
		_, err = client.CallAs[[]string](ctx, session, "add", sumIn{2, 3}, nil)
		if misfit, ok := errors.AsType[*client.ResultError](err); !ok || misfit.Tool != "add" || !strings.Contains(err.Error(), `tool "add" has run; its result does not fit []string`) {
			t.Errorf("a wrong type: %v", err)
		}
		if _, err := client.CallAs[int](ctx, session, "say", map[string]string{"word": "oak"}, nil); err == nil {
			t.Error("text that is no number became one")
		}
		if _, err := client.CallAs[int](ctx, session, "silent", nil, nil); err == nil || !strings.Contains(err.Error(), "neither structured content nor text") {
			t.Errorf("nothing to decode: %v", err)
		}
	})
}

// TestCallAsStructured checks that structured content is the result unless the tool has failed, and
// that its text is not read.
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
		"odd":            {`{"content":[],"structuredContent":"7"}`, "result does not fit int"},
		"no object":      {`[7]`, "must be an object"},
	} {
		session := connect(t, answering(func(req *jsonrpc.Request) []string { return []string{result(req, test.result)} }), client.Options{Era: client.Legacy})
		got, err := client.CallAs[int](t.Context(), session, "x", nil, nil)
		if test.err == "" && (err != nil || got != 7) || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: got %d, %v", name, got, err)
		}
	}
}

func TestArgumentsMustBeAnObject(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		ctx, session := t.Context(), connect(t, transporttests.Dialer(t, newSampler()), client.Options{Era: era})
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

// TestRawArgumentsKeepTheirBytes: escapes, half surrogate pairs included, numbers and spaces arrive as
// they were written.
func TestRawArgumentsKeepTheirBytes(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var got json.RawMessage
		s := newServer(nil)
		server.AddRawTool(s, server.Tool{Name: "take", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				got = bytes.Clone(arguments)
				return mcp.Raw(`{"content":[]}`), nil
			})
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era})
		for _, want := range []string{
			`{"a":"\ud83d","\udc00":["\uD83D\u0041","\ud83d\ude00"]}`, `{"a": 1.50, "b":1e400, "\u0061b":"\/"}`,
		} {
			if _, err := session.CallTool(t.Context(), "take", json.RawMessage(want), nil); err != nil || string(got) != want {
				t.Errorf("%s arrives as %s, %v", want, got, err)
			}
		}
	})
}

// TestNilArgumentsAreNone: of both kinds, a tool gets an empty object.
func TestNilArgumentsAreNone(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, transporttests.Dialer(t, newSampler()), client.Options{Era: era})
		for _, arguments := range []any{nil, json.RawMessage(nil)} {
			if result, err := session.CallTool(t.Context(), "silent", arguments, nil); err != nil || result.IsError {
				t.Errorf("%#v: %v, %v", arguments, result, err)
			}
		}
	})
}

// TestArgumentsAreNotChanged checks that the protocol's metadata is added to a copy of the caller's
// values.
func TestArgumentsAreNotChanged(t *testing.T) {
	const trace = `{"example.com/trace":"t1","io.modelcontextprotocol/protocolVersion":"forged","progressToken":"forged"}`
	opts := &client.CallOptions{Meta: mcp.Meta(trace), Progress: func(*mcp.ProgressParams) {}}
	arguments := json.RawMessage(`{"a": 1, "b": 2}`)
	params := json.RawMessage(`{"uri": "app://motto", "_meta": {"x": 1}}`)
	modern := connect(t, transporttests.Dialer(t, newSampler()), client.Options{Era: client.Modern})
	legacy := connect(t, transporttests.Dialer(t, newSampler()), client.Options{Era: client.Legacy})

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
			if _, err := session.GetPrompt(t.Context(), "greet", map[string]string{"name": strconv.Itoa(i)}, opts); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if string(opts.Meta) != trace || string(arguments) != `{"a": 1, "b": 2}` || string(params) != `{"uri": "app://motto", "_meta": {"x": 1}}` {
		t.Errorf("changed: %s, %s, %s", opts.Meta, arguments, params)
	}
}

// lastError returns the last error of a sequence.
func lastError[T any](list iter.Seq2[T, error]) (last error) {
	for _, err := range list {
		last = err
	}
	return last
}

// TestMetaIsSent checks that CallOptions.Meta is sent with every kind of call.
func TestMetaIsSent(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		seen := make(chan string, 1)
		s := newServer(&server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				seen <- call.Method() + " " + string(call.Member("_meta", "k"))
				return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "no"}
			}
		}}})
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era})
		opts := &client.CallOptions{Meta: mcp.Meta(`{"k":1}`)}
		for method, call := range map[string]func() error{
			mcp.MethodToolsCall:             func() error { _, err := session.CallTool(t.Context(), "x", nil, opts); return err },
			mcp.MethodPromptsGet:            func() error { _, err := session.GetPrompt(t.Context(), "x", nil, opts); return err },
			mcp.MethodResourcesRead:         func() error { _, err := session.ReadResource(t.Context(), "app://x", opts); return err },
			mcp.MethodPromptsList:           func() error { return lastError(session.Prompts(t.Context(), opts)) },
			mcp.MethodToolsList:             func() error { return lastError(session.Tools(t.Context(), opts)) },
			mcp.MethodResourcesList:         func() error { return lastError(session.Resources(t.Context(), opts)) },
			mcp.MethodResourceTemplatesList: func() error { return lastError(session.Templates(t.Context(), opts)) },
			mcp.MethodComplete: func() error {
				_, err := session.CompletePrompt(t.Context(), "x", "a", "", nil, opts)
				return err
			},
			"tools/call as":     func() error { _, err := client.CallAs[int](t.Context(), session, "x", nil, opts); return err },
			"tools/call stream": func() error { return lastError(session.Stream(t.Context(), "x", nil, opts)) },
			"example/any":       func() error { _, err := session.Call(t.Context(), "example/any", nil, opts); return err },
			"example/more": func() error {
				_, err := session.Call(t.Context(), "example/more", json.RawMessage(`{"_meta":{"j":2}}`), opts)
				return err
			},
		} {
			if err := call(); code(err) == 0 {
				t.Errorf("%s: %v, want the server's refusal", method, err)
			}
			wire, _, _ := strings.Cut(method, " ")
			if got := waittest.Receive(t, "the message", seen); got != wire+" 1" {
				t.Errorf("the server sees %s, want %s 1", got, wire)
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
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era})

		values, err := session.CompletePrompt(t.Context(), "greet", "name", "oa", map[string]string{"region": "north"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"oak", "north"}, values.Values); diff != "" {
			t.Error(diff)
		}
		values, err = session.CompleteTemplate(t.Context(), "app://users/{id}", "id", "el", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"elk", ""}, values.Values); diff != "" {
			t.Error(diff)
		}
	})
}

func toolNames(t *testing.T, session *client.Session) ([]string, error) {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			return names, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func TestListsArePaged(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var pages int
		s := newServer(&server.Options{PageSize: 2, Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				pages++
				return next(ctx, call)
			}
		}}})
		var want []string
		for i := range 5 {
			name := fmt.Sprintf("tool-%d", i)
			want = append(want, name)
			server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, noServer) (string, error) { return "", nil })
			server.AddPrompt(s, server.Prompt{Name: name}, func(context.Context, *server.Request, noServer) (string, error) { return "", nil })
			server.AddResource(s, server.Resource{URI: "app://" + name, Name: name}, func(context.Context, *server.Request) (string, error) { return "", nil })
			server.AddTemplate(s, server.Template{URITemplate: "app://" + name + "/{x}", Name: name}, func(context.Context, *server.Request, map[string]string) (string, error) { return "", nil })
		}
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era})
		lists := map[string][]string{}
		add := func(kind, name string, err error) {
			if err != nil {
				t.Fatal(err)
			}
			lists[kind] = append(lists[kind], name)
		}
		for x, err := range session.Tools(t.Context(), nil) {
			add("tools", x.Name, err)
		}
		for x, err := range session.Prompts(t.Context(), nil) {
			add("prompts", x.Name, err)
		}
		for x, err := range session.Resources(t.Context(), nil) {
			add("resources", x.Name, err)
		}
		for x, err := range session.Templates(t.Context(), nil) {
			add("templates", x.Name, err)
		}
		if diff := cmp.Diff(map[string][]string{"tools": want, "prompts": want, "resources": want, "templates": want}, lists); diff != "" {
			t.Error(diff)
		}
		if pages != 12 {
			t.Errorf("%d pages were asked for, want 12", pages)
		}

		pages = 0
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name == "tool-1" {
				break
			}
		}
		if pages != 1 {
			t.Errorf("a reader that stopped on the first page made the client ask for %d", pages)
		}
	})
}

// book is a server whose list of tools has the pages that turn returns for a
// cursor, the raw JSON of which is "" on the first page.
func book(turn func(cursor string) (tools, next string)) script {
	return func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsList {
			return nil
		}
		tools, next := turn(string(req.Member("cursor")))
		list := fmt.Sprintf(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[%s]`, tools)
		if next != "" {
			list += `,"nextCursor":` + next
		}
		return []string{result(req, list+"}")}
	}
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func TestCursors(t *testing.T) {
	endless := 0
	tests := map[string]struct {
		turn  func(cursor string) (tools, next string)
		names []string
		err   string
		log   string
	}{
		"null ends the list": {
			turn:  func(string) (string, string) { return tool("a"), `null` },
			names: []string{"a"},
		},
		"empty is a cursor like any other": {
			turn: func(cursor string) (string, string) {
				if cursor == "" {
					return tool("a"), `""`
				}
				return tool("b") + "," + tool(cursor), ""
			},
			names: []string{"a", "b", `""`},
		},
		"kept as it is": {
			turn: func(cursor string) (string, string) {
				if cursor == "" {
					return "", `"\u0041/ \"x\""`
				}
				return tool(cursor), ""
			},
			names: []string{`"A/ \"x\""`},
		},
		"an empty page is not the last": {
			turn: func(cursor string) (string, string) {
				if cursor == "" {
					return "", `"n"`
				}
				return tool("b"), ""
			},
			names: []string{"b"},
		},
		"a circle": {
			turn: func(cursor string) (string, string) {
				if cursor == `"1"` {
					return tool("b"), `"2"`
				}
				return tool("a"), `"1"`
			},
			names: []string{"a", "b", "a"},
			log:   "repeats a cursor",
		},
		"no end": {
			turn: func(string) (string, string) {
				endless++
				return "", fmt.Sprintf(`"%d"`, endless)
			},
			err: "more than 64 pages",
		},
		"a number": {
			turn:  func(string) (string, string) { return tool("a"), `7` },
			names: []string{"a"},
			err:   "nextCursor",
		},
		"always empty": {
			turn:  func(string) (string, string) { return tool("a"), `""` },
			names: []string{"a"},
			log:   "repeats a page",
		},
		"always empty after the last page": {
			turn: func(cursor string) (string, string) {
				if cursor == "" {
					return tool("a"), `"2"`
				}
				return tool("b"), `""`
			},
			names: []string{"a", "b"},
			log:   "repeats a page",
		},
		"always empty without entries": {
			turn: func(string) (string, string) { return "", `""` },
			log:  "repeats a page",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			session := connect(t, book(test.turn), client.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			names, err := toolNames(t, session)
			if !strings.Contains(log.String(), test.log) || (test.log == "" && log.Len() > 0) {
				t.Errorf("the log is %q, want %q", log.String(), test.log)
			}
			if diff := cmp.Diff(test.names, names); diff != "" {
				t.Error(diff)
			}
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("the error is %v, want one that says %q", err, test.err)
			}
			if test.err != "" {
				failed(t, err, jsonrpc.MaybeExecuted)
			}
		})
	}
}

func TestLimitPages(t *testing.T) {
	turned := 0
	session := connect(t, book(func(string) (string, string) {
		turned++
		return tool("x"), fmt.Sprintf(`"%d"`, turned)
	}), client.Options{Limits: client.Limits{Pages: 3}})
	names, err := toolNames(t, session)
	if err == nil || len(names) != 2 || turned != 3 {
		t.Errorf("%d pages were turned, names %v, error %v; want 3 pages, the tools of 2 and an error", turned, names, err)
	}
}

// wantDuration runs fn and checks how much virtual time has passed.
func wantDuration(t *testing.T, want time.Duration, fn func()) {
	t.Helper()
	began := time.Now()
	fn()
	if took := time.Since(began); took != want {
		t.Errorf("it took %v, want %v", took, want)
	}
}

// newWaitingServer is a server with tools that report progress or send chunks every 50 s, ask their
// caller, or never end.
func newWaitingServer() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "step"}, func(ctx context.Context, r *server.Request, in stepsIn) (int, error) {
		for i := range in.Steps {
			select {
			case <-time.After(50 * time.Second):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			_ = r.Progress(ctx, float64(i+1), 0, "")
		}
		return in.Steps, nil
	})
	server.AddTool(s, server.Tool{Name: "ask"}, func(ctx context.Context, r *server.Request, _ noServer) (string, error) {
		return server.Elicit[string](r, "name", "Your name?")
	})
	server.AddTool(s, server.Tool{Name: "hang"}, func(ctx context.Context, _ *server.Request, _ noServer) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	server.AddStream(s, server.Tool{Name: "chunks"}, func(ctx context.Context, _ *server.Request, in stepsIn) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range in.Steps {
				select {
				case <-time.After(50 * time.Second):
				case <-ctx.Done():
					return
				}
				if !yield(i, nil) {
					return
				}
			}
		}
	}, server.LastChunk)
	return s
}

// TestProgressExtendsTheTimeout checks the timeout of one minute without progress.
func TestProgressExtendsTheTimeout(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			session := connect(t, transport.Pipe(newWaitingServer()), client.Options{Era: era})
			wantDuration(t, 500*time.Second, func() {
				steps, told := 10, 0
				result, err := session.CallTool(t.Context(), "step", stepsIn{steps}, &client.CallOptions{Progress: func(*mcp.ProgressParams) { told++ }})
				if err != nil || result.IsError || told != steps {
					t.Errorf("the call ends with %v, %v after %d reports", result, err, told)
				}
			})
			wantDuration(t, time.Minute, func() {
				_, err := session.CallTool(t.Context(), "step", stepsIn{10}, nil)
				failed(t, err, jsonrpc.MaybeExecuted)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second)
			defer cancel()
			wantDuration(t, 75*time.Second, func() {
				_, err := session.CallTool(ctx, "step", stepsIn{10}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}})
				failed(t, err, jsonrpc.MaybeExecuted)
			})
		})
	})
}

// TestQuestionsDoNotCount checks that the timeout does not count the time that a person takes to
// answer.
func TestQuestionsDoNotCount(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			session := connect(t, transport.Pipe(newWaitingServer()), client.Options{
				Era: era,
				Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					<-time.After(5 * time.Minute)
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"Ann"}`)}, nil
				},
			})
			wantDuration(t, 5*time.Minute, func() {
				name, err := client.CallAs[string](t.Context(), session, "ask", nil, nil)
				if err != nil || name != "Ann" {
					t.Errorf("the call gives %q, %v", name, err)
				}
			})
		})
	})
}

// A poolingDialer is a transport that reads responses into pooled buffers.
type poolingDialer struct {
	transport.Dialer
	pool bufpool.Pool
	held []*bufpool.Buffer
}

// freed overwrites the buffers that were freed, and returns their number.
func (p *poolingDialer) freed() (n int) {
	for _, buffer := range p.held {
		if len(buffer.Bytes) == 0 {
			clear(buffer.Bytes[:cap(buffer.Bytes)])
			n++
		}
	}
	p.held = nil
	return n
}

func (p *poolingDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := p.Dialer.Dial(ctx, handler)
	return poolingConn{conn, p}, err
}

type poolingConn struct {
	transport.Conn
	dialer *poolingDialer
}

func (c poolingConn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	if holder, ok := params.(bufpool.Holder); ok && err == nil {
		buffer := c.dialer.pool.Get()
		buffer.Bytes = append(buffer.Bytes, resp.Result...)
		resp.Result = buffer.Bytes
		c.dialer.held = append(c.dialer.held, buffer)
		holder.Hold(buffer)
	}
	return resp, err
}

// TestResponseBuffersAreFreed checks that the buffer of every response is freed, and not used
// afterwards.
func TestResponseBuffersAreFreed(t *testing.T) {
	for _, test := range []struct {
		name, ttl string
		answers   [4]string
		freed     int
	}{
		{"answers without a cache", "0", [4]string{"v0", "v1", "v2", "v3"}, 4},
		{"cached answers", "60000", [4]string{"v0", "v0", "v1", "v1"}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dialer := &poolingDialer{Dialer: script((&library{ttl: test.ttl}).script)}
			session := connect(t, dialer, client.Options{})
			freed := 0
			for i, want := range test.answers {
				var got string
				if i < 2 {
					got = list(t, session)
				} else {
					got = read(t, session, "a:1")
				}
				freed += dialer.freed()
				expect(t, want, got)
			}
			if freed != test.freed {
				t.Errorf("%d buffers were freed, want %d", freed, test.freed)
			}
		})
	}
}

// TestArgumentsOutliveAPanic checks that arguments stay valid after a callback has panicked, since
// the call continues.
func TestArgumentsOutliveAPanic(t *testing.T) {
	type in struct{ Who string }
	type answer struct{ OK bool }
	asked, gate := make(chan string, 2), make(chan struct{})
	s := server.New(mcp.Implementation{Name: "s"}, nil)
	server.AddTool(s, server.Tool{Name: "asks"}, func(ctx context.Context, r *server.Request, i in) (string, error) {
		asked <- i.Who
		if err := r.Progress(ctx, 1, 2, ""); err != nil {
			return "", err
		}
		<-gate
		_, err := server.Elicit[answer](r, "key", "sure?")
		return "", err
	})
	server.AddTool(s, server.Tool{Name: "other"}, func(context.Context, *server.Request, in) (string, error) { return "", nil })
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{
		Era: client.Modern,
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: []byte(`{"OK":true}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	func() {
		defer func() { recover() }()
		opts := &client.CallOptions{Progress: func(*mcp.ProgressParams) { panic("a fault of the callback") }}
		_, err := session.CallTool(t.Context(), "asks", in{strings.Repeat("one ", 50)}, opts)
		t.Errorf("the callback has not panicked: %v", err)
	}()
	for range 3 {
		if _, err := session.CallTool(t.Context(), "other", in{strings.Repeat("two ", 50)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	for range 2 {
		select {
		case who := <-asked:
			if !strings.HasPrefix(who, "one ") {
				t.Errorf("the call got the arguments of another: %q", who)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the call was not made again as it was")
		}
	}
}

func TestErasAsText(t *testing.T) {
	for era, want := range map[client.Era]string{client.Auto: "auto", client.Modern: "modern", client.Legacy: "legacy", 9: "Era(9)"} {
		if got := era.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestStreamProgress checks that the progress of a stream is reported before its chunks, with the
// number of all chunks.
func TestStreamProgress(t *testing.T) {
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsCall {
			return nil
		}
		progress := func(n int, message string) string {
			return notification(mcp.NotificationProgress, fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":3%s}`, req.Member("_meta", "progressToken"), n, message))
		}
		return []string{
			progress(0, `,"message":"1"`), progress(1, `,"message":"2"`), progress(2, `,"message":"3"`), progress(3, ``),
			result(req, text("done")),
		}
	}), client.Options{})
	var events []string
	opts := &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
		events = append(events, fmt.Sprintf("%v of %v", p.Progress, *p.Total))
	}}
	for chunk, err := range session.Stream(t.Context(), "x", nil, opts) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, string(chunk))
	}
	if diff := cmp.Diff([]string{"0 of 3", "1", "1 of 3", "2", "2 of 3", "3", "3 of 3"}, events); diff != "" {
		t.Error(diff)
	}
}
