package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A member that is null is absent, in every type of the protocol.
func TestNullIsAbsent(t *testing.T) {
	isValue := map[string]bool{ // types of members for which null is a value
		"CallToolResult.structuredContent": true, "ToolResultContent.structuredContent": true, "EventParams.ttlMs": true,
	}
	everySample(t, func(t *testing.T, name string, value codec) {
		encoded := appended(t, value)
		members, err := jsonscan.ReadObject(encoded)
		if err != nil {
			t.Fatal(err)
		}
		for m := range members.All() {
			null := splice(t, encoded, m.Name(), []byte("null"))
			without, withNull := newCodec[name](), newCodec[name]()
			absent := without.UnmarshalJSON(splice(t, encoded, m.Name(), nil))
			if err := withNull.UnmarshalJSON(null); (err == nil) != (absent == nil) {
				t.Errorf("%s: %v, without the member %v", null, err, absent)
				continue
			}
			if diff := cmp.Diff(without, withNull, compareIDs); (diff == "") == isValue[name+"."+m.Name()] {
				t.Errorf("%s (-absent +null):\n%s", null, diff)
			}
		}
	})
}

func splice(t *testing.T, object []byte, name string, value []byte) []byte {
	t.Helper()
	edited, err := jsonscan.Splice(nil, object, jsonscan.Edit{Name: name, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return edited
}

// A container is a type with a list of blocks or contents.
type container struct {
	before, after string
	of            func() codec
	list          func(codec) []any
}

func list[T any](items []T) []any {
	all := make([]any, len(items))
	for i, item := range items {
		all[i] = item
	}
	return all
}

var containers = map[string]container{
	"result of a tool": {`{"content":[`, `]}`, func() codec { return new(mcp.CallToolResult) }, func(c codec) []any { return list(c.(*mcp.CallToolResult).Content) }},
	"answer of a model": {`{"role":"assistant","model":"m","content":[`, `]}`, func() codec { return new(mcp.CreateMessageResult) }, func(c codec) []any {
		return list(c.(*mcp.CreateMessageResult).Content)
	}},
	"message to a model": {`{"role":"user","content":[`, `]}`, func() codec { return new(mcp.SamplingMessage) }, func(c codec) []any { return list(c.(*mcp.SamplingMessage).Content) }},
	"result of a tool for a model": {`{"type":"tool_result","toolUseId":"1","content":[`, `]}`, func() codec { return new(mcp.ToolResultContent) }, func(c codec) []any {
		return list(c.(*mcp.ToolResultContent).Content)
	}},
}

var resources = container{`{"contents":[`, `]}`, func() codec { return new(mcp.ReadResourceResult) }, func(c codec) []any { return list(c.(*mcp.ReadResourceResult).Contents) }}

// base64Forms are spellings of the same bytes.
func base64Forms() (data []byte, forms []string) {
	data = []byte(strings.Repeat("\xfb\xff\xfe?>", 30) + "x") // has + and / in every line, and padding
	std := base64.StdEncoding.EncodeToString(data)
	url := base64.URLEncoding.EncodeToString(data)
	for _, text := range []string{std, strings.TrimRight(std, "="), url, strings.TrimRight(url, "=")} {
		for _, fold := range []string{"", `\n`, `\r\n`, ` `, `\u000a`} {
			folded := text[:64] + fold + text[64:128] + fold + text[128:] + fold
			forms = append(forms, folded, strings.ReplaceAll(folded, "/", `\/`))
		}
	}
	return data, forms
}

func TestFormsOfBase64(t *testing.T) {
	data, forms := base64Forms()
	for _, form := range forms {
		for block, want := range map[string]any{
			`{"type":"image","mimeType":"image/png","data":"` + form + `"}`:                  &mcp.ImageContent{MIMEType: "image/png", Data: data},
			`{"type":"audio","mimeType":"audio/wav","data":"` + form + `"}`:                  &mcp.AudioContent{MIMEType: "audio/wav", Data: data},
			`{"type":"resource","resource":{"uri":"a:b","blob":"` + form + `"}}`:             &mcp.EmbeddedResource{Resource: &mcp.BlobResourceContents{URI: "a:b", Blob: data}},
			`{"type":"resource","resource":{"uri":"a:b","text":null,"blob":"` + form + `"}}`: &mcp.EmbeddedResource{Resource: &mcp.BlobResourceContents{URI: "a:b", Blob: data}},
		} {
			for name, c := range containers {
				checkList(t, name, c, block, want)
			}
			var prompt mcp.GetPromptResult
			if err := prompt.UnmarshalJSON([]byte(`{"messages":[{"role":"user","content":` + block + `}]}`)); err != nil || !reflect.DeepEqual(prompt.Messages[0].Content, want) {
				t.Errorf("prompt: %s: %v, %v", block, prompt.Messages, err)
			}
		}
		checkList(t, "resource", resources, `{"uri":"a:b","blob":"`+form+`"}`, &mcp.BlobResourceContents{URI: "a:b", Blob: data})
	}
	for _, bad := range []string{"A", "AA===", "AA=A", "A*==", "AAAAé"} {
		if content, err := mcp.DecodeContent([]byte(`{"type":"image","mimeType":"a/b","data":"` + bad + `"}`)); err == nil {
			t.Errorf("%s is decoded as %v", bad, content)
		}
	}
}

func checkList(t *testing.T, name string, c container, text string, want ...any) {
	t.Helper()
	value := c.of()
	if err := value.UnmarshalJSON([]byte(c.before + text + c.after)); err != nil {
		t.Errorf("%s: %s: %v", name, text, err)
	} else if diff := cmp.Diff(want, c.list(value), compareErrors); diff != "" {
		t.Errorf("%s: %s (-want +got):\n%s", name, text, diff)
	}
}

// compareErrors compares the errors of blocks by whether they are there.
var compareErrors = cmp.Comparer(func(a, b error) bool {
	return (a == nil) == (b == nil)
})

// A block that cannot be decoded is kept with the reason, and the others are not lost. It is not sent on.
func TestOneBadBlock(t *testing.T) {
	some := errors.New("some error")
	for _, bad := range []string{
		`{"type":"image","data":"!!!","mimeType":"image/png"}`, `{"type":"image","data":7}`, `{"type":"text","text":7}`, `{"type":7}`, `{}`, `5`, `"text"`, `[]`, `true`,
		`{"type":"text","text":"a","annotations":7}`, `{"type":"text","text":"a","_meta":[]}`, `{"type":"resource"}`, `{"type":"resource","resource":null}`,
	} {
		for name, c := range containers {
			good := &mcp.TextContent{Text: "good"}
			text := `{"type":"text","text":"good"},` + bad + `,null,{"type":"text","text":"good"}`
			checkList(t, name, c, text, good, &mcp.UnknownContent{Raw: json.RawMessage(bad), Err: some}, good)
			value := c.of()
			if err := value.UnmarshalJSON([]byte(c.before + text + c.after)); err != nil {
				t.Fatal(err)
			}
			if sent := string(appended(t, value)); strings.Count(sent, `"good"`) != 2 || strings.Contains(sent, bad) && len(bad) > 6 {
				t.Errorf("%s: %s is sent as %s", name, bad, sent)
			}
		}
	}
	for _, bad := range []string{`{"uri":"a:b"}`, `{"uri":"a:b","text":null,"blob":null}`, `{"uri":"a:b","text":"a","blob":"YQ=="}`, `{"uri":"a:b","blob":"!"}`, `{"uri":7,"text":"a"}`, `7`, `"null"`} {
		good := &mcp.TextResourceContents{URI: "a:b", Text: "good"}
		text := `{"uri":"a:b","text":"good","blob":null},` + bad + `,null,{"uri":"a:b","text":"good"}`
		checkList(t, "resource", resources, text, good, &mcp.UnknownResourceContents{Raw: json.RawMessage(bad), Err: some}, good)
		value := resources.of()
		if err := value.UnmarshalJSON([]byte(resources.before + text + resources.after)); err != nil {
			t.Fatal(err)
		}
		if sent, want := string(appended(t, value)), `{"contents":[{"uri":"a:b","text":"good"},{"uri":"a:b","text":"good"}]}`; sent != want {
			t.Errorf("%s is sent as %s", bad, sent)
		}
	}
	var prompt mcp.GetPromptResult
	if err := prompt.UnmarshalJSON([]byte(`{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"image","data":"!"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if unknown, ok := prompt.Messages[1].Content.(*mcp.UnknownContent); !ok || unknown.Err == nil || prompt.Text() != "a" {
		t.Errorf("the prompt is %v", prompt)
	}
}

// In the payload of a result, the last of several members with one name counts. Elsewhere they are refused.
func TestDuplicatesInResults(t *testing.T) {
	text := &mcp.TextContent{Text: "last"}
	const block = `{"type":"image","text":"first","type":"text","text":"middle","t\u0065xt":"last"}`
	for name, c := range containers {
		if name == "message to a model" || name == "result of a tool for a model" {
			continue // no results
		}
		checkList(t, name, c, block+`,`+block, text, text)
	}
	checkList(t, "resource", resources, `{"uri":"a:x","blob":"YQ==","blob":null,"uri":"a:b","text":"last"}`, &mcp.TextResourceContents{URI: "a:b", Text: "last"})
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON([]byte(`{"structuredContent":{"a":{"x":1,"x":2},"a":[{"y":1,"y":2}]},"content":[` + block + `],"isError":true}`)); err != nil ||
		string(result.StructuredContent) != `{"a":[{"y":2}]}` || result.Text() != "last" || !result.IsError {
		t.Errorf("%s %s, %v", result.StructuredContent, result.Text(), err)
	}
	var prompt mcp.GetPromptResult
	if err := prompt.UnmarshalJSON([]byte(`{"messages":[{"role":"user","content":` + block + `},{"role":"user","content":` + block + `}]}`)); err != nil || prompt.Text() != "last\nlast" {
		t.Errorf("%v, %v", prompt, err)
	}
	for strict, into := range map[string]codec{
		`{"action":"accept","content":{"decision":"no","decision":"yes"}}`:                                     new(mcp.ElicitResult),
		`{"content":[],"isError":true,"isError":false}`:                                                        new(mcp.CallToolResult),
		`{"content":[{"type":"text","text":"a"}],"content":[]}`:                                                new(mcp.CallToolResult),
		`{"content":[],"_meta":{"a":{"b":1,"b":2}}}`:                                                           new(mcp.CallToolResult),
		`{"content":[],"x":{"b":1,"b":2}}`:                                                                     new(mcp.CallToolResult),
		`{"contents":[],"resultType":"complete","resultType":"x"}`:                                             new(mcp.ReadResourceResult),
		`{"messages":[{"role":"user","role":"assistant","content":{"type":"text","text":"a"}}]}`:               new(mcp.GetPromptResult),
		`{"messages":[{"role":"user","content":{"type":"text","text":"a"},"content":{"type":"x"}}]}`:           new(mcp.GetPromptResult),
		`{"tools":[{"name":"a","name":"b","inputSchema":{"type":"object"}}]}`:                                  new(mcp.ListToolsResult),
		`{"tools":[{"name":"a","inputSchema":{"type":"object","type":"string"}}]}`:                             new(mcp.ListToolsResult),
		`{"inputRequests":{"a":{"method":"roots/list"},"a":{"method":"roots/list"}},"requestState":"s"}`:       new(mcp.InputRequiredResult),
		`{"inputRequests":{"a":{"method":"roots/list","params":{"x":1,"x":2}}},"resultType":"input_required"}`: new(mcp.InputRequiredResult),
		`{"messages":[{"role":"user","content":{"type":"text","text":"a","text":"b"}}],"maxTokens":1}`:         new(mcp.CreateMessageParams),
		`{"name":"a","arguments":{"a":1,"a":2}}`:                                                               new(mcp.CallToolParams),
		`{"mode":"form","message":"m","requestedSchema":{"type":"object","type":"x"}}`:                         new(mcp.ElicitParams),
	} {
		if err := into.UnmarshalJSON([]byte(strict)); err == nil {
			t.Errorf("%s is decoded", strict)
		}
	}
}

func TestProgressTokens(t *testing.T) {
	for token, want := range map[string]string{
		`"a"`: `"a"`, `""`: `""`, `7`: `7`, `-7`: `-7`, `7.0`: `7.0`, `1e3`: `1e3`, `9007199254740993`: `9007199254740993`,
		`null`: "", `true`: "", `false`: "", `{}`: "", `{"a":1}`: "", `[]`: "", `[1]`: "", `1.5`: "", `1e-1`: "", `1e999`: "",
	} {
		var p mcp.ProgressParams
		err := p.UnmarshalJSON([]byte(`{"progressToken":` + token + `,"progress":1}`))
		if err != nil || string(p.ProgressToken) != want {
			t.Errorf("%s is %s, %v", token, p.ProgressToken, err)
		}
		req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(`{"_meta":{"progressToken":`+token+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		if call := mcp.NewCall(req, nil, nil); string(call.ProgressToken()) != want {
			t.Errorf("%s of a call is %s", token, call.ProgressToken())
		}
	}
}

// An extension that is declared as null is not declared.
func TestNullExtension(t *testing.T) {
	for settings, want := range map[string]bool{`null`: false, `{}`: true, `{"a":1}`: true} {
		var client mcp.ClientCapabilities
		var server mcp.ServerCapabilities
		text := fmt.Appendf(nil, `{"extensions":{"x":%s}}`, settings)
		if err := errors.Join(client.UnmarshalJSON(text), server.UnmarshalJSON(text)); err != nil || client.HasExtension("x") != want || server.HasExtension("x") != want {
			t.Errorf("%s: %t, %t, %v", settings, client.HasExtension("x"), server.HasExtension("x"), err)
		}
	}
}
