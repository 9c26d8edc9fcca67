package era_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newOrnate offers things with all that the newest version has words for.
func newOrnate() *server.Server {
	s := server.New(mcp.Implementation{Name: "ornate", Version: "1"}, nil)
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

// testListedMembers: a list says nothing that its reader's version has no word
// for. MCP 2024-11-05 to 2026-07-28, schema.ts.
func testListedMembers(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newOrnate(), version, "{}")
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
	// Other things of the same names stay.
	eratest.WantIf(t, tools, true, "result", "tools", "0", "inputSchema", "properties", "title")
	eratest.WantIf(t, p.Call(mcp.MethodResourcesList, ""), true, "result", "resources", "0", "annotations")
	eratest.Want(t, p.Call(mcp.MethodPromptsList, ""), `"title"`, "result", "prompts", "0", "arguments", "0", "name")
}

func testStructuredContent(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newOrnate(), version, "{}")
	point := p.Call(mcp.MethodToolsCall, `{"name":"point"}`)
	eratest.Want(t, point, onlyIf(version >= mcp.Version20250618, `{"x":7}`), "result", "structuredContent")
	list := p.Call(mcp.MethodToolsCall, `{"name":"list"}`)
	eratest.Want(t, list, onlyIf(version.Modern(), `[1,2]`), "result", "structuredContent")
	count := p.Call(mcp.MethodToolsCall, `{"name":"count"}`)
	eratest.Want(t, count, onlyIf(version.Modern(), `3`), "result", "structuredContent")
	// The text says it in every version.
	for answer, text := range map[string]string{point: `{"x":7}`, list: "[1,2]", count: "3"} {
		if eratest.Said(answer) != text {
			t.Errorf("the text is %q, want %q", eratest.Said(answer), text)
		}
	}
}

func testContentKinds(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newOrnate(), version, "{}")
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
		t.Errorf("a link has lost its address: %s", answer)
	}
	song := p.Call(mcp.MethodPromptsGet, `{"name":"sing"}`)
	eratest.Want(t, song, audio, "result", "messages", "0", "content", "type")
	eratest.Want(t, song, link, "result", "messages", "1", "content", "type")
	eratest.Want(t, song, `"sing"`, "result", "messages", "2", "content", "text")
}

// What a server further on has said of itself is for the hop that it came by: a caller is
// told of this one, where its version has words for that, and of nobody otherwise.
func TestResultsNameThisServerOnly(t *testing.T) {
	synctest.Test(t, testResultsNameThisServerOnly)
}

func testResultsNameThisServerOnly(t *testing.T) {
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

// What is left out of something leaves the white space around it as it was.
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
