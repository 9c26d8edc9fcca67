package era_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newLibrary offers something of each kind, and results that already say what an
// envelope says.
func newLibrary(hint mcp.CacheHint) *server.Server {
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

// calls has one call of each kind.
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
	p := eratest.Open(t, newLibrary(mcp.CacheHint{}), version, "{}")
	for method, params := range calls() {
		for range 2 { // the second list comes from what is kept
			answer := p.Call(method, params)
			if eratest.At(answer, "result") == "" {
				t.Errorf("%s is answered with %s", method, answer)
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
	// What a function says itself is kept, save for what only the envelope may say.
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
	p := eratest.Open(t, newLibrary(mcp.CacheHint{}), version, "{}")
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

// testHintOfServer: a server may say how long its lists hold.
func testHintOfServer(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newLibrary(mcp.CacheHint{TTLMs: 60_000, Scope: mcp.CachePublic}), version, "{}")
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

// testErrorCodes: the same failure has the code of the caller's version.
func testErrorCodes(t *testing.T, version mcp.Version) {
	s := newLibrary(mcp.CacheHint{})
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
