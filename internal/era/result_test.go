package era_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newDecoratedServer returns a server with entries and results that use all members of the newest
// version.
func newDecoratedServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "ornate", Version: "1"}, &server.Options{RegistrationOrder: true})
	icons := []mcp.Icon{{Src: "https://ornate.example/icon.png"}}
	meta := mcp.Meta(`{"org.example/x":1}`)
	server.AddTool(s, server.Tool{
		Name: "point", Title: "Point", Icons: icons, Meta: meta, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)},
	}, func(context.Context, *server.Request, struct {
		Title string `json:"title,omitempty"`
	}) (struct {
		X int `json:"x"`
	}, error) {
		return struct {
			X int `json:"x"`
		}{7}, nil
	})
	server.AddTool(s, server.Tool{Name: "list"}, func(context.Context, *server.Request, struct{}) ([]int, error) { return []int{1, 2}, nil })
	server.AddTool(s, server.Tool{Name: "count"}, func(context.Context, *server.Request, struct{}) (int, error) { return 3, nil })
	server.AddTool(s, server.Tool{Name: "media"}, func(context.Context, *server.Request, struct{}) ([]mcp.Content, error) {
		return []mcp.Content{
			mcp.Text("resource_link"),
			&mcp.AudioContent{Data: []byte("hum"), MIMEType: "audio/wav"},
			&mcp.ResourceLink{URI: "file:///a", Name: "a"},
		}, nil
	})
	server.AddResource(s, server.Resource{URI: "app:x", Title: "X", Icons: icons, Meta: meta, Annotations: &mcp.Annotations{}},
		func(context.Context, *server.Request) (string, error) { return "x", nil })
	server.AddTemplate(s, server.Template{URITemplate: "app:{x}/y", Title: "X", Icons: icons, Meta: meta},
		func(context.Context, *server.Request, map[string]string) (string, error) { return "x", nil })
	server.AddPrompt(s, server.Prompt{Name: "sing", Title: "Sing", Icons: icons, Meta: meta}, func(_ context.Context, _ *server.Request, args struct {
		Title string `json:"title,omitempty"`
	}) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: &mcp.AudioContent{Data: []byte("hum"), MIMEType: "audio/wav"}},
			{Role: mcp.RoleUser, Content: &mcp.ResourceLink{URI: "file:///a", Name: "a"}},
			{Role: mcp.RoleUser, Content: mcp.Text("sing")},
		}, nil
	})
	return s
}

// testListedMembers checks that lists have only members of the client's version. MCP 2024-11-05
// to 2026-07-28, schema.ts.
func testListedMembers(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newDecoratedServer(), version, "{}")
	for method, list := range map[string]string{
		mcp.MethodToolsList: "tools", mcp.MethodPromptsList: "prompts",
		mcp.MethodResourcesList: "resources", mcp.MethodResourceTemplatesList: "resourceTemplates",
	} {
		answer := p.Call(method, "")
		eratest.WantIf(t, answer, version >= mcp.Version20250618, "result", list, "0", "title")
		eratest.WantIf(t, answer, version >= mcp.Version20250618, "result", list, "0", "_meta")
		eratest.WantIf(t, answer, version >= mcp.Version20251125, "result", list, "0", "icons")
	}
	tools := p.Call(mcp.MethodToolsList, "")
	eratest.WantIf(t, tools, version >= mcp.Version20250326, "result", "tools", "0", "annotations")
	eratest.WantIf(t, tools, version >= mcp.Version20250618, "result", "tools", "0", "outputSchema")
	eratest.WantIf(t, tools, version.Modern(), "result", "tools", "1", "outputSchema") // of an array
	eratest.WantIf(t, tools, version.Modern(), "result", "tools", "2", "outputSchema") // of a number
	// Other members with the same names are not removed.
	eratest.WantIf(t, tools, true, "result", "tools", "0", "inputSchema", "properties", "title")
	eratest.WantIf(t, p.Call(mcp.MethodResourcesList, ""), true, "result", "resources", "0", "annotations")
	eratest.Want(t, p.Call(mcp.MethodPromptsList, ""), `"title"`, "result", "prompts", "0", "arguments", "0", "name")
}

func testStructuredContent(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newDecoratedServer(), version, "{}")
	point := p.Call(mcp.MethodToolsCall, `{"name":"point"}`)
	eratest.Want(t, point, onlyIf(version >= mcp.Version20250618, `{"x":7}`), "result", "structuredContent")
	list := p.Call(mcp.MethodToolsCall, `{"name":"list"}`)
	eratest.Want(t, list, onlyIf(version.Modern(), `[1,2]`), "result", "structuredContent")
	count := p.Call(mcp.MethodToolsCall, `{"name":"count"}`)
	eratest.Want(t, count, onlyIf(version.Modern(), `3`), "result", "structuredContent")
	// The text content is the same in every version.
	for answer, text := range map[string]string{point: `{"x":7}`, list: "[1,2]", count: "3"} {
		if eratest.ResultText(answer) != text {
			t.Errorf("the text is %q, want %q", eratest.ResultText(answer), text)
		}
	}
}

func testContentKinds(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newDecoratedServer(), version, "{}")
	audio, link := `"audio"`, `"resource_link"`
	if version < mcp.Version20250326 {
		audio = `"text"`
	}
	if version < mcp.Version20250618 {
		link = `"text"`
	}
	answer := p.Call(mcp.MethodToolsCall, `{"name":"media"}`)
	eratest.Want(t, answer, `"resource_link"`, "result", "content", "0", "text")
	eratest.Want(t, answer, audio, "result", "content", "1", "type")
	eratest.Want(t, answer, link, "result", "content", "2", "type")
	if link == `"text"` && !strings.Contains(eratest.Text(answer, "result", "content", "2", "text"), "file:///a") {
		t.Errorf("the text has no URI: %s", answer)
	}
	song := p.Call(mcp.MethodPromptsGet, `{"name":"sing"}`)
	eratest.Want(t, song, audio, "result", "messages", "0", "content", "type")
	eratest.Want(t, song, link, "result", "messages", "1", "content", "type")
	eratest.Want(t, song, `"sing"`, "result", "messages", "2", "content", "text")
}

// The serverInfo of an upstream server is not forwarded. A caller receives the serverInfo of
// this server, if its version has that member.
func TestServerInfoOfResults(t *testing.T) {
	synctest.Test(t, testServerInfoOfResults)
}

func testServerInfoOfResults(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "near", Version: "1"}, nil)
	add := func(name, meta string) {
		server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.ContentList{}, Meta: mcp.Meta(meta)}, nil
		})
	}
	add("only", `{"io.modelcontextprotocol/serverInfo":{"name":"far","version":"1"}}`)
	add("more", `{"org.example/x":1,"io.modelcontextprotocol/serverInfo":{"name":"far","version":"1"}}`)
	for _, test := range []struct{ tool, modern, legacy string }{
		{"only", `{"io.modelcontextprotocol/serverInfo":{"name":"near","version":"1"}}`, ""},
		{"more", `{"org.example/x":1,"io.modelcontextprotocol/serverInfo":{"name":"near","version":"1"}}`, `{"org.example/x":1}`},
	} {
		for _, version := range mcp.Versions() {
			want := test.legacy
			if version.Modern() {
				want = test.modern
			}
			answer := eratest.Open(t, s, version, "{}").Call(mcp.MethodToolsCall, `{"name":"`+test.tool+`","arguments":{}}`)
			if got := eratest.At(answer, "result", "_meta"); got != want {
				t.Errorf("%s, %s: _meta is %s, want %s", version, test.tool, got, want)
			}
		}
	}
}

// A result that is not valid JSON is an internal error, and the log says what is wrong with it.
func TestMalformedResults(t *testing.T) {
	for name, result := range map[string]mcp.Result{
		"raw":  mcp.Raw(`{`),
		"tool": &mcp.CallToolResult{StructuredContent: []byte(`{`)},
		"task": &mcp.Task{TaskID: "t", Result: []byte(`{`)},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := server.New(mcp.Implementation{Name: "near", Version: "1"}, &server.Options{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Middleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
					return func(context.Context, *mcp.Call) (mcp.Result, error) { return result, nil }
				}},
			})
			server.AddTool(s, server.Tool{Name: "x"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
			answer := eratest.Open(t, s, mcp.LatestVersion, "{}").Call(mcp.MethodToolsCall, `{"name":"x"}`)
			if code := eratest.At(answer, "error", "code"); code != "-32603" || !strings.Contains(log.String(), "invalid JSON") {
				t.Errorf("%s: the answer is %s, the log is %s", name, answer, &log)
			}
		})
	}
}

// Removing a member does not change the white space of the others.
func TestFilterKeepsWhiteSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.New(mcp.Implementation{Name: "near", Version: "1"}, &server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if call.Method() != mcp.MethodPromptsGet {
					return next(ctx, call)
				}
				return mcp.Raw(`{ "messages" : [ {"role":"user" , "content":{"type":"text", "text":"a"}} , {"role":"user","content":{"type":"text","text":"b"} } ] , "resultType":"complete"}`), nil
			}
		}}})
		server.AddPrompt(s, server.Prompt{Name: "sing"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		want := `[ {"role":"user" , "content":{"type":"text", "text":"a"}} , {"role":"user","content":{"type":"text","text":"b"} } ]`
		for _, version := range mcp.Versions() {
			answer := eratest.Open(t, s, version, "{}").Call(mcp.MethodPromptsGet, `{"name":"sing"}`)
			if got := eratest.At(answer, "result", "messages"); got != want {
				t.Errorf("%s: the messages are %s, want %s", version, got, want)
			}
		}
	})
}

// newLibraryServer returns a server with an entry of each kind, and results that already have
// members of the envelope.
func newLibraryServer(hint mcp.CacheHint) *server.Server {
	s := server.New(mcp.Implementation{Name: "library", Version: "1"}, &server.Options{CacheHint: hint})
	server.AddTool(s, server.Tool{Name: "plain"}, func(context.Context, *server.Request, struct{}) (string, error) { return `"_meta"`, nil })
	server.AddTool(s, server.Tool{Name: "own"}, func(context.Context, *server.Request, struct{}) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{
			Content: []mcp.Content{mcp.Text("x")}, ResultType: "task", Meta: mcp.Meta(`{"org.example/x":1,"io.modelcontextprotocol/serverInfo":{"name":"imposter"}}`),
		}, nil
	})
	server.AddResource(s, server.Resource{URI: "book:1"}, func(context.Context, *server.Request) (string, error) { return "text", nil })
	server.AddResource(s, server.Resource{URI: "book:2"}, func(context.Context, *server.Request) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{
			Contents:  []mcp.ResourceContents{&mcp.TextResourceContents{URI: "book:2", Text: "text"}},
			CacheHint: mcp.CacheHint{TTLMs: 5, Scope: mcp.CachePublic},
		}, nil
	})
	server.AddTemplate(s, server.Template{URITemplate: "page:{n}"}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
		return "", mcp.ResourceNotFound("page:" + vars["n"])
	})
	server.AddPrompt(s, server.Prompt{Name: "review"}, func(context.Context, *server.Request, struct{}) (string, error) { return "Review it.", nil })
	server.AddCompletion(s, server.Completion{Template: "page:{n}", Argument: "n"},
		func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{"1"}, nil
		})
	return s
}

// calls returns the params of a call of each method.
func calls() map[string]string {
	return map[string]string{
		mcp.MethodToolsList:             "",
		mcp.MethodToolsCall:             `{"name":"plain"}`,
		mcp.MethodResourcesList:         "",
		mcp.MethodResourceTemplatesList: "",
		mcp.MethodResourcesRead:         `{"uri":"book:1"}`,
		mcp.MethodPromptsList:           "",
		mcp.MethodPromptsGet:            `{"name":"review"}`,
		mcp.MethodComplete:              `{"ref":{"type":"ref/resource","uri":"page:{n}"},"argument":{"name":"n","value":""}}`,
	}
}

func testEnvelope(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newLibraryServer(mcp.CacheHint{}), version, "{}")
	for method, params := range calls() {
		for range 2 { // the second list is cached
			answer := p.Call(method, params)
			if eratest.At(answer, "result") == "" {
				t.Errorf("the response to %s is %s", method, answer)
			}
			if !version.Modern() {
				eratest.Want(t, answer, "", "result", "resultType")
				eratest.Want(t, answer, "", "result", "_meta")
				continue
			}
			eratest.Want(t, answer, `"complete"`, "result", "resultType")
			eratest.Want(t, answer, `{"name":"library","version":"1"}`, "result", "_meta", mcp.MetaServerInfo)
		}
	}
	// Members of the result are kept, except for members that only the envelope may set.
	answer := p.Call(mcp.MethodToolsCall, `{"name":"own"}`)
	if !version.Modern() {
		eratest.Want(t, answer, "", "result", "resultType")
		return
	}
	eratest.Want(t, answer, "1", "result", "_meta", "org.example/x")
	eratest.Want(t, answer, `"library"`, "result", "_meta", mcp.MetaServerInfo, "name")
	eratest.Want(t, answer, `"complete"`, "result", "resultType")
}

func testCacheHints(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newLibraryServer(mcp.CacheHint{}), version, "{}")
	requests := calls()
	if version.Modern() {
		requests[mcp.MethodDiscover] = ""
	}
	for method, params := range requests {
		answer := p.Call(method, params)
		switch method {
		case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodComplete:
			eratest.Want(t, answer, "", "result", "ttlMs")
			eratest.Want(t, answer, "", "result", "cacheScope")
		default:
			eratest.Want(t, answer, onlyIf(version.Modern(), "0"), "result", "ttlMs")
			eratest.Want(t, answer, onlyIf(version.Modern(), `"private"`), "result", "cacheScope")
		}
	}
	own := p.Call(mcp.MethodResourcesRead, `{"uri":"book:2"}`)
	eratest.Want(t, own, onlyIf(version.Modern(), "5"), "result", "ttlMs")
	eratest.Want(t, own, onlyIf(version.Modern(), `"public"`), "result", "cacheScope")
}

// testHintOfServer checks the cache hint of the server's lists.
func testHintOfServer(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newLibraryServer(mcp.CacheHint{TTLMs: 60_000, Scope: mcp.CachePublic}), version, "{}")
	lists := []string{mcp.MethodToolsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodPromptsList}
	if version.Modern() {
		lists = append(lists, mcp.MethodDiscover)
	}
	for _, method := range lists {
		answer := p.Call(method, "")
		eratest.Want(t, answer, onlyIf(version.Modern(), "60000"), "result", "ttlMs")
		eratest.Want(t, answer, onlyIf(version.Modern(), `"public"`), "result", "cacheScope")
	}
}

func onlyIf(there bool, value string) string {
	if there {
		return value
	}
	return ""
}

// testErrorCodes checks that an error has the code of the caller's version.
func testErrorCodes(t *testing.T, version mcp.Version) {
	s := newLibraryServer(mcp.CacheHint{})
	server.AddTool(s, server.Tool{Name: "missing"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "", fmt.Errorf("reading: %w", mcp.ResourceNotFound("book:9"))
	})
	p := eratest.Open(t, s, version, "{}")
	notFound := mcp.CodeResourceNotFound
	if version.Modern() {
		notFound = jsonrpc.InvalidParams
	}
	for _, test := range []struct {
		method, params string
		code           jsonrpc.Code
	}{
		{mcp.MethodResourcesRead, `{"uri":"book:9"}`, notFound},
		{mcp.MethodResourcesRead, `{"uri":"page:9"}`, notFound},
		{mcp.MethodToolsCall, `{"name":"missing"}`, notFound},
		{mcp.MethodResourcesRead, `{}`, jsonrpc.InvalidParams},
		{mcp.MethodResourcesRead, `{"uri":7}`, jsonrpc.InvalidParams},
		{mcp.MethodToolsCall, `{"name":"unknown"}`, jsonrpc.InvalidParams},
		{mcp.MethodToolsCall, `{"name":"plain","arguments":[]}`, jsonrpc.InvalidParams},
		{mcp.MethodPromptsGet, `{"name":"unknown"}`, jsonrpc.InvalidParams},
		{mcp.MethodToolsList, `{"cursor":"bad"}`, jsonrpc.InvalidParams},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"unknown"},"argument":{"name":"x","value":""}}`, jsonrpc.InvalidParams},
	} {
		answer := p.Call(test.method, test.params)
		eratest.WantError(t, answer, test.code)
		if test.code == notFound && eratest.At(answer, "error", "data", "uri") == "" && test.code != jsonrpc.InvalidParams {
			t.Errorf("the error does not name the uri: %s", answer)
		}
	}
	eratest.Want(t, p.Call(mcp.MethodResourcesRead, `{"uri":"book:9"}`), `"book:9"`, "error", "data", "uri")
}
