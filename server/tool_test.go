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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server"
)

type orderIn struct {
	Bread  string   `json:"bread" jsonschema:"minLength=2"`
	Loaves int      `json:"loaves,omitempty" jsonschema:"default=1,minimum=1,maximum=12"`
	Notes  []string `json:"notes,omitempty"`
}

func newBakery() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, _ *server.Request, in orderIn) (orderIn, error) { return in, nil })
	return s
}

// TestArgumentErrors checks that a model gets all errors of its arguments in one result.
func TestArgumentErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newBakery(), era)
		for _, test := range []struct {
			arguments string
			says      []string
		}{
			{`{}`, []string{"bread"}},
			{`{"bread":7}`, []string{"/bread", "string", "7"}},
			{`{"bread":"x"}`, []string{"/bread", "2"}},
			{`{"bread":"rye","loaves":13}`, []string{"/loaves", "12", "13"}},
			{`{"bread":"rye","loaves":1.5}`, []string{"/loaves", "integer", "1.5"}},
			{`{"bread":"rye","notes":["a",null]}`, []string{"/notes/1", "null"}},
			{`{"bread":"rye","Loaves":2}`, []string{"Loaves", "loaves"}},
			{`{"bread":7,"loaves":0,"more":1}`, []string{"/bread", "/loaves", "more"}},
		} {
			result := call(t, session, "order", test.arguments)
			if !result.IsError {
				t.Errorf("order(%s) is no error", test.arguments)
			}
			for _, word := range test.says {
				if !strings.Contains(textOf(result), word) {
					t.Errorf("order(%s) says %q, which lacks %q", test.arguments, textOf(result), word)
				}
			}
		}
	})
}

func TestArguments(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newBakery(), era)
		got, err := client.CallAs[orderIn](t.Context(), session, "order", json.RawMessage(`{"loaves":1e1,"bread":"\u0072ye"}`), nil)
		if err != nil || got.Bread != "rye" || got.Loaves != 10 {
			t.Errorf("the tool got %+v, %v", got, err)
		}
		got, err = client.CallAs[orderIn](t.Context(), session, "order", json.RawMessage(`{"bread":"rye"}`), nil)
		if err != nil || got.Loaves != 1 {
			t.Errorf("the tool got %+v, %v; want the default of one loaf", got, err)
		}
	})
}

// TestMalformedCalls are the protocol's to refuse, not the tool's.
func TestMalformedCalls(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newBakery(), era)
		for _, params := range []string{
			`{"name":"order","arguments":[]}`, `{"name":"order","arguments":"{}"}`, `{"name":"order","arguments":7}`,
			`{"name":"unknown"}`, `{"name":"Order","arguments":{}}`, `{"name":7}`, `{}`, `{"Name":"order","arguments":{"bread":"rye"}}`,
		} {
			_, err := raw(t, session, mcp.MethodToolsCall, params)
			if wantCode(t, err, jsonrpc.InvalidParams); t.Failed() {
				t.Fatalf("with %s", params)
			}
		}
		_, err := raw(t, session, mcp.MethodToolsCall, `{"name":"order","arguments":{"bread":"a","bread":"b"}}`)
		if err == nil {
			return // a result for the model says so
		}
		if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok && failed.Delivery == jsonrpc.NotSent {
			return // the client has noticed: over HTTP it validates its own message
		}
		wantCode(t, err, jsonrpc.InvalidRequest)
	})
}

// TestNoArguments: none, null and an empty object are the same.
func TestNoArguments(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "ping"}, func(context.Context, *server.Request, struct{}) (string, error) { return "pong", nil })
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
			})
		session := connect(t, s, era)
		for _, params := range []string{`{"name":"ping"}`, `{"name":"ping","arguments":null}`, `{"name":"ping","arguments":{}}`} {
			if got, err := raw(t, session, mcp.MethodToolsCall, params); err != nil || !strings.Contains(got, "pong") {
				t.Errorf("%s gives %s, %v", params, got, err)
			}
		}
		for _, params := range []string{`{"name":"raw"}`, `{"name":"raw","arguments":null}`} {
			if got, err := raw(t, session, mcp.MethodToolsCall, params); err != nil || !strings.Contains(got, `"text":"{}"`) {
				t.Errorf("%s gives %s, %v", params, got, err)
			}
		}
	})
}

// TestExactNumbers: integers keep their digits, both ways.
func TestExactNumbers(t *testing.T) {
	const big = "9007199254740993" // 2^53+1
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		type numbers struct {
			N int64          `json:"n"`
			U uint64         `json:"u,omitempty"`
			X map[string]any `json:"x,omitempty"`
		}
		server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in numbers) (numbers, error) { return in, nil })
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				return &mcp.CallToolResult{StructuredContent: arguments}, nil
			})
		session := connect(t, s, era)
		result := call(t, session, "echo", `{"n":`+big+`,"u":18446744073709551615}`)
		if got, want := string(result.StructuredContent), `{"n":`+big+`,"u":18446744073709551615}`; got != want {
			t.Errorf("the tool gives %s, want %s", got, want)
		}
		if result := call(t, session, "echo", `{"n":9223372036854775808}`); !result.IsError {
			t.Errorf("a number beyond int64 gives %s", textOf(result))
		}
		const exact = `{"z":1.10, "a":1e400,"n":` + big + `}`
		if got := string(call(t, session, "raw", exact).StructuredContent); got != exact {
			t.Errorf("the raw tool gives %s, want %s", got, exact)
		}
	})
}

// TestNoEscaping: characters that only HTML minds arrive as they are.
func TestNoEscaping(t *testing.T) {
	const text = `<b>&"\` + "\u2028é\n"
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		type out struct {
			Text string `json:"text"`
		}
		server.AddTool(s, server.Tool{Name: "text"}, func(context.Context, *server.Request, struct{}) (string, error) { return text, nil })
		server.AddTool(s, server.Tool{Name: "struct"}, func(context.Context, *server.Request, struct{}) (out, error) { return out{text}, nil })
		server.AddResource(s, server.Resource{URI: "app:json"}, func(context.Context, *server.Request) (out, error) { return out{"<b>"}, nil })
		session := connect(t, s, era)
		if got := textOf(call(t, session, "text", `{}`)); got != text {
			t.Errorf("the text is %q, want %q", got, text)
		}
		result, err := raw(t, session, mcp.MethodToolsCall, `{"name":"struct"}`)
		if err != nil || !strings.Contains(result, `{"text":"<b>&`) || strings.Contains(result, `u003c`) {
			t.Errorf("the result is %s, %v", result, err)
		}
		read, err := session.ReadResource(t.Context(), "app:json", nil)
		if err != nil || read.Contents[0].(*mcp.TextResourceContents).Text != `{"text":"<b>"}` {
			t.Errorf("the resource is %+v, %v", read, err)
		}
	})
}

// returns adds a tool that returns out.
func returns[Out any](s *server.Server, name string, out Out) {
	name = strings.ReplaceAll(name, " ", "_")
	server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (Out, error) { return out, nil })
}

type point struct {
	X int `json:"x"`
	Y int `json:"y,omitzero"`
}

// TestResults: what a function returns decides what its caller gets.
func TestResults(t *testing.T) {
	s := newServer(nil)
	returns(s, "string", "text")
	returns[mcp.Content](s, "content", mcp.Text("text"))
	returns(s, "text content", mcp.Text("text"))
	returns(s, "contents", []mcp.Content{mcp.Text("a"), mcp.Text("b")})
	returns(s, "content list", mcp.ContentList{mcp.Text("a")})
	returns(s, "result", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("own")}, IsError: true})
	returns[*mcp.CallToolResult](s, "nil result", nil)
	returns[any](s, "nil", nil)
	returns[any](s, "any string", "text")
	returns[any](s, "any content", mcp.Text("text"))
	returns[any](s, "any contents", []mcp.Content{mcp.Text("a")})
	returns[any](s, "any result", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("own")}})
	returns[any](s, "any value", point{1, 2})
	returns(s, "struct", point{1, 2})
	returns(s, "pointer", &point{X: 1})
	returns(s, "slice", []point{{1, 2}})
	returns(s, "map", map[string]int{"b": 2, "a": 1})
	returns(s, "int", 7)
	returns(s, "bool", true)
	returns(s, "raw", json.RawMessage(`{"b":1,"a":[1,2]}`))

	modern, legacy := connect(t, s, client.Modern), connect(t, s, client.Legacy)
	for _, test := range []struct{ tool, text, structured string }{
		{"string", "text", ""},
		{"content", "text", ""},
		{"text content", "text", ""},
		{"contents", "a\nb", ""},
		{"content list", "a", ""},
		{"result", "own", ""},
		{"nil result", "", ""},
		{"nil", "", ""},
		{"any string", "text", ""},
		{"any content", "text", ""},
		{"any contents", "a", ""},
		{"any result", "own", ""},
		{"any value", `{"x":1,"y":2}`, `{"x":1,"y":2}`},
		{"struct", `{"x":1,"y":2}`, `{"x":1,"y":2}`},
		{"pointer", `{"x":1}`, `{"x":1}`},
		{"slice", `[{"x":1,"y":2}]`, `[{"x":1,"y":2}]`},
		{"map", `{"a":1,"b":2}`, `{"a":1,"b":2}`},
		{"int", "7", "7"},
		{"bool", "true", "true"},
		{"raw", `{"b":1,"a":[1,2]}`, `{"b":1,"a":[1,2]}`},
	} {
		for _, session := range []*client.Session{modern, legacy} {
			result := call(t, session, strings.ReplaceAll(test.tool, " ", "_"), `{}`)
			structured := test.structured
			if session == legacy && !strings.HasPrefix(structured, "{") {
				structured = "" // only objects, until 2025-11-25
			}
			if textOf(result) != test.text || string(result.StructuredContent) != structured {
				t.Errorf("%s gives %q and %s, want %q and %s", test.tool, textOf(result), result.StructuredContent, test.text, structured)
			}
			if result.IsError != (test.tool == "result") {
				t.Errorf("%s: IsError is %t", test.tool, result.IsError)
			}
		}
	}
}

// TestOutputSchema: a result with structure has a schema, where the version has
// words for it.
func TestOutputSchema(t *testing.T) {
	s := newServer(nil)
	returns(s, "string", "")
	returns[any](s, "any", nil)
	returns(s, "struct", point{})
	returns(s, "pointer", &point{})
	returns(s, "int", 7)
	server.AddTool(s, server.Tool{Name: "given", OutputSchema: json.RawMessage(`{ "type":"object", "x-own":[1.0] }`)},
		func(context.Context, *server.Request, struct{}) (any, error) { return point{}, nil })
	schemas := func(session *client.Session) map[string]string {
		found := make(map[string]string)
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			found[tool.Name] = string(tool.OutputSchema)
		}
		return found
	}
	const object = `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}`
	want := map[string]string{
		"string": "", "any": "", "struct": object, "pointer": object, "int": `{"type":"integer"}`,
		"given": `{ "type":"object", "x-own":[1.0] }`,
	}
	if diff := cmp.Diff(want, schemas(connect(t, s, client.Modern))); diff != "" {
		t.Errorf("output schemas (-want +got):\n%s", diff)
	}
	want["int"] = ""
	if diff := cmp.Diff(want, schemas(connect(t, s, client.Legacy))); diff != "" {
		t.Errorf("output schemas of the legacy era (-want +got):\n%s", diff)
	}
}

// TestToolErrors checks that the error of a function is a result for the model, except for a
// *jsonrpc.Error.
func TestToolErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		fails := func(name string, err error) {
			server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (point, error) { return point{}, err })
		}
		fails("plain", errors.New("the oven is cold"))
		fails("wrapped", fmt.Errorf("baking: %w", &jsonrpc.Error{Code: -42, Message: "no flour", Data: json.RawMessage(`{"x":1}`)}))
		returns(s, "channel", map[string]any{"c": make(chan int)})
		returns(s, "nil block", []mcp.Content{nil})
		session := connect(t, s, era)

		result := call(t, session, "plain", `{}`)
		if !result.IsError || textOf(result) != "the oven is cold" || result.StructuredContent != nil {
			t.Errorf("an error is told as %+v", result)
		}
		_, err := session.CallTool(t.Context(), "wrapped", nil, nil)
		wantCode(t, err, -42)
		var e *jsonrpc.Error
		if errors.As(err, &e) && (e.Message != "no flour" || string(e.Data) != `{"x":1}`) {
			t.Errorf("the protocol's error is told as %+v", e)
		}
		if result := call(t, session, "channel", `{}`); !result.IsError || !strings.Contains(textOf(result), "encoding") {
			t.Errorf("a result that has no JSON is told as %+v", result)
		}
		if log.Len() > 0 {
			t.Errorf("the operator is bothered with %s", &log)
		}
		_, err = session.CallTool(t.Context(), "nil_block", nil, nil)
		wantCode(t, err, jsonrpc.InternalError)
		if !strings.Contains(log.String(), "tools/call") {
			t.Errorf("an error that nobody is shown is not logged: %s", &log)
		}
	})
}

// TestOmitEmpty: authors know the tag from encoding/json.
func TestOmitEmpty(t *testing.T) {
	type report struct {
		Count int    `json:"count,omitempty"`
		Done  bool   `json:"done,omitempty"`
		Name  string `json:"name,omitempty"`
	}
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "report"}, func(_ context.Context, r *server.Request, in report) (report, error) {
		if sent := string(r.Call().Member("arguments")); sent != "{}" {
			t.Errorf("the arguments are %s, want {}", sent)
		}
		return in, nil
	})
	result, err := connect(t, s, client.Modern).CallTool(t.Context(), "report", report{}, nil)
	if err != nil || string(result.StructuredContent) != "{}" {
		t.Errorf("the result is %v, error %v, want {}", result, err)
	}
}

// TestGivenOutputSchemaIsKept checks that a result that violates its schema is not sent. The log
// has the violation; the caller only gets an error.
func TestGivenOutputSchemaIsKept(t *testing.T) {
	const given = `{"type":"object","properties":{"n":{"type":"integer","minimum":1},"s":{"type":"string"}},"required":["n"]}`
	const secret = "the safe is behind the picture"
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		gives := func(name string, out any) {
			server.AddTool(s, server.Tool{Name: name, OutputSchema: jsonRaw(given)}, func(context.Context, *server.Request, struct{}) (any, error) { return out, nil })
			server.AddRawTool(s, server.Tool{Name: "raw_" + name, InputSchema: jsonRaw(`{"type":"object"}`), OutputSchema: jsonRaw(given)},
				func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) {
					if result, ok := out.(*mcp.CallToolResult); ok {
						return result, nil
					}
					return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: mustJSON(t, out)}, nil
				})
		}
		gives("fits", map[string]any{"n": 1, "s": secret})
		gives("misses", map[string]any{"s": secret})
		gives("mistypes", map[string]any{"n": secret})
		gives("bounds", map[string]any{"n": 0, "s": secret})
		gives("text", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(secret)}})
		gives("fails", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("an error of its own")}, IsError: true})
		server.AddTool(s, server.Tool{Name: "string", OutputSchema: jsonRaw(given)}, func(context.Context, *server.Request, struct{}) (any, error) { return secret, nil })
		session := connect(t, s, era)
		for _, name := range []string{"fits", "raw_fits", "fails", "raw_fails"} {
			if result := call(t, session, name, `{}`); result.IsError != strings.HasSuffix(name, "fails") {
				t.Errorf("%s gives %+v", name, result)
			}
		}
		for name, place := range map[string]string{"misses": `\"n\"`, "mistypes": "/n", "bounds": "/n", "text": "null", "string": ""} {
			for _, tool := range []string{name, "raw_" + name} {
				if tool == "raw_string" {
					continue
				}
				log.Reset()
				_, err := session.CallTool(t.Context(), tool, nil, nil)
				if wantCode(t, err, jsonrpc.InternalError); strings.Contains(message(err), "safe") || strings.Contains(message(err), "/n") {
					t.Errorf("%s: the caller is told %q", tool, message(err))
				}
				if !strings.Contains(log.String(), place) || !strings.Contains(log.String(), `"tool":"`+tool+`"`) {
					t.Errorf("%s: the operator is told %s", tool, &log)
				}
			}
		}
	})
}

// TestContentArrives: content of all kinds, with all that may stand on it, is the same
// at the other end.
func TestContentArrives(t *testing.T) {
	size, priority := int64(3), 0.5
	about := &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: &priority, LastModified: "2026-07-28T00:00:00Z"}
	content := []mcp.Content{
		&mcp.TextContent{Text: "a", Annotations: about, Meta: mcp.Meta(`{"x":1}`)},
		&mcp.ImageContent{Data: []byte{0, 255}, MIMEType: "image/png", Annotations: about},
		&mcp.AudioContent{Data: []byte{1}, MIMEType: "audio/wav", Meta: mcp.Meta(`{"x":1}`)},
		&mcp.ResourceLink{URI: "app:a", Name: "a", Title: "A", Description: "a thing", MIMEType: "text/plain", Size: &size, Annotations: about},
		&mcp.EmbeddedResource{Resource: &mcp.TextResourceContents{URI: "app:t", MIMEType: "text/plain", Text: ""}, Annotations: about},
		&mcp.EmbeddedResource{Resource: &mcp.BlobResourceContents{URI: "app:b", Blob: []byte{}, Meta: mcp.Meta(`{"x":1}`)}},
		&mcp.UnknownContent{Raw: jsonRaw(`{"type":"hologram","depth":1.50}`)},
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		returns(s, "list", content)
		returns(s, "result", &mcp.CallToolResult{Content: content, StructuredContent: jsonRaw(`{"a": 1.50}`), Meta: mcp.Meta(`{"org.example/x":1}`)})
		server.AddPrompt(s, server.Prompt{Name: "prompt"}, func(context.Context, *server.Request, struct{}) ([]mcp.PromptMessage, error) {
			var messages []mcp.PromptMessage
			for _, c := range content {
				messages = append(messages, mcp.PromptMessage{Role: mcp.RoleAssistant, Content: c})
			}
			return messages, nil
		})
		session := connect(t, s, era)
		for _, tool := range []string{"list", "result"} {
			result := call(t, session, tool, `{}`)
			if diff := cmp.Diff(content, []mcp.Content(result.Content)); diff != "" {
				t.Errorf("%s (-sent +got):\n%s", tool, diff)
			}
			if own := strings.Contains(string(result.Meta), `"org.example/x":1`); own != (tool == "result") {
				t.Errorf("%s has _meta %s", tool, result.Meta)
			}
			if got := string(result.StructuredContent); tool == "result" && got != `{"a": 1.50}` {
				t.Errorf("the structured content is %s", got)
			}
		}
		prompt, err := session.GetPrompt(t.Context(), "prompt", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, message := range prompt.Messages {
			if diff := cmp.Diff(content[i], message.Content); diff != "" || message.Role != mcp.RoleAssistant {
				t.Errorf("message %d of the %s (-sent +got):\n%s", i, message.Role, diff)
			}
		}
	})
}

// TestTextThatLooksLikeAResult is text, and a value that looks like one is a value.
func TestTextThatLooksLikeAResult(t *testing.T) {
	const looks = `{"content":[{"type":"text","text":"x"}],"isError":true}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		returns(s, "text", looks)
		returns(s, "value", map[string]any{"content": []any{map[string]any{"text": "x", "type": "text"}}, "isError": true})
		session := connect(t, s, era)
		if result := call(t, session, "text", `{}`); textOf(result) != looks || result.IsError || result.StructuredContent != nil {
			t.Errorf("the text is %+v", result)
		}
		result := call(t, session, "value", `{}`)
		if want := `{"content":[{"text":"x","type":"text"}],"isError":true}`; result.IsError || textOf(result) != want || string(result.StructuredContent) != want {
			t.Errorf("the value is %+v", result)
		}
	})
}

func mustJSON(t testing.TB, value any) jsonRaw {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// memberNames are the names of an object's members in their order, without escapes, those
// that stand twice included.
func memberNames(t testing.TB, object []byte) (names []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		names = append(names, fmt.Sprint(name))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
	}
	return names
}

// TestEscapedMembers: a member of a result is itself however its name is written, so the
// server adds no second one, and takes out what does not belong there.
func TestEscapedMembers(t *testing.T) {
	const far = `{"name":"far","version":"1"}`
	results := map[string]string{
		"escaped _meta":      `{"KIND":[],"\u005fmeta":{"org.example/x":1}}`,
		"escaped serverInfo": `{"KIND":[],"_meta":{"org.example/x":1,"io.modelcontextprotocol\/serverInfo":` + far + `}}`,
		"both":               `{"\u005f\u006deta":{"org.example/x":1,"io.modelcontextprotocol/serverInf\u006f":` + far + `},"KIND":[]}`,
		"escaped stamp":      `{"KIND":[],"result\u0054ype":"complete","ttl\u004ds":7,"cache\u0053cope":"private","\u005fmeta":{"org.example/x":1}}`,
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for what, result := range results {
			answer := func(kind string) mcp.Raw { return mcp.Raw(strings.Replace(result, "KIND", kind, 1)) }
			s, child, m := newServer(nil), newServer(nil), newTestProvider()
			server.AddRawTool(child, server.Tool{Name: "raw", InputSchema: jsonRaw(`{"type":"object"}`)},
				func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) { return answer("content"), nil })
			m.setEntries(m.entry(mcp.KindPrompt, "p", `{"name":"p"}`), m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`))
			m.handle = func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				return answer(map[string]string{mcp.MethodPromptsGet: "messages", mcp.MethodResourcesRead: "contents"}[call.Method()]), nil
			}
			mount(t, s, child, "c_")
			mountProvider(t, s, m, "m_")
			for method, params := range map[string]string{
				mcp.MethodToolsCall: `"name":"c_raw","arguments":{}`, mcp.MethodPromptsGet: `"name":"m_p"`, mcp.MethodResourcesRead: `"uri":"app:r"`,
			} {
				got := newDispatcher(t, s, era, method, params).dispatch(t)
				var object map[string]json.RawMessage
				if err := json.Unmarshal(got, &object); err != nil {
					t.Errorf("%s, %s: %s: %v", what, method, got, err)
					continue
				}
				names, meta := memberNames(t, got), memberNames(t, object["_meta"])
				slices.Sort(names)
				slices.Sort(meta)
				want := []string{"org.example/x"}
				if era == client.Modern {
					want = []string{mcp.MetaServerInfo, "org.example/x"}
				}
				if len(slices.Compact(slices.Clone(names))) != len(names) || !slices.Equal(meta, want) {
					t.Errorf("%s, %s: sent is %s, with _meta %q, want %q", what, method, got, meta, want)
				}
				if strings.Contains(string(got), "far") {
					t.Errorf("%s, %s: sent is %s", what, method, got)
				}
			}
		}
	}
}

// TestEscapedMetaArrives at a client, over the transport of this run.
func TestEscapedMetaArrives(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: jsonRaw(`{"type":"object"}`)}, func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) {
			return mcp.Raw(`{"content":[],"\u005fmeta":{"org.example/x":1}}`), nil
		})
		result := call(t, connect(t, s, era), "raw", `{}`)
		if names := memberNames(t, result.Meta); !slices.Contains(names, "org.example/x") {
			t.Errorf("_meta is %s", result.Meta)
		}
	})
}

type leg struct {
	To   *string  `json:"to"`
	Via  []string `json:"via"`
	Next *leg     `json:"next"`
	Note *string  `json:"note,omitempty"`
}

// trips gives its results as a service.
type trips struct{}

type (
	tripIn   struct{ _ server.ToolTag }
	noTripIn struct{ _ server.ToolTag }
)

func (trips) Trip(context.Context, tripIn) (leg, error)      { return leg{Next: &leg{}}, nil }
func (trips) NoTrip(context.Context, noTripIn) (*leg, error) { return nil, nil }

// TestResultsFitTheirSchemas: what a type gives when its pointers and lists are nil is
// what its schema promises. MCP 2025-11-25, server/tools, "Output Schema": servers MUST
// provide structured results that conform to it.
func TestResultsFitTheirSchemas(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		here := "here"
		returns(s, "nothing", leg{})
		returns(s, "pointer", &leg{})
		returns(s, "full", leg{To: &here, Via: []string{"there"}, Next: &leg{To: &here}, Note: &here})
		returns(s, "map", map[string]leg(nil))
		server.AddService(s, trips{})
		session := connect(t, s, era)
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name == "no_trip" {
				continue
			}
			validator, err := schema.Compile(tool.OutputSchema, nil)
			if err != nil {
				t.Fatal(err)
			}
			result := call(t, session, tool.Name, `{}`)
			if err := validator.Validate(t.Context(), result.StructuredContent); err != nil || result.IsError {
				t.Errorf("%s gives %s, which does not fit %s: %v", tool.Name, result.StructuredContent, tool.OutputSchema, err)
			}
		}
	})
}

// TestNoResult: a nil pointer where a value is promised is a failure of the function,
// and not the value null.
func TestNoResult(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		returns[*leg](s, "none", nil)
		server.AddService(s, trips{})
		session := connect(t, s, era)
		for _, tool := range []string{"none", "no_trip"} {
			result := call(t, session, tool, `{}`)
			if !result.IsError || textOf(result) != "the function returned no result" || result.StructuredContent != nil {
				t.Errorf("%s gives %s, %q", tool, result.StructuredContent, textOf(result))
			}
		}
	})
}

type bytesGiver struct{}

func (bytesGiver) Trip(context.Context, tripIn) ([]byte, error) { return nil, nil }

// TestBytesAreNoResult: they do not say what they are.
func TestBytesAreNoResult(t *testing.T) {
	_, tool := server.NewTool(server.Tool{Name: "x"}, func(context.Context, *server.Request, struct{}) ([]byte, error) { return nil, nil })
	_, method := server.Service(bytesGiver{})
	for _, err := range []error{tool, method} {
		if err == nil || !strings.Contains(err.Error(), "mcp.Image") {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestArgumentsOfInvalidTypes are refused when the tool is registered, not when
// it is called.
func TestArgumentsOfInvalidTypes(t *testing.T) {
	_, err := server.NewTool(server.Tool{Name: "x"}, nothing[struct{ Content mcp.Content }])
	if err == nil || !strings.Contains(err.Error(), "Content") || !strings.Contains(err.Error(), "interface") {
		t.Errorf("the error is %v", err)
	}
}

// TestSharedResults checks that a function may return the same value each time.
func TestSharedResults(t *testing.T) {
	s := newServer(nil)
	result := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("x"), &mcp.ResourceLink{URI: "a:b", Name: "b"}}, StructuredContent: jsonRaw(`[1]`), Meta: mcp.Meta(`{"a":1}`)}
	read := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.TextResourceContents{URI: "app:r", Text: "x"}}, Meta: mcp.Meta(`{"a":1}`)}
	prompt := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("x")}}}
	rawResult := mcp.Raw(`{"content":[], "structuredContent":[1],"_meta":{"a":1}}`)
	values := []string{"a", "b"}
	before := marshalled(t, result, read, prompt, rawResult)

	returns(s, "tool", result)
	server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: jsonRaw(`{"type":"object"}`)},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return rawResult, nil })
	reads(s, server.Resource{URI: "app:r"}, read)
	server.AddPrompt(s, server.Prompt{Name: "p"}, func(context.Context, *server.Request, struct {
		X string `json:"x,omitempty"`
	}) (*mcp.GetPromptResult, error) {
		return prompt, nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "p", Argument: "x"},
		func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return values, nil
		})

	var work sync.WaitGroup
	for _, era := range []client.Era{client.Modern, client.Legacy, client.Modern, client.Legacy} {
		session := connect(t, s, era)
		work.Go(func() {
			for range 20 {
				call(t, session, "tool", `{}`)
				call(t, session, "raw", `{}`)
				contents(t, session, "app:r")
				if _, err := session.GetPrompt(t.Context(), "p", nil, nil); err != nil {
					t.Error(err)
				}
				if _, err := session.CompletePrompt(t.Context(), "p", "x", "", nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if after := marshalled(t, result, read, prompt, rawResult); after != before {
		t.Errorf("the results have become\n%s, were\n%s", after, before)
	}
}

func marshalled(t *testing.T, results ...mcp.Result) string {
	t.Helper()
	var all []byte
	for _, r := range results {
		var err error
		if all, err = r.AppendJSON(all); err != nil {
			t.Fatal(err)
		}
	}
	return string(all)
}

// TestRetainedArguments: what a function keeps of its call stays as it was, whatever
// is called afterwards.
func TestRetainedArguments(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		var kept []json.RawMessage
		var were []string
		server.AddRawTool(s, server.Tool{Name: "keep", InputSchema: jsonRaw(`{"type":"object"}`)},
			func(_ context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				for _, slice := range []json.RawMessage{arguments, r.Call().Params(), r.Meta("x")} {
					kept, were = append(kept, slice), append(were, string(slice))
				}
				return mcp.Raw(`{"content":[]}`), nil
			})
		session := connect(t, s, era)
		for i := range 50 {
			meta := mcp.Meta(fmt.Sprintf(`{"x":%d}`, i))
			if _, err := session.CallTool(t.Context(), "keep", map[string]int{"n": i}, &client.CallOptions{Meta: meta}); err != nil {
				t.Fatal(err)
			}
		}
		for i, slice := range kept {
			if string(slice) != were[i] {
				t.Fatalf("slice %d has become %s, was %s", i, slice, were[i])
			}
		}
	})
}

type answersFor struct {
	Sure bool `json:"sure"`
}

// virtualEras is eachEra with virtual time.
func virtualEras(t *testing.T, test func(t *testing.T, era client.Era)) {
	t.Helper()
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) { test(t, era) })
	})
}

// TestArgumentsThatAreNull checks that null for an optional argument is read as absent if the arguments are
// decoded, and is refused by the schema of a raw tool. Both tools have the same schema.
func TestArgumentsThatAreNull(t *testing.T) {
	type order struct {
		Item string `json:"item" jsonschema:"the item, by name"`
		Bill *bool  `json:"bill" jsonschema:"send a bill"`
		Note string `json:"note,omitempty"`
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "typed"}, func(_ context.Context, _ *server.Request, in order) (string, error) {
			return fmt.Sprint(in.Item, in.Bill, in.Note), nil
		})
		session := connect(t, s, era)
		var listed *mcp.Tool
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			listed = tool
		}
		const want = `{"type":"object","properties":{"item":{"type":"string","description":"the item, by name"},` +
			`"bill":{"type":"boolean","description":"send a bill"},"note":{"type":"string"}},"required":["item"],"additionalProperties":false}`
		if string(listed.InputSchema) != want {
			t.Errorf("the schema is %s", listed.InputSchema)
		}
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: listed.InputSchema}, func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			return nil, fmt.Errorf("it runs with %s", arguments)
		})
		if result := call(t, session, "typed", `{"bill":null,"item":"rye","note":null}`); result.IsError || textOf(result) != "rye<nil>" {
			t.Errorf("typed: %q", textOf(result))
		}
		if result := call(t, session, "typed", `{"item":null}`); !result.IsError || textOf(result) != `at "/item": expected a string, got null` {
			t.Errorf("typed: %q", textOf(result))
		}
		if result := call(t, session, "raw", `{"item":"rye","bill":null}`); !result.IsError || textOf(result) != `at "/bill": expected a boolean, got null` {
			t.Errorf("raw: %q", textOf(result))
		}
	})
}

// durations are integers in arguments and results, as in encoding/json.
type durations struct {
	Wait  time.Duration            `json:"wait"`
	Retry *time.Duration           `json:"retry,omitempty"`
	Each  []time.Duration          `json:"each,omitempty"`
	By    map[string]time.Duration `json:"by,omitempty"`
}

func TestDurations(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "wait"}, func(_ context.Context, _ *server.Request, in durations) (durations, error) {
			in.Wait *= 2
			return in, nil
		})
		server.AddTool(s, server.Tool{Name: "double"}, func(_ context.Context, _ *server.Request, in struct{ Wait time.Duration }) (time.Duration, error) {
			return 2 * in.Wait, nil
		})
		session := connect(t, s, era)
		in := durations{
			Wait: time.Second, Retry: new(time.Minute), Each: []time.Duration{1, 2}, By: map[string]time.Duration{"all": time.Hour},
		}
		got, err := client.CallAs[durations](t.Context(), session, "wait", in, nil)
		want := in
		want.Wait = 2 * time.Second
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		twice, err := client.CallAs[time.Duration](t.Context(), session, "double", jsonRaw(`{"Wait":1500000000}`), nil)
		if twice != 3*time.Second || err != nil {
			t.Errorf("got %v, %v", twice, err)
		}
		if result := call(t, session, "double", `{"Wait":"1s"}`); !result.IsError {
			t.Errorf("a text is accepted: %v", result)
		}
	})
}
