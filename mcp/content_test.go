package mcp_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestContentKinds(t *testing.T) {
	size := int64(3)
	tests := []struct {
		json string
		want mcp.Content
	}{
		{`{"type":"text","text":"a"}`, mcp.Text("a")},
		{`{"text":"a","type":"text"}`, mcp.Text("a")},
		{`{"type":"t\u0065xt","text":"a"}`, mcp.Text("a")},
		{`{"type":"image","data":"AP8=","mimeType":"image/png"}`, mcp.Image([]byte{0, 255}, "image/png")},
		{`{"type":"audio","data":"AP8=","mimeType":"audio/wav"}`, mcp.Audio([]byte{0, 255}, "audio/wav")},
		{`{"type":"resource_link","uri":"a:b","name":"n","size":3}`, (&mcp.Resource{URI: "a:b", Name: "n", Size: &size}).Link()},
		{`{"type":"resource","resource":{"uri":"a:b","text":""}}`, mcp.Embed(&mcp.TextResourceContents{URI: "a:b"})},
		{`{"type":"resource","resource":{"uri":"a:b","blob":"AP8="}}`, mcp.Embed(&mcp.BlobResourceContents{URI: "a:b", Blob: []byte{0, 255}})},
		{`{"type":"tool_use","id":"1","name":"n","input":{}}`, &mcp.ToolUseContent{ID: "1", Name: "n", Input: json.RawMessage("{}")}},
		{`{"type":"tool_result","toolUseId":"1","content":[]}`, &mcp.ToolResultContent{ToolUseID: "1", Content: mcp.ContentList{}}},
		{`{"type":"Text", "text":1}`, &mcp.UnknownContent{Raw: json.RawMessage(`{"type":"Text", "text":1}`)}},
		{`{"type":"","x":1}`, &mcp.UnknownContent{Raw: json.RawMessage(`{"type":"","x":1}`)}},
	}
	for _, test := range tests {
		got, err := mcp.DecodeContent([]byte(test.json))
		if err != nil {
			t.Errorf("%s: %v", test.json, err)
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.json, diff)
		}
		if !equalJSON(t, appended(t, got), []byte(test.json)) {
			t.Errorf("%s goes out as %s", test.json, appended(t, got))
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		into codec
		json string
		want string
	}{
		{new(mcp.CallToolResult), `[]`, `mcp: expected an object, got an array`},
		{new(mcp.CallToolResult), `{"content":{}}`, `mcp: at /content: expected an array of content, got an object`},
		{new(mcp.CallToolResult), `{"content":[],"isError":"yes"}`, `mcp: at /isError: expected a boolean, got a string`},
		{new(mcp.CallToolResult), `{"_meta":[]}`, `mcp: at /_meta: expected an object, got an array`},
		{new(mcp.SamplingMessage), `{"role":"user","content":"text"}`, `mcp: at /content: expected an array of content, got a string`},
		{new(mcp.CreateMessageParams), `{"messages":[],"maxTokens":"1"}`, `mcp: at /maxTokens: expected an integer, got a string`},
	}
	for _, test := range tests {
		err := test.into.UnmarshalJSON([]byte(test.json))
		if _, ok := errors.AsType[*mcp.DecodeError](err); !ok {
			t.Errorf("%s: %v is no *DecodeError", test.json, err)
			continue
		}
		if err.Error() != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.json, err, test.want)
		}
	}
}

// TestDecodeErrorIsBounded checks that a peer's text does not make an error long.
func TestDecodeErrorIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	for _, text := range []string{
		`{"` + long + `":1,"` + long + `":2}`,
		`{"capabilities":{"experimental":{"` + long + `":`,
		`{"capabilities":{"` + long + `":1,"` + long + `":1}}`,
	} {
		err := new(mcp.InitializeParams).UnmarshalJSON([]byte(text))
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("the message has %d bytes", len(err.Error()))
		}
	}
}

// TestToolResultsDoNotNest checks that results are not nested: each level would be decoded again.
func TestToolResultsDoNotNest(t *testing.T) {
	const depth = 400
	text := strings.Repeat(`{"type":"tool_result","toolUseId":"1","content":[`, depth) + strings.Repeat(`]}`, depth)
	content, err := mcp.DecodeContent([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	inner := content.(*mcp.ToolResultContent).Content[0]
	unknown, ok := inner.(*mcp.UnknownContent)
	if !ok || unknown.Type() != "tool_result" {
		t.Errorf("inside is a %T", inner)
	}
	if string(appended(t, content)) != text {
		t.Error("the text has changed on its way")
	}
}

func TestSamplingContentForms(t *testing.T) {
	for in, out := range map[string]string{
		`{"type":"text","text":"a"}`:                              `{"type":"text","text":"a"}`,
		`[{"type":"text","text":"a"}]`:                            `{"type":"text","text":"a"}`,
		`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`,
		`[]`: `[]`,
	} {
		var content mcp.SamplingContent
		if err := json.Unmarshal([]byte(in), &content); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, err := json.Marshal(content); err != nil || string(got) != out {
			t.Errorf("%s goes out as %s, %v; want %s", in, got, err, out)
		}
	}
}

func TestContentListJSON(t *testing.T) {
	var list mcp.ContentList
	if err := json.Unmarshal([]byte(`[{"type":"text","text":"a"},{"type":"x"}]`), &list); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(list)
	if err != nil || string(got) != `[{"type":"text","text":"a"},{"type":"x"}]` {
		t.Errorf("%s, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{}`), &list); err == nil {
		t.Error("an object is taken for a list")
	}
}

// TestInvalidUTF8IsReplaced checks that a Go string that is not UTF-8 makes a valid message.
func TestInvalidUTF8IsReplaced(t *testing.T) {
	for _, value := range []any{mcp.Text("a\xffb"), &mcp.Implementation{Name: "a\xffb"}} {
		if encoded := appended(t, value); !strings.Contains(string(encoded), "a\uFFFDb") {
			t.Errorf("%T goes out as %s", value, encoded)
		}
	}
}

func TestNumbersOfProgress(t *testing.T) {
	for number, want := range map[float64]string{0: "0", 1: "1", 0.5: "0.5", 1e6: "1000000", 1e21: "1e+21", 1e-7: "1e-07"} {
		encoded := appended(t, &mcp.ProgressParams{ProgressToken: mcp.ProgressToken("1"), Progress: number})
		if want := `{"progressToken":1,"progress":` + want + `}`; string(encoded) != want {
			t.Errorf("%v goes out as %s", number, encoded)
		}
	}
}

func TestLoggingLevels(t *testing.T) {
	last := -1
	for _, level := range mcp.LoggingLevels() {
		if !level.Valid() || level.Severity() <= last {
			t.Errorf("%s has severity %d after %d", level, level.Severity(), last)
		}
		last = level.Severity()
	}
	for _, level := range []mcp.LoggingLevel{"", "Info", "warn"} {
		if level.Valid() || level.Severity() != -1 {
			t.Errorf("%q is a level", level)
		}
	}
}

func TestValidateSampling(t *testing.T) {
	said := func(role mcp.Role, content ...mcp.Content) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: role, Content: content}
	}
	use := func(id string) mcp.Content { return &mcp.ToolUseContent{ID: id, Name: "tool"} }
	result := func(id string) mcp.Content { return &mcp.ToolResultContent{ToolUseID: id} }
	for _, test := range []struct {
		name     string
		messages []mcp.SamplingMessage
		says     string // "" when they are valid
	}{
		{"nothing", nil, ""},
		{"talk", []mcp.SamplingMessage{said(mcp.RoleUser, mcp.Text("a")), said(mcp.RoleAssistant, mcp.Text("b"))}, ""},
		{"use and result", []mcp.SamplingMessage{
			said(mcp.RoleUser, mcp.Text("a")), said(mcp.RoleAssistant, mcp.Text("let me see"), use("1"), use("2")),
			said(mcp.RoleUser, result("2"), result("1")), said(mcp.RoleAssistant, mcp.Text("done")),
		}, ""},
		{"use at the end", []mcp.SamplingMessage{said(mcp.RoleAssistant, use("1"))}, ""},
		{"result of nothing", []mcp.SamplingMessage{said(mcp.RoleUser, result("1"))}, "message 0: the tool result \"1\" answers no tool use"},
		{"result too late", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, result("1")), said(mcp.RoleUser, result("1")),
		}, "message 2: the tool result"},
		{"one use is not answered", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1"), use("2")), said(mcp.RoleUser, result("1")),
		}, `message 1: it must answer the tool use "2"`},
		{"talk instead of a result", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, mcp.Text("never mind")),
		}, "message 1: it must answer"},
		{"answered twice", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, result("1"), result("1")),
		}, "message 1: the tool result"},
		{"result of the assistant", []mcp.SamplingMessage{said(mcp.RoleAssistant, result("1"))}, "message 0: tool results are the user's"},
		{"use of the user", []mcp.SamplingMessage{said(mcp.RoleUser, use("1"))}, "message 0: tool uses are the assistant's"},
		{"result beside text", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, result("1"), mcp.Text("here")),
		}, "message 1: a message with tool results has 1 other contents"},
		{"two uses of one id", []mcp.SamplingMessage{said(mcp.RoleAssistant, use("1"), use("1"))}, "message 0: two tool uses"},
	} {
		err := mcp.ValidateSampling(test.messages)
		switch {
		case test.says == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.says != "" && (err == nil || !strings.HasPrefix(err.Error(), test.says)):
			t.Errorf("%s: the error is %v, want %s…", test.name, err, test.says)
		}
	}
}

func TestText(t *testing.T) {
	for name, test := range map[string]struct {
		result interface{ Text() string }
		want   string
	}{
		"tool":        {&mcp.CallToolResult{Content: mcp.ContentList{mcp.Text("a"), &mcp.ImageContent{}, mcp.Text("b")}}, "a\nb"},
		"failed tool": {&mcp.CallToolResult{IsError: true, Content: mcp.ContentList{mcp.Text("no such file")}}, "no such file"},
		"empty":       {&mcp.CallToolResult{}, ""},
		"prompt": {&mcp.GetPromptResult{Messages: []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: mcp.Text("ask")}, {Role: mcp.RoleUser, Content: &mcp.AudioContent{}}, {Role: mcp.RoleAssistant, Content: mcp.Text("answer")},
		}}, "ask\nanswer"},
		"resource": {&mcp.ReadResourceResult{Contents: []mcp.ResourceContents{
			&mcp.TextResourceContents{URI: "file:///a", Text: "a"}, &mcp.BlobResourceContents{URI: "file:///b"}, &mcp.TextResourceContents{URI: "file:///c", Text: "c"},
		}}, "a\nc"},
	} {
		if got := test.result.Text(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Half a surrogate pair is decoded to U+FFFD; bytes that are not UTF-8 are refused.
func TestInvalidText(t *testing.T) {
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON([]byte(`{"content":[{"type":"text","text":"\ud83d"}]}`)); err != nil || result.Text() != "\ufffd" {
		t.Errorf("half a pair gives %q, %v", result.Text(), err)
	}
	for _, text := range []string{"{\"content\":[],\"x\":[\"\xa8\"]}", "{\"content\":[{\"type\":\"text\",\"text\":\"\xa8\"}]}"} {
		var wrong *mcp.DecodeError
		if err := new(mcp.CallToolResult).UnmarshalJSON([]byte(text)); !errors.As(err, &wrong) || wrong.Got != "invalid UTF-8" {
			t.Errorf("%q gives %v", text, err)
		}
	}
}
